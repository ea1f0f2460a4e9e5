package overload

import (
	"sync/atomic"
	"time"
)

// Reasons is the number of reasons for which a request is shed.
const Reasons = int(HardCap)

// outcomes is the number of outcomes.
const outcomes = int(Overloaded) + 1

// Gate asks a fleet shedder and a worker shedder in turn and counts what both
// say: what the fronts of all protocols share. It is safe for concurrent use.
// Make one with NewGate.
type Gate struct {
	fleet    *Fleet
	worker   *Shedder
	admitted [Priorities]atomic.Uint64
	shed     [Priorities][Reasons]atomic.Uint64
	ended    [outcomes]atomic.Uint64
}

// NewGate returns a Gate over both shedders, each of which may be nil: then it
// sheds nothing.
func NewGate(fleet *Fleet, worker *Shedder) *Gate { return &Gate{fleet: fleet, worker: worker} }

// Admit decides for a request of priority p. The fleet is asked first, so that
// the worker counts only what may come to it. When the request is admitted, Done
// must be called with the ticket once it has ended.
func (g *Gate) Admit(p Priority, now time.Time) (Ticket, Decision) {
	p = min(p, P3)
	d := Decision{Priority: p}
	var t Ticket
	if g.fleet != nil {
		d = g.fleet.Admit(p, now)
	}
	if d.Admitted() && g.worker != nil {
		t, d = g.worker.Admit(p, now)
	}
	if d.Admitted() {
		g.admitted[p].Add(1)
	} else {
		g.shed[p][d.Reason-1].Add(1)
	}
	return t, d
}

// Done notes the end of a request that was admitted. It is called once for each.
func (g *Gate) Done(t Ticket, outcome Outcome, now time.Time) {
	outcome = min(outcome, Overloaded)
	g.ended[outcome].Add(1)
	if g.worker != nil {
		g.worker.Done(t, outcome, now)
	}
}

// TotalAdmitted is the number of requests that neither shed, for the counter of
// the fleet.
func (g *Gate) TotalAdmitted() int64 {
	total := uint64(0)
	for p := range g.admitted {
		total += g.admitted[p].Load()
	}
	return int64(total)
}

// GateStats is what a Gate has counted since it was made.
type GateStats struct {
	// Admitted counts requests that neither shed, by priority.
	Admitted [Priorities]uint64
	// Shed counts those that one did, by priority and by Reason less 1.
	Shed [Priorities][Reasons]uint64
	// Served, Ignored and Overloaded count how the admitted ones ended.
	Served, Ignored, Overloaded uint64
}

// Stats returns the counts.
func (g *Gate) Stats() GateStats {
	s := GateStats{
		Served:     g.ended[Served].Load(),
		Ignored:    g.ended[Ignored].Load(),
		Overloaded: g.ended[Overloaded].Load(),
	}
	for p := range s.Admitted {
		s.Admitted[p] = g.admitted[p].Load()
		for reason := range s.Shed[p] {
			s.Shed[p][reason] = g.shed[p][reason].Load()
		}
	}
	return s
}
