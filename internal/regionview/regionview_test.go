package regionview

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/regionfile"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/regional"
)

var file = regionfile.Regions{
	Home: "home", Layout: regional.Layout{Weights: map[string]int64{"frankfurt": 2, "virginia": 1, "singapore": 1}, Reserve: 100_000},
	Exchange: time.Second, Floor: 10_000, Stores: map[string]string{"frankfurt": "fra", "virginia": "vir", "singapore": "sin"},
}

const leasedRules = `
domain: d
descriptors:
- {key: far, regions: leased, store: far, failure_mode: closed, rate_limit: {unit: hour, requests_per_unit: 2000}}
- {key: b, regions: leased, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 1000}}
- {key: a, regions: leased, failure_mode: closed, rate_limit: {window: 10s, requests_per_unit: 400, algorithm: token_bucket, burst: 400}}
- {key: here, rate_limit: {unit: minute, requests_per_unit: 5}}
`

func planOf(t *testing.T, text string) *Plan {
	t.Helper()
	var set *rules.Set
	if text != "" {
		set = testrules.Load(t, text)
	}
	return NewPlan(set, &file, "virginia")
}

var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// home is one that was heard of a second ago and is an hour old.
func home(name string, counts map[string]regional.Counts) Home {
	h := Home{Name: name, Nodes: 6, Rules: map[string]*regional.RuleStats{}, Stats: regional.Stats{
		Known: true, Connected: true, Heard: time.Second, RoundTrip: 80 * time.Millisecond, EpochAge: time.Hour,
	}}
	for rule, c := range counts {
		h.Rules[rule] = &regional.RuleStats{Rule: rule, Counts: c}
	}
	return h
}

func ruleIn(t *testing.T, v *view.Regions, id string) *view.RegionRule {
	t.Helper()
	for i := range v.Rules {
		if v.Rules[i].Rule == id {
			return &v.Rules[i]
		}
	}
	t.Fatalf("there is no rule %s: %+v", id, v.Rules)
	return nil
}

func TestPlan(t *testing.T) {
	p := planOf(t, leasedRules)
	for rule, home := range map[string]string{"d.a": "home", "d.b": "home", "d.far": "far"} {
		if !p.Leases(rule, home) || p.Leases(rule, "other") {
			t.Errorf("%s does not lease from %s alone", rule, home)
		}
	}
	if p.Leases("d.here", "home") || p.Leases("d.none", "home") {
		t.Error("rules lease that are counted in each region, or are none")
	}
	if got := p.lagBound("home"); got != 1250*time.Millisecond { // leases of d.a last a quarter of the 10 s in which it drains
		t.Errorf("the bound of the lag is %v", got)
	}
	if got := p.lagBound("nobody"); got != 0 || p.wants("nobody") || !p.wants("home") || !p.wants("far") {
		t.Errorf("a home that nobody leases from has a bound of %v", got)
	}
	if p := planOf(t, ""); len(p.rules) != 0 || !p.wants("home") {
		t.Errorf("no rules: %+v", p)
	}
}

