package store

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

const noon = limit.Micros(1_780_315_200_000_000)

var (
	slots = limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 3, Period: time.Hour})
	ban   = limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Hour, BanFor: time.Hour})
	hour  = limit.Must(limit.PerHour(3))
)

// TestDecide takes a bucket of slots, one of denials and one of hits through all
// ops: what remains after each of them.
func TestDecide(t *testing.T) {
	var ofSlots, ofDenials, ofHits limit.State
	for i, step := range []struct {
		op                 Op
		hits               int64
		hold               limit.Hold
		slots, denials, of int64
	}{
		{Hit, 0, 1, 3, 3, 3},
		{Hit, 1, 0, 3, 3, 2},
		{Hit, 1, 1, 2, 3, 1},
		{Hit, 2, 1, 2, 3, 1}, // the hits are denied, the hold has its slot
		{Renew, 0, 2, 1, 3, 1},
		{Renew, 7, 2, 1, 3, 1},
		{Charge, 1, 3, 1, 2, 0},
		{Refund, 0, 2, 1, 2, 0},
		{Refund, 1, 2, 2, 3, 1},
		{Charge, 2, 0, 2, 1, 0},
		{Release, 0, 1, 3, 1, 0},
		{Release, 3, 1, 3, 1, 0},
		{Op(99), 3, 1, 3, 1, 0},
		{Renew, 1, 5, 2, 1, 0},
		{Reset, 0, 9, 3, 3, 3},
	} {
		for _, b := range []struct {
			l     *limit.Limit
			state *limit.State
			want  int64
		}{{slots, &ofSlots, step.slots}, {ban, &ofDenials, step.denials}, {hour, &ofHits, step.of}} {
			take := Take{Limit: b.l, Op: step.op, Hits: step.hits, Hold: step.hold}
			var d limit.Decision
			if *b.state, d = take.Decide(*b.state, noon); d.Remaining != b.want {
				t.Errorf("step %d, %v: %+v, want remaining=%d", i, b.l.Algorithm, d, b.want)
			}
		}
	}
	for _, s := range []limit.State{ofSlots, ofDenials, ofHits} {
		if s.Kind != 0 {
			t.Errorf("%+v is left after a reset", s)
		}
	}
}

// TestUndo gives back what a hit has taken: a slot, hits, and of a ban nothing.
func TestUndo(t *testing.T) {
	for _, l := range []*limit.Limit{slots, ban, hour} {
		s, _ := (&Take{Limit: l, Hits: 1, Hold: 1}).Decide(limit.State{}, noon)
		s, _ = (&Take{Limit: l, Hits: 1, Op: Charge}).Decide(s, noon)
		_, before := limit.Decide(l, s, noon, 0)
		hit := Take{Key: []byte("k"), Limit: l, Hits: 1, Hold: 2, Group: 7, Shadow: true, Mode: &Mode{}}
		s, d := hit.Decide(s, noon)
		undo := hit.Undo()
		if !d.Allowed || string(undo.Key) != "k" || undo.Mode != hit.Mode || undo.Group != 0 || undo.Shadow {
			t.Errorf("%v: %+v after %+v", l.Algorithm, undo, d)
		}
		if _, after := undo.Decide(s, noon); after.Remaining != before.Remaining {
			t.Errorf("%v: undone %+v, before %+v", l.Algorithm, after, before)
		}
	}
}
