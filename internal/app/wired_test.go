package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/rules/rulefile"
)

// zeroFields returns the names of the fields of a struct that are zero, but for some.
func zeroFields(of any, but ...string) (names []string) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !slices.Contains(but, name) {
			names = append(names, name)
		}
	}
	return names
}

// processOf is a process of s that serves nothing yet.
func processOf(t *testing.T, s *config.Settings) *process {
	t.Helper()
	p, err := newProcess(s, config.Does{Decide: true}, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.leave)
	return p
}

// TestEnvoyIsAnsweredAsSet: whatever can be set of answers to Envoy, and of its connections, reaches
// what answers it; and both forms of header fields do.
func TestEnvoyIsAnsweredAsSet(t *testing.T) {
	s := settings()
	s.Compat, s.RLSClosed, s.RLSMetadata, s.RLSHeaders, s.StartWithoutRules, s.RetryJitter = "envoy", "error", true, "envoy", true, 0.5
	s.RLSLimitHeader, s.RLSRemainingHeader, s.RLSResetHeader = "A", "B", "C"
	s.GRPCMaxConnectionAge, s.GRPCMaxConnectionAgeGrace = 7*time.Minute, 7*time.Second
	s.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, s.Rules, twoADay)
	s.Store, s.DrainTimeout = config.NewStoreURL("redis://127.0.0.1:1"), 3*time.Second
	p := processOf(t, &s.Settings)
	p.doors.turns = p.turns()
	answer, err := answerOptions(&s.Settings)
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.rlsOptions(&s, answer)
	if err != nil {
		t.Fatal(err)
	}
	if missing := zeroFields(o, "Answer", "Register", "Entrances", "OnDrain", "Instead"); missing != nil {
		t.Errorf("not set: %q", missing)
	}
	if missing := zeroFields(o.Headers); missing != nil {
		t.Errorf("header fields that are not named: %q", missing)
	}
	if o.MaxConnectionAge != s.GRPCMaxConnectionAge || o.MaxConnectionAgeGrace != s.GRPCMaxConnectionAgeGrace || o.DrainTimeout != s.DrainTimeout {
		t.Errorf("connections: %v, %v, %v", o.MaxConnectionAge, o.MaxConnectionAgeGrace, o.DrainTimeout)
	}
	s.RLSHeaders, s.DrainTimeout = "http", 0
	if o, err = p.rlsOptions(&s, answer); err != nil || o.Answer == nil || o.DrainTimeout >= 0 {
		t.Errorf("header fields of HTTP: %v, drain timeout %v, %v", o.Answer != nil, o.DrainTimeout, err)
	}
}

// TestRulesAreReadAsSet: whatever can be set of the reading of rules reaches their source.
func TestRulesAreReadAsSet(t *testing.T) {
	s := shared()
	s.Compat, s.FailureMode, s.QuotaMode, s.SpareDenied, s.MergeDomains, s.RowsDomain = "envoy", "closed", true, true, true, "rows"
	s.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	text := "domain: a\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1}}"
	for _, key := range []string{"b", "c", "d"} {
		text += ", {key: " + key + ", rate_limit: {unit: hour, requests_per_unit: 1}}"
	}
	text += "]\n"
	writeFile(t, s.Rules, text)
	for _, drops := range []bool{false, true} {
		s.AllowRuleDrop = drops
		p := processOf(t, &s)
		if err := p.loadRules(); err != nil {
			t.Fatal(err)
		}
		// Names come with keys for API keys, Rows with a database.
		if missing := zeroFields(p.health.rules.FileOptions(), "Rows", "Names"); missing != nil {
			t.Errorf("not set: %q", missing)
		}
		_, err := p.health.rules.TryFile(rulefile.File{Name: p.health.rules.Files()[0].Name, Data: []byte(strings.ReplaceAll(text, "key: ", "key: other_"))})
		if (err == nil) != drops {
			t.Errorf("other rules in place of all, to be taken: %t, %v", drops, err)
		}
	}
}

// TestMetricsAreAsSet: where this process stands is a label of all series, and hits count as near the
// limit from the share on that is set.
func TestMetricsAreAsSet(t *testing.T) {
	s := settings()
	s.Layer, s.EnvoyMetrics, s.NearLimitRatio = "edge", true, 0.5
	s.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, s.Rules, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 10}}]\n")
	r := run(t, s, nil)
	defer r.end(t)
	for range 6 {
		r.ask(t, `{"domain":"d","descriptors":[{"descriptor":"user:ann"}]}`)
	}
	_, metrics := get(t, "http://"+r.ops+"/metrics")
	near := 0
	for line := range strings.Lines(metrics) {
		switch {
		case strings.HasPrefix(line, "headgate_") && !strings.Contains(line, `layer="edge"`):
			t.Errorf("without its layer: %s", line)
		case strings.HasPrefix(line, "ratelimit_service_rate_limit_near_limit{") && strings.HasSuffix(line, " 1\n"):
			near++
		}
	}
	if near != 1 {
		t.Errorf("not one of six hits of ten is near the limit:\n%s", metrics)
	}
}

// TestAdminProcessesAreAskedByCertificate: who asks shows the certificate of --admin-urls-cert and
// believes the authorities of --admin-urls-ca.
func TestAdminProcessesAreAskedByCertificate(t *testing.T) {
	certs := testserver.NewCertificates(t)
	cert, key := certs.Issue(t, testserver.Leaf{CommonName: "dashboard"})
	own, err1 := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	authority, err2 := os.ReadFile(certs.CAFile)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	admin := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	admin.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	admin.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	admin.StartTLS()
	defer admin.Close()
	s := shared()
	p := processOf(t, &s)
	for name, tt := range map[string]struct {
		link config.Link
		want int
	}{
		"both":           {config.Link{AdminURLsCA: certs.CAFile, AdminURLsCert: cert, AdminURLsKey: key}, http.StatusOK},
		"no certificate": {config.Link{AdminURLsCA: certs.CAFile}, http.StatusBadGateway},
		"no authority":   {config.Link{AdminURLsCert: cert, AdminURLsKey: key}, http.StatusBadGateway},
	} {
		tt.link.AdminURLs = admin.URL
		link, err := p.adminLink(&tt.link)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		link.Forward().ServeHTTP(w, httptest.NewRequest("GET", adminapi.Prefix+"overview", nil))
		if w.Code != tt.want || tt.want == http.StatusOK && w.Body.String() != "dashboard" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		link.Close()
	}
}

// TestReportedRulesAreCounted: what became of rules is in the metrics, whatever it was.
func TestReportedRulesAreCounted(t *testing.T) {
	s := settings()
	s.Rules, s.RulesPoll = filepath.Join(t.TempDir(), "rules.yaml"), 100*time.Millisecond
	writeFile(t, s.Rules, twoADay)
	r := run(t, s, nil)
	defer r.end(t)
	r.shows(t, "/metrics", "headgate_rules_stale 0")
	writeFile(t, s.Rules, "domain: [")
	r.shows(t, "/metrics", "headgate_rules_stale 1")
	r.shows(t, "/readyz", `"ready": true`, `"degraded": true`)
	writeFile(t, s.Rules, twoADay) // those in force again
	r.shows(t, "/metrics", "headgate_rules_stale 0")
	r.shows(t, "/readyz", `"degraded": false`)
}
