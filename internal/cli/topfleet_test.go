package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/view"
)

// TestMergedAddsUp: whatever nodes count, what is shown of all of them is the sum.
func TestMergedAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]snapshot, rapid.IntRange(2, 5).Draw(t, "nodes"))
		wantRates, wantRules := map[string]float64{}, map[string]map[string]float64{}
		for i := range list {
			o := &view.Overview{Node: view.Identity{Name: string(rune('a' + i))}}
			fill(t, reflect.ValueOf(&o.Rates).Elem(), wantRates)
			for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"r1", "r2", "r3"}), rapid.ID).Draw(t, "rules") {
				r := view.Rule{ID: id}
				if wantRules[id] == nil {
					wantRules[id] = map[string]float64{}
				}
				fill(t, reflect.ValueOf(&r.Rates).Elem(), wantRules[id])
				o.Rules = append(o.Rules, r)
			}
			list[i].Overview = o
		}
		m := merged(list)
		same(t, "requests", reflect.ValueOf(m.Overview.Rates), wantRates)
		if len(m.Overview.Rules) != len(wantRules) {
			t.Fatalf("%d rules, want %d", len(m.Overview.Rules), len(wantRules))
		}
		for _, r := range m.Overview.Rules {
			same(t, r.ID, reflect.ValueOf(r.Rates), wantRules[r.ID])
		}
	})
}

// fill draws the numbers of a struct, and adds them to sums.
func fill(t *rapid.T, v reflect.Value, sums map[string]float64) {
	for i := range v.NumField() {
		n := float64(rapid.IntRange(0, 1000).Draw(t, "n"))
		v.Field(i).SetFloat(n)
		sums[v.Type().Field(i).Name] += n
	}
}

func same(t *rapid.T, what string, v reflect.Value, want map[string]float64) {
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).Float() != want[name] {
			t.Fatalf("%s: %s is %v, want %v", what, name, v.Field(i).Float(), want[name])
		}
	}
}

// TestMergedIsNoBetter: what one node lacks all lack, and where nodes differ that is said.
func TestMergedIsNoBetter(t *testing.T) {
	good := view.State{OK: true}
	node := func(name, rules string, change func(*view.Overview)) snapshot {
		o := &view.Overview{At: topNow, Node: view.Identity{Name: name, Version: "v1", StartedAt: topNow}, LiveNodes: 3,
			Health: view.Health{Ready: true, Store: good, Rules: view.Config{State: good, Version: rules}},
			Shards: []view.Shard{{Store: "default", Addr: "a:1", Connected: true, Breaker: "closed", Calls: 2}}, Latency: view.Latency{P99: 0.001}}
		if change != nil {
			change(o)
		}
		return snapshot{Overview: o, Keys: &view.BothTopKeys{Total: view.TopKeys{Nodes: 1}},
			Fleet: &view.Fleet{Live: 2, Nodes: []view.Node{{Identity: o.Node, Self: true, At: topNow}, {Identity: view.Identity{Name: "gate-9"}, At: topNow}}}}
	}
	m := merged([]snapshot{
		node("gate-1", "aaaa", nil),
		node("gate-2", "bbbb", func(o *view.Overview) {
			o.Health.Store, o.Health.Degraded, o.Latency.P99 = view.State{Reason: "store_timeout"}, true, 0.2
			o.Shards[0].Breaker, o.Shards[0].Connected = "open", false
		}),
		{Notes: []string{"gate-3: connection refused"}},
	})
	if h := &m.Overview.Health; !h.Ready || !h.Degraded || h.Store.OK || h.Store.Error != "gate-2: store_timeout" || !h.Rules.OK {
		t.Errorf("health %+v", h)
	}
	if want := (view.Shard{Store: "default", Addr: "a:1", Breaker: "open", Calls: 4}); len(m.Overview.Shards) != 1 || m.Overview.Shards[0] != want {
		t.Errorf("shards %+v", m.Overview.Shards)
	}
	if m.Overview.Latency.P99 != 0.2 || m.Overview.LiveNodes != 3 || len(m.Fleet.Nodes) != 3 {
		t.Errorf("%+v %+v", m.Overview, m.Fleet)
	}
	text := strings.Join(m.Notes, "\n")
	for _, want := range []string{"gate-3: connection refused", "rules differ: aaaa on gate-1; bbbb on gate-2", "keys are those of 1 of 2 nodes"} {
		if !strings.Contains(text, want) {
			t.Errorf("the notes lack %q: %s", want, text)
		}
	}
	golden(t, "several", plain(&m))
	if m := merged([]snapshot{{Notes: []string{"a"}}, {Notes: []string{"b"}}}); m.Overview != nil || len(m.Notes) != 2 {
		t.Errorf("%+v", m)
	}
}

