package telemetry

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// passing is a response that a rule allows.
func passing(r *rules.Rule) headgate.Response {
	return headgate.Response{Allowed: true, DomainKnown: true, Verdicts: []headgate.Verdict{
		{Rule: r, Limit: r.Limits[0].Limit, Decision: limit.Decision{Allowed: true, Limit: 1}},
	}}
}

func denying(r *rules.Rule) headgate.Response {
	resp := passing(r)
	resp.Allowed, resp.Verdicts[0].Decision.Allowed = false, false
	return resp
}

// near allows for what the cells of durations round.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9+want/stepsOfOctave }

// Thirty seconds of a steady load, then a denial spike: rates follow within RateSpan, the
// latencies are those of LatencySpan, and counts go on through a reload.
func TestK4OverviewOfRates(t *testing.T) {
	m := New(Build{}, Options{})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Now())
	now := time.Unix(1_700_000_000, 0)
	second := func(allow, deny int, took time.Duration) {
		m.look(now)
		for range allow {
			resp := passing(set.Rules()[0])
			m.Decided(nil, &resp, took)
		}
		for range deny {
			resp := denying(set.Rules()[1])
			m.Decided(nil, &resp, took)
		}
		now = now.Add(time.Second)
	}
	overview := func(most int) (o view.Overview) {
		m.overview(&o, most, now)
		return o
	}
	if o := overview(9); o.Rates != (view.Requests{}) || o.Latency != (view.Latency{}) || len(o.Rules) != 2 || o.Rules[0].Rates != (view.Outcomes{}) {
		t.Errorf("before the first look: %+v", o)
	}
	for range 30 {
		second(20, 0, 100*time.Microsecond)
	}
	o := overview(9)
	if !near(o.Rates.Allowed, 20) || o.Rates.Denied != 0 || o.Requests.Allowed != 600 {
		t.Errorf("steady: %+v", o)
	}
	for range 10 {
		second(20, 5, 900*time.Microsecond)
	}
	set = load(t, strings.ReplaceAll(twoRules, "key: a", "key: c")+"  - {key: z, rate_limit: {unit: minute, requests_per_unit: 1}}\n")
	m.RulesInForce(set, time.Now())
	o = overview(2)
	if !near(o.Rates.Allowed, 20) || !near(o.Rates.Denied, 5) {
		t.Errorf("spike: %+v", o.Rates)
	}
	ids := []string{}
	for _, r := range o.Rules {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"d.b", "d.c"}) || o.RulesMore != 1 || !near(o.Rules[0].Rates.Denied, 5) || o.Rules[0].Outcomes.Denied != 50 || o.Rules[1].Rates != (view.Outcomes{}) {
		t.Errorf("rules: %+v, %d more", o.Rules, o.RulesMore)
	}
	if l := o.Latency; l.Count != 600+250 || !near(l.P50, 100e-6) || !near(l.P90, 900e-6) || !near(l.P99, 900e-6) {
		t.Errorf("latency: %+v", l)
	}
	for range 70 {
		second(0, 0, 0)
	}
	if o = overview(0); o.Rates != (view.Requests{}) || o.Latency != (view.Latency{}) || o.Rules == nil || len(o.Rules) != 0 || o.RulesMore != 3 {
		t.Errorf("long after: %+v", o)
	}
	if a, b := len(m.history.rates), len(m.history.latencies); a > 12 || b > 62 {
		t.Errorf("%d and %d looks are remembered", a, b)
	}
}

// What stands for no rule is shown where it has counted something.
func TestOverviewOfCallers(t *testing.T) {
	m := New(Build{}, Options{})
	m.RulesInForce(load(t, twoRules), time.Now())
	now := time.Unix(1_700_000_000, 0)
	m.look(now)
	resp := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{Decision: limit.Decision{Allowed: true}}}}
	m.Decided(nil, &resp, 0)
	m.RulesInForce(load(t, twoRules), time.Now())
	var o view.Overview
	m.overview(&o, 9, now.Add(time.Second))
	if len(o.Rules) != 3 || o.Rules[0].ID != callerRule || o.Rules[0].Rates.Allowed != 1 {
		t.Errorf("%+v", o.Rules)
	}
}

// A clock that steps back, or a process that slept, makes no rate negative nor any memory grow.
func TestOverviewOfOddClocks(t *testing.T) {
	m := New(Build{}, Options{})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Now())
	now := time.Unix(1_700_000_000, 0)
	for i := range 300 {
		m.look(now)
		resp := passing(set.Rules()[0])
		m.Decided(nil, &resp, time.Millisecond)
		var o view.Overview
		m.overview(&o, 9, now)
		if o.Rates.Allowed < 0 || o.Rates.Allowed > 300 || o.Latency.P99 < 0 || math.IsNaN(o.Rates.Allowed) {
			t.Fatalf("step %d: %+v", i, o)
		}
		now = now.Add([]time.Duration{time.Second, -time.Hour, 0, 24 * time.Hour}[i%4])
		if i > 100 && i < 250 {
			now = now.Add(-2 * time.Second)
		}
	}
	if a, b := len(m.history.rates), len(m.history.latencies); a > 12 || b > 62 {
		t.Errorf("%d and %d looks are remembered", a, b)
	}
}

func TestRunLooksOnceASecond(t *testing.T) {
	m := New(Build{}, Options{})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Now())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); m.Run(ctx) }()
		time.Sleep(500 * time.Millisecond)
		for range 20 {
			for range 7 {
				resp := passing(set.Rules()[0])
				m.Decided(nil, &resp, time.Millisecond)
			}
			time.Sleep(time.Second)
		}
		var o view.Overview
		m.Overview(&o, 9)
		if !near(o.Rates.Allowed, 7) || o.Latency.Count != 140 || !near(o.Latency.P50, 1e-3) {
			t.Errorf("%+v", o)
		}
		cancel()
		<-ended
	})
}
