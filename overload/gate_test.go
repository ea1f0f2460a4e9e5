package overload

import (
	"math"
	"testing"
)

// TestGate: the fleet is asked first, the worker's ticket is handed on, and every
// request is counted once on its way in and once on its way out.
func TestGate(t *testing.T) {
	worker := newTestShedder(t, Options{MaxInFlight: 2, MaxCritical: 1})
	fleet, err := NewFleet(FleetOptions{Usage: func() Usage { return Usage{} }}, testOrigin)
	if err != nil {
		t.Fatal(err)
	}
	g := NewGate(fleet, worker)
	first, d := g.Admit(P1, testOrigin)
	if !d.Admitted() || worker.Stats().InFlight != 1 {
		t.Fatalf("%+v, %+v", d, worker.Stats())
	}
	_, second := g.Admit(P1, testOrigin)
	_, third := g.Admit(P1, testOrigin)
	if !second.Admitted() || third.Reason != WorkerLimit {
		t.Errorf("%+v and %+v, want one more and no more", second, third)
	}
	if _, again := g.Admit(P1+9, testOrigin); again.Admitted() || again.Priority != P3 {
		t.Errorf("%+v for a priority that is none, want it to count as P3 and be shed", again)
	}
	g.Done(first, Overloaded, testOrigin)
	// What the fleet sheds does not come to the worker.
	fleet.level.Store(math.Float64bits(3))
	before := worker.Stats()
	if _, d := g.Admit(P2, testOrigin); d.Reason != FleetShare || worker.Stats().Shed != before.Shed {
		t.Errorf("%+v, worker %+v; want the fleet alone to shed it", d, worker.Stats())
	}
	s := g.Stats()
	if g.TotalAdmitted() != 2 || s.Admitted[P1] != 2 || s.Shed[P1][WorkerLimit-1] != 1 || s.Shed[P3][WorkerLimit-1] != 1 || s.Shed[P2][FleetShare-1] != 1 || s.Overloaded != 1 || s.Served+s.Ignored != 0 {
		t.Errorf("%+v", s)
	}
	open := NewGate(nil, nil)
	ticket, d := open.Admit(P3, testOrigin)
	open.Done(ticket, Served, testOrigin)
	if !d.Admitted() || open.Stats().Served != 1 {
		t.Errorf("%+v, %+v; want a gate without shedders to shed nothing", d, open.Stats())
	}
}
