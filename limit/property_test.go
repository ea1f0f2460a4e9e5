package limit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// countingAlgorithms count hits.
var countingAlgorithms = []Algorithm{
	SlidingWindow, FixedWindow, SubWindows, SlidingLog,
	TokenBucket, LeakyBucket, LeakyQueue, GCRA,
}

var allAlgorithms = slices.Concat(countingAlgorithms, []Algorithm{Concurrency, Ban})

// epoch is an ordinary instant, in 2026.
const epoch = int64(1_790_000_000_000_000)

// drawSpec draws a valid spec of an algorithm, from the everyday to the edges.
func drawSpec(t *rapid.T, a Algorithm) Spec {
	s := Spec{Algorithm: a}
	quotas := []*rapid.Generator[int64]{
		rapid.Int64Range(0, 12),
		rapid.Int64Range(1, MaxLogQuota),
	}
	bound := int64(MaxQuota)
	if a.IsBucket() {
		bound = MaxBucketQuota
	}
	switch a {
	case SlidingLog:
	case Concurrency:
		quotas[1] = rapid.Int64Range(1, MaxConcurrency)
	case Ban:
		quotas = []*rapid.Generator[int64]{rapid.Int64Range(1, 12), rapid.Int64Range(1, MaxQuota)}
		s.BanFor = time.Duration(rapid.OneOf(
			rapid.Int64Range(1, 100), rapid.Int64Range(1, 100_000_000), rapid.Int64Range(maxPeriodMicros-1000, maxPeriodMicros),
		).Draw(t, "ban µs")) * time.Microsecond
	default:
		quotas = append(quotas, rapid.Int64Range(1, 5_000_000_000), rapid.Int64Range(bound-1000, bound))
	}
	s.Quota = rapid.OneOf(quotas...).Draw(t, "quota")
	s.Period = time.Duration(rapid.OneOf(
		rapid.Int64Range(1, 100),
		rapid.Int64Range(1, 100_000_000),
		rapid.SampledFrom([]int64{1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000}),
		rapid.Int64Range(maxPeriodMicros-1000, maxPeriodMicros),
	).Draw(t, "period µs")) * time.Microsecond
	switch a {
	case SubWindows:
		s.SubWindows = rapid.IntRange(MinSubWindows, MaxSubWindows).Draw(t, "parts")
		s.Strict = rapid.Bool().Draw(t, "strict")
	case TokenBucket, GCRA:
		s.Burst = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 20), rapid.Int64Range(1, 1<<45)).Draw(t, "burst")
	case LeakyQueue:
		s.MaxDelay = time.Duration(rapid.Int64Range(0, 200_000_000).Draw(t, "delay µs")) * time.Microsecond
		s.MaxQueue = rapid.Int64Range(0, 50).Draw(t, "queue")
	}
	return s
}

func drawLimit(t *rapid.T, a Algorithm) *Limit {
	l, err := New(drawSpec(t, a))
	if err != nil {
		t.Skip(err)
	}
	return l
}

// drawStep draws how long to wait before the next take: nothing, a little, or
// to just around something that happens.
func drawStep(t *rapid.T, l *Limit, last Decision) int64 {
	period := l.periodMicros
	return max(0, rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, period),
		rapid.Int64Range(0, period/max(l.Quota, 1)*2+1),
		rapid.Int64Range(0, 3*period),
		rapid.Just(last.RetryAfter.Microseconds()),
		rapid.Just(last.ResetAfter.Microseconds()-1),
		rapid.Just(last.ResetAfter.Microseconds()),
	).Draw(t, "step µs"))
}

func drawHits(t *rapid.T, l *Limit, remaining int64) int64 {
	return min(MaxQuota, rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, l.capacity),
		rapid.Int64Range(0, l.capacity+1),
		rapid.Just(remaining),
		rapid.Just(remaining+1),
		rapid.Just(l.capacity),
	).Draw(t, "hits"))
}

// cloneState copies s so that changes of the original show.
func cloneState(s State) State {
	s.Wide = slices.Clone(s.Wide)
	return s
}