// What is counted becomes rates, and stands beside what the rules promise.
func TestRows(t *testing.T) {
	p := planOf(t, leasedRules)
	var m Meter
	m.Note(began, Counted{Homes: []Home{home("home", map[string]regional.Counts{"d.a": {Granted: 100, Lost: 5, Leased: 10}})}})
	later := began.Add(20 * time.Second)
	h := home("home", map[string]regional.Counts{
		"d.a":    {Buckets: 3, Granted: 300, Used: 240, Returned: 30, Lost: 25, Held: 5, Leased: 50, Reserved: 40, Denied: 20},
		"d.gone": {Granted: 1},
	})
	h.Rules["d.a"].ReserveLeft, h.Rules["d.a"].LevelKnown = 0.25, true
	h.Stats.Renewals = store.DurationCounts{Buckets: [13]uint64{9: 3, 12: 1}, Total: 2 * time.Second}
	v := m.View(later, p, Counted{Homes: []Home{h, home("far", nil), home("unused", nil)}})
	if v.Region != "virginia" || len(v.Peers) != 2 || v.Peers[0].Name != "far" || len(v.Rules) != 3 || v.Rules[0].Rule != "d.a" || v.Rules[2].Rule != "d.far" {
		t.Fatalf("%+v", v)
	}
	if got := v.Peers[1]; got.State != view.PeerHeard || got.Heard != 1 || got.RoundTrip != 0.08 || got.Renewal != 0.5 || got.LagBound != 1.25 || got.EpochAge != 3600 || got.Nodes != 6 || got.Kind != "home" {
		t.Errorf("the home is %+v", got)
	}
	a := ruleIn(t, &v, "d.a")
	if a.State != view.RuleLeased || a.Held != 5 || a.Buckets != 3 || a.ReserveLeft != 0.25 || a.TakenRate != 10 || a.LeasedRate != 2 || a.ReserveRate != 2 || a.DeniedRate != 1 || a.Unused != 0.1 || a.Excess != 0 || a.Bound != 0 {
		t.Errorf("d.a is %+v", a)
	}
	if got := a.Limits[0]; got.Home != 360 || got.Reserve != 10 || got.Others != 30 {
		t.Errorf("d.a is cut as %+v", got)
	}
	if b := ruleIn(t, &v, "d.b"); b.State != view.RuleLeased || b.ReserveLeft != -1 || b.Unused != -1 || b.TakenRate != 0 || b.Limits[0].Home != 900 {
		t.Errorf("d.b, which nobody has asked for, is %+v", b)
	}
}

// More that passes than was lent is seen.
func TestExcessIsSeen(t *testing.T) {
	var m Meter
	v := m.View(began, planOf(t, leasedRules), Counted{Homes: []Home{home("home", map[string]regional.Counts{"d.b": {Granted: 10, Used: 11, Held: 2}}), home("far", nil)}})
	if b := ruleIn(t, &v, "d.b"); b.Excess != 3 || b.Bound != 0 {
		t.Errorf("%+v", b)
	}
}

