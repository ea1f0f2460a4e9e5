package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/verdict"
)

// quota is a verdict on the quota of a tenant with a tier, of which so much is left.
func quota(tier string, allowed bool, remaining int64) headgate.Verdict {
	return headgate.Verdict{
		Tier: tier, Limit: limit.Must(limit.PerMinute(10)),
		Decision: limit.Decision{Allowed: allowed, Limit: 10, Remaining: remaining},
	}
}

func TestTiers(t *testing.T) {
	m := New(Build{}, Options{})
	at := time.Unix(1e9, 0)
	m.look(at)
	for range 100 * sampleEvery {
		decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{quota("pro", true, 4)}})
	}
	for range 10 {
		decided(m, headgate.Response{Verdicts: []headgate.Verdict{quota("free", false, 0)}})
	}
	for _, v := range []headgate.Verdict{{Role: rules.InFlight}, {Effect: verdict.Trial}, {By: verdict.ByReplacement}, {By: verdict.ByFailureMode, Degraded: "store_timeout"}, {By: verdict.BySkipping}} {
		v.Tier, v.Limit = "none", limit.Must(limit.PerMinute(10))
		decided(m, headgate.Response{Verdicts: []headgate.Verdict{v}})
	}
	series := scrape(t, m)
	expect(t, m, map[string]float64{
		`headgate_tier_decisions_total{outcome="allowed",tier="pro"}`: 100 * sampleEvery,
		`headgate_tier_decisions_total{outcome="denied",tier="pro"}`:  0,
		`headgate_tier_decisions_total{outcome="denied",tier="free"}`: 10,
	})
	looked := series[`headgate_tier_used_ratio_count{tier="pro"}`]
	if used := series[`headgate_tier_used_ratio_sum{tier="pro"}`]; looked < 50 || used < 0.59*looked || used > 0.61*looked {
		t.Errorf("of %v looked at %v were used together, want 0.6 of each", looked, used)
	}
	if _, there := series[`headgate_tier_decisions_total{outcome="denied",tier="none"}`]; there {
		t.Error("what no quota has decided is counted for a tier")
	}
	var o view.Overview
	m.overview(&o, 0, at.Add(10*time.Second))
	if len(o.Tiers) != 2 || o.Tiers[0].Tier != "free" || o.Tiers[0].DeniedRate != 1 || o.Tiers[1].AllowedRate != 160 || o.Tiers[1].Used < 0.59 || o.Tiers[1].Used > 0.61 {
		t.Errorf("%+v", o.Tiers)
	}
	quiet := tierCounts{allowed: 1, looked: 3, used: 2}
	if list := tiersOf(&totals{tiers: []tierCounts{quiet}, tierNames: []string{"pro"}}, []tierCounts{quiet}, 1); len(list) != 1 || list[0].Used != -1 {
		t.Errorf("of a tier that was not looked at: %+v", list)
	}
}

// Names that come and go for ever make no more series than there are places.
func TestTiersAreBounded(t *testing.T) {
	m := New(Build{}, Options{})
	for i := range 2 * maxTiers {
		decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{quota(fmt.Sprint(i), true, 1)}})
	}
	total := m.stripes.total()
	if len(total.tierNames) != maxTiers+1 || total.tiers[0].allowed != maxTiers {
		t.Errorf("%d tiers, %d decisions of others", len(total.tierNames), total.tiers[0].allowed)
	}
}
