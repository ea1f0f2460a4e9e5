package telemetry

import (
	"bufio"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

// exposition returns the lines of a scrape that asks for a format.
func exposition(t *testing.T, m *Metrics, accept string) []string {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	m.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var lines []string
	for all := bufio.NewScanner(w.Body); all.Scan(); {
		lines = append(lines, all.Text())
	}
	return lines
}

const openMetrics = "application/openmetrics-text; version=1.0.0"

// expectLines demands lines of a scrape.
func expectLines(t *testing.T, lines []string, want ...string) {
	t.Helper()
	all := "\n" + strings.Join(lines, "\n") + "\n"
	for _, line := range want {
		if !strings.Contains(all, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

const envoyRules = `domain: edge.a
descriptors:
  - {key: tenant, value: acme, rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: route
    descriptors:
      - {key: ip, value: 10.0.0.1, rate_limit: {unit: minute, requests_per_unit: 10}, shadow_mode: true}
      - {key: free, rate_limit: {unlimited: true}}
  - {key: tenant, value: "a:b|c*", rate_limit: {unit: minute, requests_per_unit: 5}}
`

// The statistics of envoyproxy/ratelimit, by its names: near_limit has what is above eight
// tenths, over_limit and shadow_mode what is denied, by hits and not by requests.
func TestK1EnvoyNames(t *testing.T) {
	m := New(Build{}, Options{EnvoyNames: true})
	set := load(t, envoyRules)
	m.RulesInForce(set, time.Now())
	m.Reloaded(ReloadLoaded)
	m.Reloaded(ReloadRefused)
	says := func(rule int, hits, remaining int64, v headgate.Verdict) {
		r := set.Rules()[rule]
		v.Rule, v.Hits = r, hits
		if len(r.Limits) > 0 {
			v.Limit = r.Limits[0].Limit
			v.Decision.Limit, v.Decision.Remaining = v.Limit.Quota, remaining
		}
		m.Decided(&headgate.Request{}, &headgate.Response{Allowed: !v.OverLimit(), DomainKnown: true, Verdicts: []headgate.Verdict{v}}, 7*time.Millisecond)
	}
	passes := headgate.Verdict{Decision: limit.Decision{Allowed: true}}
	says(0, 7, 3, passes) // 7 of 10: within
	says(0, 2, 1, passes) // 9 of 10: one is near
	says(0, 4, 0, headgate.Verdict{})
	says(0, 1, 0, headgate.Verdict{By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: limit.Decision{Allowed: true}})
	says(1, 3, 0, headgate.Verdict{Effect: verdict.RuleShadow})
	says(2, 1, 0, passes)
	m.Unfit()
	for _, format := range []string{"text/plain", openMetrics} { // which appends _total to the names of counters
		lines := exposition(t, m, format)
		acme := `{domain="edge",key1="a",key2="tenant_acme"} `
		shadowed := `{domain="edge",key1="a",key2="route"} `
		count := func(n string) string {
			if format == openMetrics {
				return n + ".0"
			}
			return n
		}
		expectLines(t, lines,
			"ratelimit_service_rate_limit_total_hits"+acme+count("14"),
			"ratelimit_service_rate_limit_within_limit"+acme+count("9"),
			"ratelimit_service_rate_limit_near_limit"+acme+count("1"),
			"ratelimit_service_rate_limit_over_limit"+acme+count("4"),
			"ratelimit_service_rate_limit_shadow_mode"+acme+count("0"),
			"ratelimit_service_rate_limit_over_limit"+shadowed+count("3"),
			"ratelimit_service_rate_limit_shadow_mode"+shadowed+count("3"),
			`ratelimit_service_rate_limit_total_hits{domain="edge",key1="a",key2="tenant_a_b_c*"} `+count("0"),
			`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} `+count("6"),
			`ratelimit_service_should_rate_limit_error{err_type="redis_error"} `+count("1"),
			`ratelimit_service_should_rate_limit_error{err_type="service_error"} `+count("1"),
			`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.005"} 0`,
			`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.01"} 6`,
			"ratelimit_service_config_load_success "+count("1"),
			"ratelimit_service_config_load_error "+count("1"),
		)
		if strings.Contains(strings.Join(lines, "\n"), "key2=\"free\"") {
			t.Error("an unlimited rule has statistics")
		}
	}
}

// Hits that are given back are not hits, whoever decides about them, and those of one descriptor
// are not those of another.
func TestEnvoyNamesOfRefunds(t *testing.T) {
	m := New(Build{}, Options{EnvoyNames: true})
	set := load(t, `
domain: d
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 10}}
- {key: host, rate_limit: {unit: minute, requests_per_unit: 10}, detailed_metric: true}
`)
	m.RulesInForce(set, time.Now())
	says := func(op store.Op, by verdict.Decider) {
		req, resp := &headgate.Request{}, &headgate.Response{Allowed: true, DomainKnown: true}
		for i, r := range set.Rules() {
			req.Descriptors = append(req.Descriptors, headgate.Descriptor{Op: op, Hits: 9, Entries: []descriptor.Entry{{Key: r.Path()[0], Value: "v"}}})
			resp.Verdicts = append(resp.Verdicts, headgate.Verdict{
				Rule: r, Descriptor: i, Depth: 1, Limit: r.Limits[0].Limit, Hits: 9, By: by, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 1},
			})
		}
		m.Decided(req, resp, time.Millisecond)
	}
	says(store.Hit, verdict.ByStore)
	says(store.Refund, verdict.ByStore)
	says(store.Refund, verdict.ByFailureMode)
	lines := exposition(t, m, "text/plain")
	for _, labels := range []string{`{domain="d",key1="user"} `, `{domain="d",key1="host_v"} `} {
		expectLines(t, lines,
			"ratelimit_service_rate_limit_total_hits"+labels+"9",
			"ratelimit_service_rate_limit_within_limit"+labels+"9",
			"ratelimit_service_rate_limit_near_limit"+labels+"1",
			"ratelimit_service_rate_limit_over_limit"+labels+"0",
			"ratelimit_service_rate_limit_total_negative_hits"+labels+"18",
		)
	}
}

// The labels of a rule are those that the original's mapping makes of its name: three at
// most, so that deeper levels add up, and with dots of addresses and networks replaced.
func TestEnvoyLabels(t *testing.T) {
	m := New(Build{}, Options{EnvoyNames: true})
	set := load(t, `
domain: shop
descriptors:
- key: masked_remote_address
  value: 0.0.0.0/0
  rate_limit: {unit: hour, requests_per_unit: 9}
- key: route
  descriptors:
  - key: masked_remote_address
    value: "invert:192.0.2.0/24"
    rate_limit: {unit: hour, requests_per_unit: 9}
    descriptors:
    - {key: user, rate_limit: {unit: hour, requests_per_unit: 9}}
    - {key: host, value: www.example.com, rate_limit: {unit: hour, requests_per_unit: 9}}
- {key: host, value: www.example.com, rate_limit: {unit: hour, requests_per_unit: 9}}
`)
	m.RulesInForce(set, time.Now())
	for _, r := range set.Rules() {
		m.Decided(nil, &headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
			{Rule: r, Limit: r.Limits[0].Limit, Hits: 2, Decision: limit.Decision{Allowed: true, Limit: 9, Remaining: 5}},
		}}, 0)
	}
	expectLines(t, exposition(t, m, "text/plain"),
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="masked_remote_address_0_0_0_0/0"} 2`,
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="route",key2="masked_remote_address_invert_192_0_2_0/24"} 6`,
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="host_www",key2="example"} 2`,
	)
}

// Counts by those names outlive a reload as the others do.
func TestEnvoyHitsFollowTheRules(t *testing.T) {
	m := New(Build{}, Options{EnvoyNames: true})
	for range 3 {
		set := load(t, envoyRules)
		m.RulesInForce(set, time.Now())
		r := set.Rules()[0]
		m.Decided(nil, &headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
			{Rule: r, Limit: r.Limits[0].Limit, Hits: 2, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 5}},
		}}, 0)
	}
	expectLines(t, exposition(t, m, "text/plain"), `ratelimit_service_rate_limit_total_hits{domain="edge",key1="a",key2="tenant_acme"} 6`)
}

func TestK1PlainNames(t *testing.T) {
	m := New(Build{}, Options{PlainNames: true})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Now())
	m.WatchShards(func() []Shard { return []Shard{{Store: "store", Addr: "a:1", Breaker: 2}} })
	r := set.Rules()[0]
	bursts := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 10, Period: time.Second})
	decided(m, headgate.Response{Verdicts: []headgate.Verdict{{Rule: r, Limit: bursts, Decision: limit.Decision{Limit: 10, RetryAfter: 1500 * time.Millisecond}}}})
	decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{Rule: r, Limit: bursts, By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: limit.Decision{Allowed: true}}}})
	for range 2 * sampleEvery * len(m.stripes.all) {
		decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{Rule: r, Limit: bursts, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 4}}}})
	}
	passed := strconv.Itoa(2 * sampleEvery * len(m.stripes.all))
	allowedTotal := strconv.Itoa(2*sampleEvery*len(m.stripes.all) + 1)
	expectLines(t, exposition(t, m, "text/plain"),
		`ratelimit_decisions_total{outcome="allowed",rule="d.a"} `+passed,
		`ratelimit_decisions_total{outcome="denied",rule="d.a"} 1`,
		`ratelimit_decisions_total{outcome="allowed",rule="d.b"} 0`,
		`ratelimit_denied_total{rule="d.a"} 1`,
		`ratelimit_remaining{rule="d.a"} 4`,
		`ratelimit_check_duration_seconds_bucket{le="5e-05"} `+strconv.Itoa(2*sampleEvery*len(m.stripes.all)+2),
		`ratelimit_redis_errors_total{reason="store_timeout"} 1`,
		`ratelimit_failopen_total 1`,
		`ratelimit_circuit_state{shard="a:1",store="store"} 2`,
		`allowed_total `+allowedTotal,
		`limited_total 1`,
		`retry_after_ms_bucket{le="1000"} 0`,
		`retry_after_ms_bucket{le="2000"} 1`,
		`retry_after_ms_sum 1500`,
		`burst_exhausted_total 1`,
	)
}

// Without the switches those names are not there.
func TestNamesOfOthersAreOff(t *testing.T) {
	m := New(Build{}, Options{})
	m.RulesInForce(load(t, twoRules), time.Now())
	for _, line := range exposition(t, m, "text/plain") {
		if name, _, _ := strings.Cut(line, " "); !strings.HasPrefix(line, "#") && !strings.HasPrefix(name, "headgate_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("line %s", line)
		}
	}
}

// Every series of a process has its layer, those of the Go runtime and of rules that came
// later among them.
func TestK1EverySeriesHasItsLayer(t *testing.T) {
	m := everything(t, Options{Layer: "edge", EnvoyNames: true, PlainNames: true, Exemplars: true})
	for _, line := range exposition(t, m, "text/plain") {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, `layer="edge"`) {
			t.Errorf("line %s", line)
		}
	}
}

// exemplarLine is a line of the OpenMetrics format with an exemplar: series, value, and of
// the exemplar the trace, value and time.
var exemplarLine = regexp.MustCompile(`^(\S+) (\S+) # \{trace_id="([0-9a-f]{32})"\} (\S+) (\S+)$`)

func TestK1ExemplarsNameTheLatestTrace(t *testing.T) {
	m := New(Build{}, Options{Exemplars: true})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Now())
	began := time.Now()
	decide := func(id byte, sampled bool, took time.Duration, resp headgate.Response) {
		req := headgate.Request{Origin: headgate.Origin{Trace: trace.Parent{ID: [16]byte{15: id}, Sampled: sampled}}}
		m.Decided(&req, &resp, took)
	}
	allow, deny := usual(set), response(set)
	decide(1, true, 60*time.Microsecond, allow)
	decide(2, true, 70*time.Microsecond, allow) // the latest of its bucket
	decide(3, true, 3*time.Second, deny)        // beyond all bounds
	decide(4, false, 4*time.Millisecond, deny)  // nobody records the trace
	got := map[string][2]string{}
	for _, line := range exposition(t, m, openMetrics) {
		if !strings.Contains(line, " # ") {
			continue
		}
		parts := exemplarLine.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("line %s", line)
		}
		at, err := strconv.ParseFloat(parts[5], 64)
		if err != nil || at < float64(began.UnixMilli())/1e3-1 || at > float64(time.Now().UnixMilli())/1e3+1 {
			t.Errorf("time of %s", line)
		}
		got[parts[1]] = [2]string{parts[3][30:], parts[4]}
	}
	want := map[string][2]string{
		`headgate_decision_duration_seconds_bucket{le="0.0001"}`: {"02", "7e-05"},
		`headgate_decision_duration_seconds_bucket{le="+Inf"}`:   {"03", "3.0"},
		`headgate_requests_total{outcome="denied"}`:              {"03", "1.0"},
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for series, exemplar := range want {
		if got[series] != exemplar {
			t.Errorf("%s has %v, want %v", series, got[series], exemplar)
		}
	}
	for _, o := range []Options{{}, {Exemplars: true}} {
		m = New(Build{}, o)
		decide(1, !o.Exemplars, time.Second, deny)
		if text := strings.Join(exposition(t, m, openMetrics), "\n"); strings.Contains(text, "trace_id") {
			t.Errorf("%+v: there are exemplars", o)
		}
	}
}

