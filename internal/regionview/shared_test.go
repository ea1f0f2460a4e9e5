package regionview

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/totals"
)

const sharedRules = `
domain: d
descriptors:
- {key: b, regions: shared, rate_limit: {unit: minute, requests_per_unit: 1000}}
- {key: a, regions: shared, rate_limit: {unit: hour, requests_per_unit: 50, algorithm: gcra, burst: 200}}
- {key: here, rate_limit: {unit: minute, requests_per_unit: 5}}
`

// A region is silent where what there is to tell it was not answered for long; a pause in which
// there is nothing to tell is none.
func TestToldStates(t *testing.T) {
	for _, tt := range []struct {
		name       string
		peer       totals.PeerStats
		state, why string
	}{
		{"new", totals.PeerStats{}, view.PeerUnheard, "nothing to tell"},
		{"answers", totals.PeerStats{Totals: 5, Known: true, Connected: true, Heard: time.Second}, view.PeerHeard, ""},
		{"quiet for an hour", totals.PeerStats{Totals: 5, Known: true, Connected: true, Heard: time.Hour}, view.PeerHeard, ""},
		{"one lost answer", totals.PeerStats{Totals: 5, Failed: 1, Known: true, Seen: totals.Seen{Lag: 2 * time.Second}}, view.PeerHeard, ""},
		{"cut off", totals.PeerStats{Totals: 9, Failed: 4, Known: true, Heard: 43 * time.Second, Reason: store.Timeout, Seen: totals.Seen{Lag: 42500 * time.Millisecond}}, view.PeerSilent, "has not heard what passed here for 42s: each region counts for itself (store_timeout)"},
		{"cut off, in a new window", totals.PeerStats{Totals: 9, Failed: 4, Known: true, Heard: 43 * time.Second, Unanswered: 42 * time.Second, Seen: totals.Seen{Lag: time.Second}}, view.PeerSilent, "has not heard what passed here for 42s"},
		{"takes a part", totals.PeerStats{Totals: 9, Failed: 4, Known: true, Heard: time.Second, Reason: store.Misconfigured, Hint: "its own prefix", Seen: totals.Seen{Lag: 42500 * time.Millisecond}}, view.PeerSilent, "has not taken all that passed here for 42s: each region counts that for itself (store_misconfigured); hint: its own prefix"},
		{"refuses", totals.PeerStats{Totals: 9, Failed: 9, Reason: store.Denied, Hint: "+eval", Seen: totals.Seen{Lag: 20 * time.Second}}, view.PeerSilent, "has never taken what passed here (store_denied); hint: +eval"},
		{"never answered", totals.PeerStats{Totals: 9, Failed: 9, Seen: totals.Seen{Lag: 20 * time.Second}}, view.PeerSilent, "never answered"},
	} {
		tt.peer.Region = "virginia"
		one := told([]totals.PeerStats{tt.peer})[0]
		if one.State != tt.state || !strings.Contains(one.Why, tt.why) || one.Why != "" == (tt.why == "") {
			t.Errorf("%s: %+v", tt.name, one)
		}
	}
}

func TestSharedView(t *testing.T) {
	var m Meter
	p := planOf(t, sharedRules)
	if !p.Shares("d.a") || !p.Shares("d.b") || p.Shares("d.here") || p.Leases("d.a", "home") {
		t.Error("what is shared is not what the rules say")
	}
	counted := func(hits int64) Counted {
		return Counted{
			Told: []totals.PeerStats{
				{Region: "singapore", Totals: 7, Failed: 2, Seen: totals.Seen{Unheard: 30, Lag: 20 * time.Second}},
				{Region: "frankfurt", Totals: 9, Known: true, Connected: true, Heard: time.Second, RoundTrip: 80 * time.Millisecond, Seen: totals.Seen{Unheard: 3, Lag: 300 * time.Millisecond}},
			},
			Shared: map[string]*totals.RuleStats{"d.b": {
				Rule: "d.b", Hits: hits, Back: 2, Resets: 1, Crowded: 4, Buckets: 3, Unheard: map[string]int64{"frankfurt": 3, "singapore": 30},
			}},
		}
	}
	m.Note(began, counted(100))
	v := m.View(began.Add(10*time.Second), p, counted(600))
	if len(v.Told) != 2 || v.Told[0].Region != "frankfurt" || v.Told[1].Region != "singapore" {
		t.Fatalf("%+v", v.Told)
	}
	if f := v.Told[0]; f.Heard != 1 || f.RoundTrip != 0.08 || f.Lag != 0.3 || f.LagBound != 10 || f.Unheard != 3 || f.Totals != 9 || f.Failed != 0 {
		t.Errorf("%+v", f)
	}
	if s := v.Told[1]; s.Heard != -1 || s.State != view.PeerSilent {
		t.Errorf("%+v", s)
	}
	if deaf := v.Deaf(); len(deaf) != 1 || deaf[0] != "singapore" {
		t.Errorf("deaf: %v", deaf)
	}
	if len(v.Shared) != 2 || v.Shared[0].Rule != "d.a" || v.Shared[1].Rule != "d.b" || len(v.Rules) != 0 {
		t.Fatalf("%+v", v.Shared)
	}
	if a := v.Shared[0]; len(a.Limits) != 1 || a.Limits[0].Floor != 2 || a.Limits[0].Most != 400 || a.Hits != 0 {
		t.Errorf("%+v", a)
	}
	b := v.Shared[1]
	if b.HitsRate != 50 || b.Hits != 600 || b.Back != 2 || b.Resets != 1 || b.Crowded != 4 || b.Buckets != 3 || b.Unheard != 30 || b.To != "singapore" {
		t.Errorf("%+v", b)
	}
	if l := b.Limits[0]; l.Floor != 10 || l.Most != 2000 {
		t.Errorf("%+v", l)
	}
}