func sameState(a, b State) bool {
	return a.Kind == b.Kind && a.Per == b.Per && a.A == b.A && a.B == b.B && a.C == b.C && slices.Equal(a.Wide, b.Wide)
}

// decide is Decide that fails t when a peek or a denial does not leave the state
// alone, down to the memory of Wide.
func decide(t *rapid.T, l *Limit, s State, now, hits int64) (State, Decision) {
	before := cloneState(s)
	after, d := Decide(l, s, Micros(now), hits)
	if hits == 0 || !d.Allowed && !l.CountDenied {
		if !sameState(after, before) || !sameState(s, before) {
			t.Fatalf("a peek or a denial changed %+v to %+v (%+v)", before, after, d)
		}
	}
	return after, d
}

// TestDecideIsTheOracle drives every algorithm with random traces and demands
// the verdicts of its definition, and that every other number of the decision is
// exactly what the definition then does.
//
//promise:algorithms
func TestDecideIsTheOracle(t *testing.T) {
	for _, a := range countingAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			l := drawLimit(t, a)
			o := newOracle(l.Spec)
			now := epoch + rapid.Int64Range(0, 3*l.periodMicros).Draw(t, "phase µs")
			var s State
			var d Decision
			for range rapid.IntRange(1, 12).Draw(t, "steps") {
				now += drawStep(t, l, d)
				if now > maxInstant-maxDrain-2*l.periodMicros {
					return // beyond that, time stands still
				}
				_, peek := decide(t, l, s, now, 0)
				hits := drawHits(t, l, peek.Remaining)
				fits := o.fits(now, hits)
				delay := time.Duration(0)
				if b, ok := o.(*bucketOracle); ok && a == LeakyQueue && fits {
					delay = b.delay(now)
				}
				s, d = decide(t, l, s, now, hits)
				if fits && hits > 0 {
					o.charge(now, hits)
				}
				if d.Allowed != fits || d.Delay != delay {
					t.Fatalf("hits=%d at %d: %+v, want allowed=%v delay=%v", hits, now, d, fits, delay)
				}
				checkNumbers(t, l, o, s, d, now, hits)
			}
		}))
	}
}

// checkNumbers checks what d says beside the verdict, against the oracle that
// has charged these hits if they passed, and against Decide itself.
func checkNumbers(t *rapid.T, l *Limit, o oracle, s State, d Decision, now, hits int64) {
	if d.Limit != l.capacity {
		t.Fatalf("limit %d, want %d", d.Limit, l.capacity)
	}
	if !o.fits(now, d.Remaining) || o.fits(now, d.Remaining+1) {
		t.Fatalf("remaining %d is not the most that fits (%+v)", d.Remaining, d)
	}
	reset := d.ResetAfter.Microseconds()
	if !o.idle(now + reset) {
		t.Fatalf("in use when it should be reset: %+v", d)
	}
	if reset > 0 && o.idle(now+reset-1) {
		t.Fatalf("unused before its reset: %+v", d)
	}
	if Lifetime(l, s, Micros(now)) != d.ResetAfter {
		t.Fatalf("lifetime %v, want %v", Lifetime(l, s, Micros(now)), d.ResetAfter)
	}
	if d.Never != (hits > l.capacity) {
		t.Fatalf("never = %v with hits %d of %d", d.Never, hits, l.capacity)
	}
	retry := d.RetryAfter.Microseconds()
	if (retry > 0) != (!d.Allowed && !d.Never) {
		t.Fatalf("retry does not fit the verdict: %+v", d)
	}
	if retry == 0 {
		return
	}
	for _, at := range []int64{now + retry - 1, now + retry} {
		want := at == now+retry
		_, then := decide(t, l, cloneState(s), at, hits)
		if o.fits(at, hits) != want || then.Allowed != want {
			t.Fatalf("%+v: %d µs on: oracle %v, decide %v, want %v", d, at-now, o.fits(at, hits), then.Allowed, want)
		}
	}
}