// TestNearLimit: what is near a limit is a share of it, rounded down, as the original has it.
func TestNearLimit(t *testing.T) {
	for _, test := range []struct {
		ratio       float64
		limit, want int64
	}{{0, 10, 8}, {0.8, 10, 8}, {0.8, 9, 7}, {0.95, 100, 95}, {0.5, 1, 0}, {1, 10, 10}, {0.7, 10, 7}, {0.8, 1 << 50, 900719925474099}} {
		if got := nearShareOf(test.ratio).of(test.limit); got != test.want {
			t.Errorf("%v of %d: %d, want %d", test.ratio, test.limit, got, test.want)
		}
	}
	m := New(Build{}, Options{EnvoyNames: true, NearLimit: 0.5})
	set := load(t, envoyRules)
	m.RulesInForce(set, time.Now())
	r := set.Rules()[0]
	v := headgate.Verdict{Rule: r, Hits: 7, Limit: r.Limits[0].Limit, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 3}}
	m.Decided(&headgate.Request{}, &headgate.Response{Allowed: true, DomainKnown: true, Verdicts: []headgate.Verdict{v}}, time.Millisecond)
	expectLines(t, exposition(t, m, "text/plain"), `ratelimit_service_rate_limit_near_limit{domain="edge",key1="a",key2="tenant_acme"} 2`)
}

// A value of a caller cannot begin a line of its own where statistics are sent.
func TestK1ControlCharactersInNames(t *testing.T) {
	if got, want := envoyName([]string{"shop", "path_a\nshop.tenant.acme.total_hits:9|c\r\x00\u0085"}), "shop.path_a_shop.tenant.acme.total_hits_9_c___"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
