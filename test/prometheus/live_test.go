package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/test/dashboards"
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

// watched is what Prometheus watches in these tests: a node over a Redis and a database
// of tenants, and a reverse proxy in front of a backend, both under load.
type watched struct {
	redis       *testserver.RedisServer
	node, proxy *process
	// scraper is what Prometheus shows the proxy, whose metrics nobody else reads.
	scraper struct{ ca, cert, key string }
}

// process is a running headgate, and where it serves.
type process struct {
	*testserver.Process
	http, ops string
}

// The rules of the node; what is asked of each is in calls.
const nodeRules = `
domain: api
match: path
descriptors:
- {key: many, rate_limit: {unit: minute, requests_per_unit: 1000000}}
- {key: few, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: leased, consistency: leased, rate_limit: {unit: minute, requests_per_unit: 1000000}}
- {key: strict, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 1000000}}
- {key: tried, rate_limit: {unit: minute, requests_per_unit: 1000000}, candidate: {rate_limit: {unit: minute, requests_per_unit: 5}}}
- {key: bursts, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token_bucket, burst: 5}}
- {key: tenant, tenant: true, rate_limit: {unit: minute, requests_per_unit: 5}}
`

// proxyRules are those of the proxy.
const proxyRules = `
domain: site
descriptors:
- {key: remote_address, rate_limit: {unit: second, requests_per_unit: 2}}
`

const tiers = `
tiers:
  free: {default: {requests_per_unit: 5, unit: minute}}
`

// calls are the bodies that the node is asked with, in turn.
var calls = []string{"many", "few", "shadow", "leased", "strict", "tried", "bursts", "tenant"}

// watch starts everything and keeps it under load until the test ends.
func watch(t *testing.T) *watched {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	t.Cleanup(backend.Close)
	file("hooks.key", strings.Repeat("k", 32)+"\n")
	w := &watched{redis: testserver.Redis(t, testserver.RedisConfig{MaxMemory: "256mb"})}
	w.node = start(t, "serve", "--layer", "backend", "--grpc-addr", "127.0.0.1:0",
		"--rules", file("node.yaml", nodeRules), "--store", w.redis.URL(), "--store-budget", "5s", "--breaker-failures", "1",
		"--tiers", file("tiers.yaml", tiers), "--tenants", "sqlite://"+filepath.Join(dir, "tenants.db"),
		"--hooks", file("hooks.yaml", "out: [{url: "+backend.URL+", secret_file: hooks.key}]\n"),
		"--accuracy-sample", "1",
		"--audit-files", "file://"+filepath.Join(dir, "events"), "--audit-sample", "0.5",
		"--trace-endpoint", backend.URL, "--trace-ratio", "0.5",
	)
	certs := testserver.NewCertificates(t)
	w.scraper.ca = certs.CAFile
	w.scraper.cert, w.scraper.key = certs.Issue(t, testserver.Leaf{})
	w.proxy = start(t, "proxy", "--layer", "edge", "--to", backend.URL, "--rules", file("proxy.yaml", proxyRules),
		"--shed", "--fleet-capacity", "100000",
		"--ops-tls-cert", certs.CertFile, "--ops-tls-key", certs.KeyFile, "--ops-client-ca", certs.CAFile,
	)
	w.load(t)
	return w
}

// start runs a command of headgate and waits until it serves.
func start(t *testing.T, command string, args ...string) *process {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{}
	p.Process, err = testserver.StartProcess(exec.Command(path, append([]string{command,
		"--http-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--drain-delay", "0s"}, args...)...))
	if err != nil {
		t.Fatalf("start headgate: %v", err)
	}
	t.Cleanup(p.Terminate)
	if err := p.Poll(func() error {
		for line := range strings.Lines(p.Output()) {
			if rest, ok := strings.CutPrefix(line, "headgate ready "); ok {
				for field := range strings.FieldsSeq(rest) {
					switch name, address, _ := strings.Cut(field, "="); name {
					case "http":
						p.http = address
					case "ops":
						p.ops = address
					}
				}
				return nil
			}
		}
		return errors.New("not ready")
	}); err != nil {
		t.Fatalf("start headgate %s: %v", command, err)
	}
	return p
}

// load asks both processes a hundred times a second until the test ends.
func (w *watched) load(t *testing.T) {
	const pause = 10 * time.Millisecond
	client := &http.Client{Timeout: 10 * time.Second}
	discard := func(resp *http.Response, err error) {
		if err == nil { // a process that is about to end may not answer
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":"1"}]}]}`, calls[n%len(calls)])
			discard(client.Post("http://"+w.node.http+"/v1/check", "application/json", strings.NewReader(body)))
			discard(client.Get("http://" + w.proxy.http + "/"))
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
		client.CloseIdleConnections()
	})
}