func TestStates(t *testing.T) {
	p := planOf(t, leasedRules)
	for name, tt := range map[string]struct {
		stats           regional.Stats
		peer, a, b, why string
		silent          int
	}{
		"not asked":         {regional.Stats{}, view.PeerUnheard, view.RuleUnheard, view.RuleUnheard, "not asked yet", 0},
		"never answered":    {regional.Stats{Unanswered: 1}, view.PeerSilent, view.RuleCutOff, view.RuleCutOff, "never answered", 1},
		"one answer lost":   {regional.Stats{Known: true, Heard: 3 * time.Second, EpochAge: time.Hour}, view.PeerHeard, view.RuleWaiting, view.RuleWaiting, "not answered the last question", 0},
		"silent":            {regional.Stats{Known: true, Heard: 10 * time.Second, EpochAge: time.Hour}, view.PeerSilent, view.RuleCutOff, view.RuleCutOff, "nothing was heard of it for 10s", 1},
		"refuses":           {regional.Stats{Unanswered: 1, Reason: store.Denied, Hint: "+info"}, view.PeerSilent, view.RuleCutOff, view.RuleCutOff, "never told its epoch (store_denied); hint: +info", 1},
		"lends nothing":     {regional.Stats{Known: true, Connected: true, EpochAge: time.Hour, Reason: store.Full}, view.PeerHeard, view.RuleOnReserve, view.RuleOnReserve, "its home lends nothing (store_full)", 0},
		"a new epoch":       {regional.Stats{Known: true, Connected: true, EpochAge: time.Second}, view.PeerHeard, view.RuleOnReserve, view.RuleOnReserve, "lends again in", 0},
		"a not so new one":  {regional.Stats{Known: true, Connected: true, EpochAge: 59 * time.Second}, view.PeerHeard, view.RuleLeased, view.RuleOnReserve, "lends again in", 0},
		"old enough for it": {regional.Stats{Known: true, Connected: true, EpochAge: 2 * time.Minute}, view.PeerHeard, view.RuleLeased, view.RuleLeased, "", 0},
	} {
		var m Meter
		v := m.View(began, p, Counted{Homes: []Home{{Name: "home", Stats: tt.stats}, home("far", nil)}})
		a, b := ruleIn(t, &v, "d.a"), ruleIn(t, &v, "d.b")
		if got := v.Peers[1].State; got != tt.peer || a.State != tt.a || b.State != tt.b || len(v.Silent()) != tt.silent {
			t.Errorf("%s: the home is %s and the rules are %s and %s", name, got, a.State, b.State)
		}
		if why := b.Why + v.Peers[1].Why; !strings.Contains(why, tt.why) || (b.Why == "") != (tt.why == "") {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// Rates are of the latest span that is long enough, notes are those of a minute, and a rule
// that counts anew has no rate below 0.
func TestRatesOverTime(t *testing.T) {
	p := planOf(t, leasedRules)
	var m Meter
	at := began
	for i := range 100 {
		m.Note(at, Counted{Homes: []Home{home("home", map[string]regional.Counts{"d.b": {Granted: int64(i * i)}})}})
		at = at.Add(NoteEvery)
	}
	if len(m.notes) != notes || at.Sub(m.notes[0].at) < time.Minute {
		t.Errorf("%d notes are kept, of %v", len(m.notes), at.Sub(m.notes[0].at))
	}
	v := m.View(at, p, Counted{Homes: []Home{home("home", map[string]regional.Counts{"d.b": {Granted: 100 * 100}}), home("far", nil)}})
	if got, want := ruleIn(t, &v, "d.b").TakenRate, float64(100*100-98*98)/10; got != want {
		t.Errorf("%v hits are taken a second, want %v", got, want)
	}
	v = m.View(at, p, Counted{Homes: []Home{home("home", map[string]regional.Counts{"d.b": {Granted: 1}}), home("far", nil)}})
	if got := ruleIn(t, &v, "d.b"); got.TakenRate != 0 || got.Unused != -1 {
		t.Errorf("a rule that counts anew: %+v", got)
	}
}

func TestShownIsBounded(t *testing.T) {
	v := Shown(view.Regions{Rules: make([]view.RegionRule, maxRules+7)})
	if len(v.Rules) != maxRules || v.RulesMore != 7 {
		t.Errorf("%d rules and %d more", len(v.Rules), v.RulesMore)
	}
	if v := Shown(view.Regions{Rules: make([]view.RegionRule, 2)}); len(v.Rules) != 2 || v.RulesMore != 0 {
		t.Errorf("%d rules and %d more", len(v.Rules), v.RulesMore)
	}
}

// A rule of several limits waits for the longest of their fences, and its leases last as long
// as the shortest of theirs, in whichever order they stand.
func TestPlanOfSeveralLimits(t *testing.T) {
	const short = "{window: 10s, requests_per_unit: 400, algorithm: token_bucket, burst: 400}"
	const long = "{unit: minute, requests_per_unit: 1000}"
	one := func(limits string) planned {
		p := planOf(t, "domain: d\ndescriptors:\n- {key: k, regions: leased, failure_mode: closed, "+limits+"}\n")
		if len(p.rules) != 1 {
			t.Fatalf("%+v", p.rules)
		}
		return p.rules[0]
	}
	a, b := one("rate_limit: "+short), one("rate_limit: "+long)
	if a.term >= b.term || a.fence >= b.fence {
		t.Fatalf("the limits do not differ: %+v, %+v", a, b)
	}
	for _, limits := range []string{"rate_limit: " + short + ", secondary_limits: [" + long + "]", "rate_limit: " + long + ", secondary_limits: [" + short + "]"} {
		if both := one(limits); both.term != a.term || both.fence != b.fence {
			t.Errorf("%s: leases last %v, want %v; its fence is %v, want %v", limits, both.term, a.term, both.fence, b.fence)
		}
	}
}
