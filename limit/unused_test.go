package limit

import (
	"reflect"
	"testing"
	"time"
)

// TestRefundToUnused holds that a bucket of which all was given back is the unused
// bucket, which stores need not keep, and that one which still counts is not.
func TestRefundToUnused(t *testing.T) {
	const now = Micros(mergeNoon + 17_000_000)
	for _, spec := range []Spec{
		{Algorithm: FixedWindow, Quota: 10, Period: time.Minute},
		{Algorithm: SlidingWindow, Quota: 10, Period: time.Minute},
		{Algorithm: SubWindows, Quota: 10, Period: time.Minute},
		{Algorithm: SlidingLog, Quota: 10, Period: time.Minute},
		{Algorithm: TokenBucket, Quota: 10, Period: time.Minute},
		{Algorithm: LeakyQueue, Quota: 10, Period: time.Minute},
		{Algorithm: GCRA, Quota: 10, Period: time.Minute},
	} {
		l := Must(spec)
		s, d := Decide(l, State{}, now, 5)
		if !d.Allowed || d.ResetAfter == 0 {
			t.Fatalf("%v: 5 hits: %+v", spec.Algorithm, d)
		}
		if some, d := Refund(l, cloneState(s), now, 4); d.ResetAfter == 0 || reflect.DeepEqual(some, State{}) {
			t.Errorf("%v: 4 of 5 given back leave %+v and %+v", spec.Algorithm, some, d)
		}
		if none, d := Refund(l, cloneState(s), now, 5); d.ResetAfter != 0 || !reflect.DeepEqual(none, State{}) {
			t.Errorf("%v: 5 of 5 given back leave %+v and %+v, want the unused bucket", spec.Algorithm, none, d)
		}
	}
}

// TestMergeOfNeighbouringWindows holds that the current window of an older state is
// the previous one of the later state, and that their counts are not exchanged.
func TestMergeOfNeighbouringWindows(t *testing.T) {
	l := Must(Spec{Algorithm: SlidingWindow, Quota: 100, Period: time.Minute})
	const start = mergeNoon
	of := func(start, current, previous int64) State {
		return State{Kind: kindSlidingWindow, Per: l.per, A: start, B: current, C: previous}
	}
	for _, c := range []struct{ a, b, want State }{
		{of(start, 3, 50), of(start, 7, 20), of(start, 7, 50)},
		{of(start+60_000_000, 3, 5), of(start, 9, 40), of(start+60_000_000, 3, 9)},
		{of(start+60_000_000, 3, 5), of(start, 2, 40), of(start+60_000_000, 3, 5)},
		{of(start+120_000_000, 3, 5), of(start, 90, 40), of(start+120_000_000, 3, 5)},
	} {
		for _, merged := range []State{Merge(l, c.a, c.b), Merge(l, c.b, c.a)} {
			if !reflect.DeepEqual(merged, c.want) {
				t.Errorf("%+v and %+v merge to %+v, want %+v", c.a, c.b, merged, c.want)
			}
		}
	}
}
