package limit

import (
	"testing"

	"pgregory.net/rapid"
)

// drawLife returns a state that some charges have left behind, and the instant
// of the last one.
func drawLife(t *rapid.T, l *Limit, s State, now int64) (State, int64) {
	for range rapid.IntRange(0, 6).Draw(t, "charges") {
		_, last := Decide(l, s, Micros(now), 0)
		now += drawStep(t, l, last)
		if l.Algorithm == Concurrency || l.Algorithm == Ban {
			s, _ = use(l, cloneState(s), Micros(now), rapid.Int64Range(1, min(l.Quota+1, MaxQuota)).Draw(t, "n"))
			continue
		}
		s, _ = Decide(l, cloneState(s), Micros(now), drawHits(t, l, last.Remaining))
	}
	return s, now
}

// sameInOrder is sameState but for the order of slots that end at one instant.
func sameInOrder(l *Limit, a, b State) bool {
	return sameState(Merge(l, a, a), Merge(l, b, b))
}

const mergeNoon = 1_780_315_200_000_000

// TestMergeOfALine holds that of two states of one life the later one counts.
func TestMergeOfALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, Algorithm(rapid.IntRange(0, int(Ban)).Draw(t, "algorithm")))
		early, now := drawLife(t, l, State{}, mergeNoon)
		late, now := drawLife(t, l, early, now)
		if l.Algorithm == Ban && l.BanFor < l.Period {
			return // of a count before a ban and one after it the larger counts
		}
		for _, merged := range []State{Merge(l, cloneState(early), cloneState(late)), Merge(l, cloneState(late), cloneState(early))} {
			_, last := Decide(l, late, Micros(now), 0)
			at := Micros(now + drawStep(t, l, last))
			hits := drawHits(t, l, last.Remaining)
			_, want := Decide(l, cloneState(late), at, hits)
			if _, got := Decide(l, merged, at, hits); got != want {
				t.Fatalf("%v and %v merge to %v: %+v, want %+v", early, late, merged, got, want)
			}
		}
	})
}

// TestMergeIsNeverGenerous holds that a merged state leaves no more than either
// of two states that parted, in whatever order they are merged and how often.
func TestMergeIsNeverGenerous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, Algorithm(rapid.IntRange(0, int(Ban)).Draw(t, "algorithm")))
		common, now := drawLife(t, l, State{}, mergeNoon)
		a, nowA := drawLife(t, l, common, now)
		b, nowB := drawLife(t, l, common, now)
		merged := Merge(l, cloneState(a), cloneState(b))
		if again := Merge(l, cloneState(merged), cloneState(b)); !sameInOrder(l, again, merged) {
			t.Fatalf("%v and %v merge to %v, and again to %v", a, b, merged, again)
		}
		at := Micros(max(nowA, nowB))
		switch l.Algorithm {
		case SlidingLog:
			return // the later log counts, which may hold fewer hits
		case Ban: // a ban counts, which leaves nothing of what others counted
			if ban := PeekOne(l, merged, at).RetryAfter; ban < max(PeekOne(l, a, at).RetryAfter, PeekOne(l, b, at).RetryAfter) {
				t.Fatalf("%v and %v merge to %v, which bans for %v", a, b, merged, ban)
			}
			return
		}
		_, got := Decide(l, merged, at, 0)
		_, ofA := Decide(l, a, at, 0)
		_, ofB := Decide(l, b, at, 0)
		if got.Remaining > min(ofA.Remaining, ofB.Remaining) {
			t.Fatalf("%v and %v merge to %v with %d left, but they have %d and %d",
				a, b, merged, got.Remaining, ofA.Remaining, ofB.Remaining)
		}
		if turned := Merge(l, cloneState(b), cloneState(a)); !sameInOrder(l, turned, merged) {
			t.Fatalf("%v and %v merge to %v, turned round to %v", a, b, merged, turned)
		}
	})
}

func TestMergeOfOtherKinds(t *testing.T) {
	l := Must(PerMinute(10))
	window := State{Kind: kindSlidingWindow, A: mergeNoon, B: 3}
	bucket := State{Kind: 1 + uint8(GCRA), A: mergeNoon}
	for _, test := range []struct{ a, b, want State }{
		{State{}, window, window},
		{window, State{}, window},
		{window, bucket, window},
		{bucket, window, bucket},
		{State{}, State{}, State{}},
	} {
		if got := Merge(l, test.a, test.b); !sameState(got, test.want) {
			t.Errorf("Merge(%v, %v) = %v, want %v", test.a, test.b, got, test.want)
		}
	}
}
