package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawBucket draws a bucket that drains.
func drawBucket(t *rapid.T) *Limit {
	return Must(Spec{
		Algorithm: rapid.SampledFrom([]Algorithm{TokenBucket, GCRA}).Draw(t, "algorithm"),
		Quota:     rapid.Int64Range(1, 50).Draw(t, "quota"),
		Period:    time.Duration(rapid.SampledFrom([]int64{1, 60, 86_400, 30 * 86_400}).Draw(t, "period")) * time.Second,
		Burst:     rapid.Int64Range(1, 30).Draw(t, "burst"),
	})
}

// A clock that steps back by s costs a bucket no more than the hits that drain in s, and
// no more than its burst: until any instant it has let pass as many fewer at most than a
// bucket whose clock goes on. It never has let pass more.
//
//promise:clock-back-bucket
func TestStepBackCostsABucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawBucket(t)
		emission, tolerance := l.drainTime(1).up(), l.tolerance.up()
		back := rapid.Int64Range(0, 3*tolerance).Draw(t, "back")
		at := rapid.IntRange(0, 60).Draw(t, "step at")
		most := int64(0) // what drains in the step, rounded up
		if back > 0 {
			most = l.hitsIn(span{min(back, tolerance) - 1, 0}) + 1
		}
		now := int64(1_780_315_200_000_000)
		var steady, stepped State
		lead := int64(0)
		for i := range 200 {
			var a, b Decision
			aside := int64(0)
			if i >= at {
				aside = back
			}
			steady, a = Decide(l, steady, Micros(now), 1)
			stepped, b = Decide(l, stepped, Micros(now-aside), 1)
			if a.Allowed {
				lead++
			}
			if b.Allowed {
				lead--
			}
			if lead < 0 || lead > most {
				t.Fatalf("hit %d: %d fewer have passed, want 0 to %d", i, lead, most)
			}
			now += rapid.SampledFrom([]int64{0, 0, 1, emission / 3, emission, 2 * emission}).Draw(t, "gap")
		}
	})
}

// A bucket that is asked no faster than it drains denies one hit at most after a step
// back, however far.
//
//promise:clock-back-bucket
func TestStepBackDeniesOneCalmHit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawBucket(t)
		emission := l.drainTime(1).up()
		now := Micros(1_780_315_200_000_000)
		s, _ := Decide(l, State{}, now, rapid.Int64Range(0, l.Burst-1).Draw(t, "used"))
		now -= Micros(rapid.Int64Range(0, 3*l.tolerance.up()).Draw(t, "back"))
		denied := 0
		for i := range 2 * l.Burst {
			var d Decision
			if s, d = Decide(l, s, now, 1); !d.Allowed {
				if denied++; denied > 1 {
					t.Fatalf("hit %d is the second that is denied", i)
				}
			}
			now += Micros(emission + rapid.Int64Range(0, emission).Draw(t, "gap"))
		}
	})
}

// What a window has counted weighs no longer than three periods from the first hit after
// a step back, however far.
//
//promise:clock-back-window
func TestStepBackHoldsAWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Must(Spec{
			Algorithm: rapid.SampledFrom([]Algorithm{FixedWindow, SlidingWindow, SlidingLog}).Draw(t, "algorithm"),
			Quota:     10, Period: time.Minute,
		})
		if parts := rapid.IntRange(1, 12).Draw(t, "parts"); parts > 1 {
			l = Must(Spec{Algorithm: SubWindows, Quota: 10, Period: time.Minute, SubWindows: parts, Strict: parts%2 > 0})
		}
		now := Micros(1_780_315_200_000_000 + rapid.Int64Range(0, 60_000_000).Draw(t, "since the minute"))
		s, _ := Decide(l, State{}, now, rapid.Int64Range(1, 10).Draw(t, "used"))
		now -= Micros(rapid.Int64Range(0, 600_000_000).Draw(t, "back"))
		s, _ = Decide(l, s, now, rapid.Int64Range(1, 11).Draw(t, "hits"))
		if _, d := Decide(l, s, now, 0); d.ResetAfter > 3*time.Minute {
			t.Fatalf("unused again after %v", d.ResetAfter)
		}
	})
}
