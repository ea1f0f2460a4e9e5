package telemetry

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// goneReader is a response whose reader has gone.
type goneReader struct{ header http.Header }

func (w goneReader) Header() http.Header       { return w.header }
func (w goneReader) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (w goneReader) WriteHeader(int)           {}

// Whoever breaks off requests for metrics fills no log.
func TestReaderOfMetricsGoes(t *testing.T) {
	var lines strings.Builder
	h := New(Build{}, Options{}).Handler(slog.New(slog.NewTextHandler(&lines, nil)))
	h.ServeHTTP(goneReader{http.Header{}}, httptest.NewRequest("GET", "/metrics", nil))
	if lines.Len() > 0 {
		t.Errorf("a reader who has gone left %d lines in the log: %.200s ...", strings.Count(lines.String(), "\n"), lines.String())
	}
}

// scrape returns all series of m by their text.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	series := map[string]float64{}
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") || !strings.HasPrefix(line, "headgate_") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		series[line[:at]] = value
	}
	return series
}

func expect(t *testing.T, m *Metrics, want map[string]float64) {
	t.Helper()
	got := scrape(t, m)
	for name, v := range want {
		if value, ok := got[name]; !ok || value != v {
			t.Errorf("%s is %v (there: %v), want %v", name, value, ok, v)
		}
	}
}

func load(t testing.TB, text string) *rules.Set {
	t.Helper()
	return testrules.Load(t, text)
}

const twoRules = `domain: d
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 1}}
`

func decided(m *Metrics, resp headgate.Response) {
	m.Decided(&headgate.Request{Domain: "d"}, &resp, 30*time.Microsecond)
}

func TestOutcomes(t *testing.T) {
	m := New(Build{Version: "v1"}, Options{})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Unix(1700000000, 0))
	rule := set.Rules()[0]
	limited := rule.Limits[0].Limit
	for _, tt := range []struct {
		verdict           headgate.Verdict
		outcome, response string
	}{
		{headgate.Verdict{Rule: rule, Limit: limited, Decision: limit.Decision{Allowed: true}}, "allowed", "allowed"},
		{headgate.Verdict{Rule: rule, Limit: limited}, "denied", "denied"},
		{headgate.Verdict{Rule: rule, Limit: limited, Effect: verdict.RuleShadow}, "shadow_denied", "allowed"},
		{headgate.Verdict{Rule: rule, By: verdict.ByReplacement, Decision: limit.Decision{Allowed: true}}, "replaced", "allowed"},
		{headgate.Verdict{Rule: rule, Limit: limited, By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: limit.Decision{Allowed: true}}, "degraded_allowed", "degraded_allowed"},
		{headgate.Verdict{Rule: rule, Limit: limited, By: verdict.ByFailureMode, Degraded: store.Full}, "degraded_denied", "degraded_denied"},
		{headgate.Verdict{Rule: rule, Limit: limited, Effect: verdict.RuleShadow, By: verdict.ByFailureMode, Degraded: store.Full}, "degraded_allowed", "degraded_allowed"},
		{headgate.Verdict{Rule: rule, Limit: limited, Degraded: store.BreakerOpen, By: verdict.ByLocalShare, Decision: limit.Decision{Allowed: true}}, "local_allowed", "degraded_allowed"},
		{headgate.Verdict{Rule: rule, Limit: limited, Degraded: store.BreakerOpen, By: verdict.ByLocalShare}, "local_denied", "degraded_denied"},
		{headgate.Verdict{Rule: rule, Limit: limited, By: verdict.BySkipping, Decision: limit.Decision{Allowed: true}}, "skipped", "allowed"},
	} {
		before := scrape(t, m)
		resp := headgate.Response{Allowed: !tt.verdict.OverLimit(), DomainKnown: true, Verdicts: []headgate.Verdict{tt.verdict}}
		decided(m, resp)
		byRule := `headgate_decisions_total{outcome="` + tt.outcome + `",rule="d.a"}`
		byRequest := `headgate_requests_total{outcome="` + tt.response + `"}`
		expect(t, m, map[string]float64{byRule: before[byRule] + 1, byRequest: before[byRequest] + 1})
	}
	expect(t, m, map[string]float64{
		"headgate_failopen_total":                               2,
		`headgate_store_errors_total{reason="store_timeout"}`:   1,
		`headgate_store_errors_total{reason="store_full"}`:      2,
		`headgate_store_errors_total{reason="store_breaker"}`:   2,
		"headgate_decision_duration_seconds_count":              10,
		`headgate_decision_duration_seconds_bucket{le="5e-05"}`: 10,
		"headgate_rules": 2,
		"headgate_rules_loaded_timestamp_seconds":               1700000000,
		`headgate_rules_info{version="` + set.Version() + `"}`:  1,
		`headgate_build_info{commit="",go="",version="v1"}`:     1,
		`headgate_decisions_total{outcome="denied",rule="d.b"}`: 0,
	})
}

func TestRequestsThatNothingLimits(t *testing.T) {
	m := New(Build{}, Options{})
	decided(m, headgate.Response{Allowed: true})
	decided(m, headgate.Response{Allowed: true, DomainKnown: true})
	decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{Decision: limit.Decision{Allowed: true}}}})
	decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{By: verdict.ByFailureMode, Degraded: "a new reason", Decision: limit.Decision{Allowed: true}}}})
	expect(t, m, map[string]float64{
		`headgate_requests_total{outcome="unknown_domain"}`:                    1,
		`headgate_requests_total{outcome="unmatched"}`:                         1,
		`headgate_decisions_total{outcome="allowed",rule="(caller)"}`:          1,
		`headgate_store_errors_total{reason="internal"}`:                       1,
		`headgate_decisions_total{outcome="degraded_allowed",rule="(caller)"}`: 1,
	})
}