// scrape starts a Prometheus that watches w every second, with the rules of deploy;
// its alerts fire without delay.
func (w *watched) scrape(t *testing.T, features ...string) *testserver.PrometheusServer {
	t.Helper()
	text, err := os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	hasty := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(hasty, regexp.MustCompile(`(?m)^    for: .*$`).ReplaceAll(text, []byte("    for: 0s")), 0o600); err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Abs(recording)
	if err != nil {
		t.Fatal(err)
	}
	return testserver.Prometheus(t, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q, %q]
scrape_configs:
- job_name: headgate
  static_configs: [{targets: [%q]}]
- job_name: headgate-proxy
  scheme: https
  tls_config: {ca_file: %q, cert_file: %q, key_file: %q}
  static_configs: [{targets: [%q]}]
`, records, hasty, w.node.ops, w.scraper.ca, w.scraper.cert, w.scraper.key, w.proxy.ops), features...)
}

// await waits until holds does. It looks less often than eventually.True, because each look
// is a query of a server that has other things to do.
func await(t *testing.T, p *testserver.PrometheusServer, what string, holds func() bool) {
	t.Helper()
	look, deadline := time.NewTicker(100*time.Millisecond), time.NewTimer(eventually.Patience)
	defer look.Stop()
	defer deadline.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %v\nfiring: %v\n%s", what, eventually.Patience, numbers(t, p, `ALERTS`), p.Output())
		}
	}
}

// answers waits until a query has a sample that is a number.
func answers(t *testing.T, p *testserver.PrometheusServer, expr string) {
	t.Helper()
	await(t, p, expr, func() bool { return len(numbers(t, p, expr)) > 0 })
}

// numbers are the samples of a query that are numbers.
func numbers(t *testing.T, p *testserver.PrometheusServer, expr string) []testserver.Sample {
	t.Helper()
	samples, err := p.Query(expr)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Output())
	}
	var kept []testserver.Sample
	for _, s := range samples {
		if !math.IsNaN(s.Value) {
			kept = append(kept, s)
		}
	}
	return kept
}

// emptyHere are metrics that are not there in this test, and why.
var emptyHere = map[string]string{
	"headgate_store_slot_skew_ratio": "the store has one server",
	"headgate_hot_keys_total":        "no key gets a thousand hits a second",
	"headgate_tenant_replica_":       "the database is a file of SQLite",
}

// onlyDegraded is in queries of what rules say while the store is away; there are no such
// series before.
const onlyDegraded = `outcome=~"degraded_.*|local_.*|open_denied"`

// show waits for the answer to a query of a dashboard; that it has none where it cannot
// have one is held too.
func show(t *testing.T, p *testserver.PrometheusServer, expr string) {
	t.Helper()
	for metric, why := range emptyHere {
		if strings.Contains(expr, metric) {
			if found := numbers(t, p, filled(expr, interval)); len(found) > 0 {
				t.Errorf("%s: %v, though %s", expr, found, why)
			}
			return
		}
	}
	answers(t, p, filled(expr, interval))
}

// interval is what rates are over: long enough for some scrapes.
const interval = "10s"

// TestK3DashboardsShow: a Prometheus that scrapes Headgate under load has an answer to
// every query of every dashboard; recording rules make their series; and alerts fire
// when Redis freezes or dies, and end when it is back.
//
//promise:observability
func TestK3DashboardsShow(t *testing.T) {
	t.Parallel()
	w := watch(t)
	p := w.scrape(t)
	firing := func(alert string) bool {
		return len(numbers(t, p, `ALERTS{alertstate="firing",alertname="`+alert+`"}`)) > 0
	}
	fire := func(when string, alerts ...string) {
		t.Helper()
		for _, alert := range alerts {
			await(t, p, alert+" fires "+when, func() bool { return firing(alert) })
		}
	}
	frozen := []string{"HeadgateBreakerOpen", "HeadgateStoreDown", "HeadgateFailOpen", "HeadgateFailClosed"}

	for _, r := range rulesOf(t, recording) {
		answers(t, p, r.Record)
	}
	// The proxy denies most requests, so that there are alerts to be shown.
	fire("under this load", "HeadgateDeniesMost")
	var later []string
	for _, d := range dashboards.All() {
		for _, expr := range queries(&d) {
			if strings.Contains(expr, onlyDegraded) {
				later = append(later, expr)
				continue
			}
			show(t, p, expr)
		}
	}
	// A machine that stalls for seconds may well give a cause.
	for _, alert := range append(frozen, "HeadgateShardDown") {
		if firing(alert) && len(numbers(t, p, `headgate_store_errors_total > 0`)) == 0 {
			t.Errorf("%s fires while all is well", alert)
		}
	}

	w.redis.Stop()
	fire("while Redis is frozen", frozen...)
	for _, expr := range later {
		show(t, p, expr)
	}
	w.redis.Kill()
	fire("without Redis", "HeadgateShardDown")

	w.redis.Restart()
	for _, alert := range []string{"HeadgateBreakerOpen", "HeadgateShardDown", "HeadgateStoreDown"} {
		await(t, p, alert+" ends when Redis is back", func() bool { return !firing(alert) })
	}
}

// TestK1NativeHistograms: a Prometheus that keeps native histograms, and so drops the
// classic buckets, answers the same queries of durations.
func TestK1NativeHistograms(t *testing.T) {
	t.Parallel()
	w := watch(t)
	p := w.scrape(t, "native-histograms")
	answers(t, p, `histogram_count(rate(headgate_decision_duration_seconds[5s])) > 0`)
	for _, r := range rulesOf(t, recording) {
		if strings.Contains(r.Record, "duration") {
			answers(t, p, r.Record)
		}
	}
	for _, d := range dashboards.All() {
		for _, expr := range queries(&d) {
			if strings.Contains(expr, "histogram_quantile") {
				answers(t, p, filled(expr, interval))
			}
		}
	}
}
