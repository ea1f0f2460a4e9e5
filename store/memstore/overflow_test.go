package memstore

import (
	"testing"

	"github.com/headgate/headgate/limit"
)

// TestOverflowForgetsWhatHasExpired: the shared bucket of a limit is there up to its last
// unit of time and not after, though no other limit has taken its place; what it held is
// not found again, and does not count as in use.
func TestOverflowForgetsWhatHasExpired(t *testing.T) {
	o := newOverflow(1 << 20)
	l := limit.Must(limit.PerHour(10))
	s, _ := limit.Decide(l, limit.State{}, limit.Micros(1_780_315_200_000_000), 3)
	if !o.put(l, s, 100, 105) {
		t.Fatal("no room for one bucket")
	}
	for _, c := range []struct {
		unit  uint32
		found bool
	}{{104, true}, {105, true}, {106, false}} {
		state, vacant := o.find(l, c.unit)
		if (state != nil) != c.found || vacant == c.found || (o.inUse(c.unit) == 1) != c.found {
			t.Errorf("in unit %d: found %v, vacant %t, %d in use", c.unit, state, vacant, o.inUse(c.unit))
		}
	}
	// It is taken again from empty, in the same place.
	if !o.put(l, limit.State{Kind: s.Kind, Per: s.Per, A: s.A, B: 1}, 106, 110) || len(o.shapes) != 1 {
		t.Fatalf("%d places for one limit", len(o.shapes))
	}
	if state, _ := o.find(l, 107); state == nil || state.B != 1 {
		t.Errorf("found %+v, want the hit of now", state)
	}
}