// TestSeriesFollowTheRules reloads rules for a long time: the number of series
// stays that of the rules in force, rules that stay keep their counts, and a
// request that was under way is counted.
func TestSeriesFollowTheRules(t *testing.T) {
	m := New(Build{}, Options{})
	stays := load(t, twoRules)
	m.RulesInForce(stays, time.Now())
	deny := func(r *rules.Rule) {
		decided(m, headgate.Response{Verdicts: []headgate.Verdict{{Rule: r}}})
	}
	deny(stays.Rules()[0])
	old := stays.Rules()
	count := 0
	for i := range 50 {
		set := load(t, strings.ReplaceAll(twoRules, "key: b", "key: new"+strconv.Itoa(i)))
		m.RulesInForce(set, time.Now())
		deny(set.Rules()[0])
		deny(old[1]) // a request that began before the reload
		old = set.Rules()
		n := len(scrape(t, m))
		if i == 1 {
			count = n
		}
		if i > 1 && n != count {
			t.Fatalf("%d series after reload %d, %d after the first", n, i, count)
		}
	}
	expect(t, m, map[string]float64{
		`headgate_decisions_total{outcome="denied",rule="d.a"}`:        51,
		`headgate_decisions_total{outcome="denied",rule="(outdated)"}`: 50,
		`headgate_decisions_total{outcome="denied",rule="d.new49"}`:    0,
	})
	if _, ok := scrape(t, m)[`headgate_decisions_total{outcome="denied",rule="d.new3"}`]; ok {
		t.Error("a rule that is gone has a series still")
	}
}

func TestReloads(t *testing.T) {
	m := New(Build{}, Options{})
	m.Reloaded(ReloadLoaded)
	expect(t, m, map[string]float64{`headgate_rules_reloads_total{outcome="loaded"}`: 1, "headgate_rules_stale": 0})
	m.Reloaded(ReloadRefused)
	expect(t, m, map[string]float64{`headgate_rules_reloads_total{outcome="refused"}`: 1, "headgate_rules_stale": 1})
	m.RulesStale(false)
	expect(t, m, map[string]float64{"headgate_rules_stale": 0})
	m.Reloaded(ReloadLastGood)
	expect(t, m, map[string]float64{`headgate_rules_reloads_total{outcome="last_good"}`: 1, "headgate_rules_stale": 1})
}

func TestPanicsAreCounted(t *testing.T) {
	m := New(Build{}, Options{})
	m.Panicked(errors.New("bug"))
	expect(t, m, map[string]float64{"headgate_panics_total": 1})
}

func TestMemoryAndStore(t *testing.T) {
	m := New(Build{}, Options{})
	state := memstore.Stats{Keys: 1, Bytes: 2, MaxBytes: 3, Overflowed: 4}
	m.WatchMemory(func() memstore.Stats { return state })
	m.StoreUp(true)
	expect(t, m, map[string]float64{
		"headgate_memory_store_keys": 1, "headgate_memory_store_bytes": 2, "headgate_memory_store_max_bytes": 3,
		"headgate_memory_store_overflow_total": 4, "headgate_store_up": 1,
	})
	state.Keys = 9
	m.StoreUp(false)
	expect(t, m, map[string]float64{"headgate_memory_store_keys": 9, "headgate_store_up": 0})
}

// response has what a usual request has: two rules, one of them denying.
func response(set *rules.Set) headgate.Response {
	r := set.Rules()
	return headgate.Response{DomainKnown: true, Verdicts: []headgate.Verdict{
		{Rule: r[0], Limit: r[0].Limits[0].Limit, Decision: limit.Decision{Allowed: true}},
		{Rule: r[1], Limit: r[1].Limits[0].Limit},
	}}
}

func TestDecidedDoesNotAllocate(t *testing.T) {
	m := New(Build{}, Options{})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Now())
	request, resp := &headgate.Request{}, response(set)
	took := time.Microsecond
	if n := alloctest.PerRun(1000, func() {
		took = took%time.Millisecond + time.Microsecond
		m.Decided(request, &resp, took)
	}); n != 0 {
		t.Errorf("%v allocations per decision, want 0", n)
	}
}

func TestDecidedWhileRulesChange(t *testing.T) {
	m := New(Build{}, Options{})
	sets := []*rules.Set{load(t, twoRules), load(t, strings.ReplaceAll(twoRules, "key: b", "key: c"))}
	m.RulesInForce(sets[1], time.Now())
	m.RulesInForce(sets[0], time.Now()) // both are known, the other as the previous one
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			resp := response(sets[g%2])
			for range 2000 {
				m.Decided(&headgate.Request{}, &resp, time.Microsecond)
			}
		})
	}
	all.Go(func() {
		for i := range 200 {
			m.RulesInForce(sets[(i+1)%2], time.Now())
		}
	})
	all.Wait()
	expect(t, m, map[string]float64{
		`headgate_requests_total{outcome="denied"}`:              8000,
		`headgate_decisions_total{outcome="allowed",rule="d.a"}`: 8000,
	})
}

func BenchmarkDecided(b *testing.B) {
	m := New(Build{}, Options{})
	set := load(b, twoRules)
	m.RulesInForce(set, time.Now())
	request, resp := &headgate.Request{}, response(set)
	b.ReportAllocs()
	for b.Loop() {
		m.Decided(request, &resp, 30*time.Microsecond)
	}
}