// TestMergedSums: what is counted adds up, and neither node's own figures are changed by that.
func TestMergedSums(t *testing.T) {
	node := func(n float64, c uint64) snapshot {
		return snapshot{Overview: &view.Overview{
			Node: view.Identity{StartedAt: topNow.Add(-time.Duration(c) * time.Hour)}, Requests: view.Requests{Denied: n}, HotKeys: int64(c), RulesMore: int(c),
			Latency: view.Latency{P50: n, P90: 2 * n, P99: 3 * n, Count: c}, Rules: []view.Rule{{ID: "r", Outcomes: view.Outcomes{Denied: n}}},
			Shards: []view.Shard{{Calls: c, Failures: c, Refused: c}}, Memory: &view.Memory{Keys: int64(c), Bytes: int64(c), MaxBytes: int64(c)},
			Audit: view.Audit{Decided: c, Unsampled: c, Produced: c, Dropped: c, Buffered: c, Sinks: []view.AuditSink{{Name: "file", Written: c, Failed: c, Buffered: c}}},
		}}
	}
	list := []snapshot{node(2, 2), node(5, 5), node(3, 3)}
	before, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	want := node(10, 10).Overview
	want.Latency = view.Latency{P50: 5, P90: 10, P99: 15, Count: 10}
	want.RulesMore, want.Node.StartedAt = 5, topNow.Add(-5*time.Hour)
	got := merged(list).Overview
	want.Node.Name, want.Health = got.Node.Name, got.Health
	want.Shards[0].Connected = got.Shards[0].Connected
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("- want + got\n%s", diff)
	}
	if after, err := json.Marshal(list); err != nil || string(after) != string(before) {
		t.Errorf("the nodes have become\n%s (%v), from\n%s", after, err, before)
	}
}

// TestMergedHealth: whatever is wrong with one node is wrong with all, whichever comes first, and
// named; nothing is made up for those that are well.
func TestMergedHealth(t *testing.T) {
	good, bad := view.State{OK: true}, view.State{Reason: "gone"}
	of := func(name string, s view.State, ill bool) snapshot {
		config := view.Config{State: s, LastGood: ill}
		return snapshot{Overview: &view.Overview{Node: view.Identity{Name: name}, Shards: []view.Shard{{Breaker: map[bool]string{true: "half_open", false: "closed"}[ill]}},
			Health: view.Health{Ready: !ill, Draining: ill, Store: s, Rules: config, Tenants: &config, Documents: &config, Homes: &s}}}
	}
	well, ill := of("gate-1", good, false), of("gate-2", bad, true)
	want := view.State{Reason: "gone", Error: "gate-2: gone"}
	for _, list := range [][]snapshot{{well, ill}, {ill, well}} {
		h := merged(list).Overview.Health
		if h.Ready || !h.Draining || h.Store != want || h.Rules.State != want || !h.Rules.LastGood || h.Tenants.State != want || h.Documents.State != want || *h.Homes != want {
			t.Errorf("%+v %+v %+v %+v", h, h.Tenants, h.Documents, h.Homes)
		}
	}
	if h := merged([]snapshot{well, well}).Overview.Health; !h.Ready || h.Draining || !h.Store.OK || h.Rules.LastGood || !h.Tenants.OK || !h.Documents.OK || !h.Homes.OK {
		t.Errorf("all are well: %+v", h)
	}
	breaker := func(state string) snapshot {
		return snapshot{Overview: &view.Overview{Shards: []view.Shard{{Breaker: state}}}}
	}
	for _, states := range [][]string{{"closed", "half_open", "open"}, {"open", "half_open", "closed"}, {"half_open", "open", "closed"}} {
		if m := merged([]snapshot{breaker(states[0]), breaker(states[1]), breaker(states[2])}); m.Overview.Shards[0].Breaker != "open" {
			t.Errorf("%v together are %+v", states, m.Overview.Shards)
		}
	}
}

// TestWithFleet: of a node it is itself that knows best, else who has heard of it last, and one that
// was started again is another one.
func TestWithFleet(t *testing.T) {
	heard := func(after time.Duration, self bool, version string) view.Node {
		return view.Node{Identity: view.Identity{Name: "gate-1", Version: version, StartedAt: topNow}, At: topNow.Add(after), Self: self}
	}
	for name, pair := range map[string][2]view.Node{
		"itself":           {heard(0, true, "right"), heard(time.Second, false, "wrong")},
		"who heard last":   {heard(time.Second, false, "right"), heard(0, false, "wrong")},
		"itself and later": {heard(time.Second, true, "right"), heard(0, false, "wrong")},
	} {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			known := &view.Fleet{Nodes: []view.Node{pair[order[0]]}}
			got := withFleet(known, &view.Fleet{Nodes: []view.Node{pair[order[1]]}})
			if len(got.Nodes) != 1 || got.Nodes[0].Version != "right" || known.Nodes[0].Version != pair[order[0]].Version {
				t.Errorf("%s: %+v of %+v", name, got.Nodes, known.Nodes)
			}
		}
	}
	again := heard(0, false, "")
	again.StartedAt = topNow.Add(time.Minute)
	if got := withFleet(&view.Fleet{Nodes: []view.Node{heard(0, false, "")}}, &view.Fleet{Nodes: []view.Node{again}}); len(got.Nodes) != 2 {
		t.Errorf("started again: %+v", got.Nodes)
	}
}

