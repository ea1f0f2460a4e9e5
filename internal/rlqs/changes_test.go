package rlqs

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
)

// use charges so many hits of a user, as one that asks about each request.
func (w *world) use(user string, hits int64) {
	w.t.Helper()
	requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: user}}, Op: store.Charge, Hits: hits}}}}
	if err := w.limiters[0].Check(w.t.Context(), requests, make([]headgate.Response, 1)); err != nil {
		w.t.Fatal(err)
	}
}

// change has other rules in force on all nodes.
func (w *world) change(rules string) {
	w.t.Helper()
	set := testrules.Load(w.t, rules)
	for _, l := range w.limiters {
		l.SetRules(set)
	}
}

// What was promised by limits that others have replaced is not given back to those: they have not
// been charged for it.
func TestPromiseOfAnotherCounter(t *testing.T) {
	const day = "{unit: day, requests_per_unit: 40, algorithm: fixed_window}"
	for name, rules := range map[string]string{
		"a limit for each user in place of one for all": "domain: d\nmatch: path\ndescriptors: [{key: user, rate_limit: " + day + "}]\n",
		"a limit for one user":                          "domain: d\ndescriptors: [{key: user, value: u, rate_limit: " + day + "}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "domain: d\ndescriptors: [{key: user, value: \"u*\", share_threshold: true, rate_limit: "+day+"}]\n", 1)
			e := w.envoy(0, 5*time.Second)
			e.pass("u")
			before := e.session.leases[only(e.session.leases)].promised
			w.change(rules)
			w.use("u", 20)
			w.now = w.now.Add(5 * time.Second)
			e.tick() // nothing of the promise was used
			le := e.session.leases[only(e.session.leases)]
			if got := w.remaining("u"); before < 2 || got != 40-20-le.promised {
				t.Errorf("%d of 40 remain after 20 hits, beside a promise of %d; one of %d was of another counter", got, le.promised, before)
			}
		})
	}
}

// What was promised before a limit had short windows is not given back to the pace, in which others
// are counted.
func TestPromiseBeforeAPace(t *testing.T) {
	w := newWorld(t, rule("{unit: day, requests_per_unit: 4000, algorithm: fixed_window}"), 1)
	e, other := w.envoy(0, 5*time.Second), w.envoy(0, time.Hour)
	e.pass("u")
	w.change(rule("{unit: second, requests_per_unit: 100, algorithm: fixed_window}"))
	w.now = w.now.Add(5 * time.Second)
	other.pass("u") // is promised hits of the pace
	le := e.session.leases[only(e.session.leases)]
	left := func() int64 {
		peek := (&item{lease: le}).paceTake()
		return w.nodes[0].ledger.take(t.Context(), []store.Take{peek})[0].Remaining
	}
	before := left()
	e.tick() // nothing of the first promise was used
	if got := left(); before >= 100 || got != max(before-le.promised, 0) {
		t.Errorf("%d are left of the pace, of %d and a promise of %d", got, before, le.promised)
	}
}

// What was promised is given back though the limit has another number, is in shadow mode or is
// switched off meanwhile: its counter is the one that was charged.
func TestPromiseOfTheSameCounter(t *testing.T) {
	const day = "domain: d\ndescriptors: [{key: user, name: users, rate_limit: {unit: day, requests_per_unit: 40, algorithm: fixed_window}}]\n"
	off, err := switches.NewSet([]switches.Switch{{Target: switches.Target{Rule: "users"}, State: switches.Off}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		rules string
		off   *switches.Set
		want  int64 // that remain beside what is promised then
	}{
		"a larger number": {rules: strings.Replace(day, "40", "80", 1), want: 80 - 1},
		"in shadow mode":  {rules: strings.Replace(day, "key: user,", "key: user, shadow_mode: true,", 1), want: 40 - 1},
		"switched off":    {rules: day, off: off, want: 40 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, day, 1)
			e := w.envoy(0, 5*time.Second)
			e.pass("u")
			w.change(tt.rules)
			w.limiters[0].SetSwitches(tt.off)
			w.now = w.now.Add(5 * time.Second)
			e.tick() // nothing of the promise was used
			w.limiters[0].SetSwitches(nil)
			le := e.session.leases[only(e.session.leases)]
			if got := w.remaining("u"); got != tt.want-le.promised {
				t.Errorf("%d remain beside a promise of %d, want %d together", got, le.promised, tt.want)
			}
			if free := le.given.kind == free; free != (name != "a larger number") {
				t.Errorf("assigned %+v", le.given)
			}
		})
	}
}
