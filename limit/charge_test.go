package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestChargeIsTheOracle mixes hits with charges that do not fit. The definitions
// of the algorithms say what that means: more was used, or poured in.
func TestChargeIsTheOracle(t *testing.T) {
	for _, a := range countingAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			l := drawLimit(t, a)
			o := newOracle(l.Spec)
			now := epoch + rapid.Int64Range(0, 3*l.periodMicros).Draw(t, "phase µs")
			var s State
			var d Decision
			for range rapid.IntRange(1, 12).Draw(t, "steps") {
				now += drawStep(t, l, d)
				if now > maxInstant-2*maxDrain-2*l.periodMicros {
					return
				}
				if rapid.Bool().Draw(t, "charge") {
					hits := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 2*l.capacity+1)).Draw(t, "charged")
					if hits > MaxQuota || l.Quota == 0 || beyondDebt(l, s, now, hits) {
						return
					}
					s, d = Charge(l, s, Micros(now), hits)
					o.charge(now, hits)
				} else {
					hits := max(drawHits(t, l, 1), 1)
					fits := o.fits(now, hits)
					if s, d = decide(t, l, s, now, hits); d.Allowed != fits {
						t.Fatalf("hits=%d at %d: %+v, want allowed=%v", hits, now, d, fits)
					}
					if fits {
						o.charge(now, hits)
					}
				}
				checkOwing(t, l, o, s, now)
			}
		}))
	}
}

// beyondDebt says that hits would be more than l can owe.
func beyondDebt(l *Limit, s State, now, hits int64) bool {
	if !l.Algorithm.IsBucket() {
		return false
	}
	backlog, _ := l.backlogAt(&s, now)
	more := l.drainTime(hits)
	return more.exceeds(l.mostOwed()) || backlog.plus(more, l.den).exceeds(l.mostOwed())
}

// checkOwing checks what a peek says against the oracle.
func checkOwing(t *rapid.T, l *Limit, o oracle, s State, now int64) {
	_, d := Decide(l, s, Micros(now), 0)
	if o.fits(now, d.Remaining+1) || d.Remaining > 0 && !o.fits(now, d.Remaining) {
		t.Fatalf("remaining %d is not the most that fits (%+v)", d.Remaining, d)
	}
	reset := d.ResetAfter.Microseconds()
	if !o.idle(now+reset) || reset > 0 && o.idle(now+reset-1) {
		t.Fatalf("not unused from its reset on: %+v", d)
	}
	one := PeekOne(l, s, Micros(now))
	if at := one.RetryAfter.Microseconds(); at > 0 && (!o.fits(now+at, 1) || o.fits(now+at-1, 1)) {
		t.Fatalf("one hit does not pass first at %+v", one)
	}
}

// TestDebtIsPaidBack charges a bucket twice its burst: it takes as long as two
// bursts drain until it is unused, and a burst's time until a hit is near.
func TestDebtIsPaidBack(t *testing.T) {
	l := Must(Spec{Algorithm: TokenBucket, Quota: 100, Period: time.Second})
	s, d := Charge(l, State{}, Micros(epoch), 300)
	if d.Allowed || d.Remaining != 0 || d.ResetAfter != 3*time.Second || d.RetryAfter != 2*time.Second {
		t.Errorf("owes 200: %+v", d)
	}
	if one := PeekOne(l, s, Micros(epoch)); one.RetryAfter != 2010*time.Millisecond {
		t.Errorf("one hit: %+v", one)
	}
	back, d := Refund(l, s, Micros(epoch), 250)
	if d.Remaining != 50 || back.A < 0 {
		t.Errorf("250 given back: %+v, %+v", d, back)
	}
	if _, d := Refund(l, s, Micros(epoch), 150); d.RetryAfter != 500*time.Millisecond {
		t.Errorf("150 given back: %+v", d)
	}
	if _, d := Decide(l, s, Micros(epoch+3_000_000), 100); !d.Allowed {
		t.Errorf("when all is paid back: %+v", d)
	}
}

// TestDebtIsBounded charges without end, and steps the clock back.
func TestDebtIsBounded(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		most time.Duration // until one hit passes
	}{
		{Spec{Algorithm: TokenBucket, Quota: 60, Period: time.Minute}, 64*time.Minute + time.Hour + time.Second},
		{Spec{Algorithm: LeakyBucket, Quota: 1000, Period: time.Second}, 64*time.Millisecond + time.Hour + time.Millisecond},
		{Spec{Algorithm: SlidingLog, Quota: 5, Period: time.Second}, time.Second},
		{Spec{Algorithm: FixedWindow, Quota: 5, Period: time.Second}, time.Second},
	} {
		l := Must(c.spec)
		var s State
		for range 20 {
			s, _ = Charge(l, s, Micros(epoch/1_000_000*1_000_000), MaxQuota)
		}
		for _, back := range []int64{0, 1000, 1_000_000_000_000} {
			if d := PeekOne(l, s, Micros(epoch/1_000_000*1_000_000-back)); d.RetryAfter > c.most+2*l.Period || back == 0 && d.RetryAfter != c.most {
				t.Errorf("%v, %d µs back: %+v, want %v", l.Algorithm, back, d, c.most)
			}
		}
		if len(s.Wide) > 10 {
			t.Errorf("%v: %d words", l.Algorithm, len(s.Wide))
		}
	}
}