// TestMergedKeys: they are those of the node that knows the keys of most.
func TestMergedKeys(t *testing.T) {
	for _, nodes := range [][]int{{1, 3, 2}, {3, 1, 2}, {1, 2, 3}} {
		var list []snapshot
		for _, n := range nodes {
			list = append(list, snapshot{Keys: &view.BothTopKeys{Total: view.TopKeys{Nodes: n}}})
		}
		if m := merged(list); m.Keys.Total.Nodes != 3 {
			t.Errorf("of %v: %+v", nodes, m.Keys)
		}
	}
}

// TestSwitchesOfANodeThatIsGone: switches are of all, so they stay, and asking for them makes no
// node well.
func TestSwitchesOfANodeThatIsGone(t *testing.T) {
	list := []switched{{}}
	sum := &watchedSum{nodes: make([]snapshot, 2)}
	sum.shows(0, &snapshot{Switches: list})
	sum.breaks(0, "gate-1", "away")
	if s, _ := sum.take(); len(s.Switches) != 1 {
		t.Error("the switches are gone with the node that told them")
	}
	sum.shows(0, &snapshot{Switches: list})
	if s, _ := sum.take(); strings.Join(s.Notes, ";") != "gate-1: away" {
		t.Errorf("notes %q", s.Notes)
	}
}

// TestSumForgetsWhoIsGone: a node that does not answer any more does not count, and counts again
// when it does.
func TestSumForgetsWhoIsGone(t *testing.T) {
	of := func(rate float64) *snapshot {
		return &snapshot{Overview: &view.Overview{Rates: view.Requests{Allowed: rate}}}
	}
	sum := &watchedSum{nodes: []snapshot{*of(1), *of(2)}}
	expect := func(want float64, note string) {
		t.Helper()
		s, changed := sum.take()
		if !changed || s.Overview.Rates.Allowed != want || strings.Join(s.Notes, ";") != note {
			t.Errorf("%+v %v, want %v and %q", s.Overview, s.Notes, want, note)
		}
	}
	sum.shows(0, of(5))
	expect(7, "")
	sum.breaks(1, "gate-2", "away")
	expect(5, "gate-2: away")
	sum.shows(1, of(3))
	expect(8, "")
	if _, changed := sum.take(); changed {
		t.Error("what has not changed is sent")
	}
}

// TestSwitchesOfAPage: those in force, what turns limits off first; and one that cannot be read
// is shown all the same.
func TestSwitchesOfAPage(t *testing.T) {
	list, err := switchedBy([]byte(`{"switches":[
		{"target":"rule:a","switch":{"target":"rule:a","state":"on","percent":5},"in_force":true,"updated_by":"ann"},
		{"target":"rule:b","switch":{"target":"rule:b","state":"off","until":"2026-11-22T13:00:00Z","reason":"wrong\u001b[2J"},"in_force":true,"updated_by":"ben"},
		{"target":"rule:c","switch":{"target":"rule:c","state":"off"},"in_force":false},
		{"target":"new:d","switch":{"target":"new:d","state":"later"},"in_force":true,"updated_by":"eve"},
		{"target":"rule:e","switch":{"target":"rule:e","state":"shadow"},"in_force":true,"updated_by":"ann"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(switchLines(list), "\n")
	want := "SWITCHED rule:b off  for all  until 2026-11-22T13:00:00Z  by ben: wrong\ufffd[2J\nSWITCHED new:d switched  for all  until cleared  by eve\nSWITCHED rule:e shadow  for all  until cleared  by ann\nand 1 more switches: headgate switch list"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := switchedBy([]byte(`<html>`)); err == nil {
		t.Error("no error for what is no page")
	}
}

// FuzzSwitchedBy: whatever a server says is shown on one line each, or refused.
func FuzzSwitchedBy(f *testing.F) {
	f.Add([]byte(`{"switches":[{"target":"all","switch":{"target":"all","state":"off"},"in_force":true}]}`))
	f.Add([]byte(`{"switches":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := switchedBy(raw)
		if err != nil {
			return
		}
		lines := switchLines(list)
		if len(lines) > maxShownSwitches+1 {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if strings.ContainsAny(line, "\n\x1b") {
				t.Errorf("%q", line)
			}
		}
		if _, err := json.Marshal(list); err != nil {
			t.Error(err)
		}
	})
}

// TestLately: an id is known until maxLately others have come.
func TestLately(t *testing.T) {
	var l lately
	id := func(i int) string { return time.Duration(i).String() }
	for i := range maxLately + 1 {
		if !l.note(id(i)) {
			t.Fatalf("%d is known", i)
		}
	}
	if l.note(id(1)) || !l.note(id(0)) || l.note(id(0)) || !l.note("") || !l.note("") {
		t.Error("what is known is not what came last")
	}
	long := strings.Repeat("x", maxEventID+1)
	if !l.note(long[1:]) || l.note(long[1:]) || !l.note(long) || !l.note(long) {
		t.Error("what is known is not what has an id of usual length")
	}
	if len(l.known) != maxLately || len(l.ids) != maxLately || l.known[long] {
		t.Errorf("%d ids are kept", len(l.known))
	}
}
