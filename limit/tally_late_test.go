package limit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lateLimits is a bucket that more and more limits ask for, all of one period and
// buckets of one rate, and how many hits passed in the aligned window of that period.
type lateLimits struct {
	period, rate int64
	limits       []*Limit
	met          map[*Limit]bool
	bucket       State
	log          []event
}

func drawLateLimits(t *rapid.T, most int) *lateLimits {
	w := &lateLimits{period: 3_600_000_000, rate: rapid.Int64Range(1, 60).Draw(t, "rate"), met: map[*Limit]bool{}}
	for range rapid.IntRange(2, most).Draw(t, "limits") {
		s := Spec{Algorithm: rapid.SampledFrom(countingAlgorithms).Draw(t, "algorithm"), Quota: w.rate, Period: time.Hour}
		switch s.Algorithm {
		case TokenBucket, GCRA:
			s.Burst = rapid.Int64Range(1, 60).Draw(t, "burst")
		case LeakyBucket, LeakyQueue:
		case SubWindows:
			s.SubWindows = rapid.SampledFrom([]int{2, 3, 10}).Draw(t, "parts")
			fallthrough
		default:
			s.Quota = rapid.Int64Range(1, 60).Draw(t, "quota")
		}
		w.limits = append(w.limits, Must(s))
	}
	return w
}

// most is what the largest of the limits met so far allows from the beginning of the
// window on, and what a bucket among them drains meanwhile.
func (w *lateLimits) most(now int64) int64 {
	largest, drained := int64(0), int64(0)
	for l := range w.met {
		largest = max(largest, l.capacity, l.Quota)
		if l.Algorithm.IsBucket() {
			drained = muldivCeil(now%w.period, w.rate, w.period)
		}
	}
	return largest + drained
}

// least is what the smallest allows; a hit of a bucket that is half drained is one to
// the others.
func (w *lateLimits) least() int64 {
	least, buckets := int64(MaxQuota), int64(0)
	for l := range w.met {
		least = min(least, l.capacity, l.Quota)
		if l.Algorithm.IsBucket() {
			buckets = 1
		}
	}
	return least - buckets
}

// used is how many hits passed since an instant.
func (w *lateLimits) used(from int64) (sum int64) {
	for _, e := range w.log {
		if e.at >= from {
			sum += e.hits
		}
	}
	return sum
}

func (w *lateLimits) take(t *rapid.T, l *Limit, now, hits int64) {
	w.met[l] = true
	next, d := Decide(l, cloneState(w.bucket), Micros(now), hits)
	w.bucket = next
	if !d.Allowed {
		if used := w.used(now - 4*w.period); len(w.met) <= maxTallies && !d.Never && used+hits <= w.least() {
			t.Fatalf("%s denies %d hits at %d, %d were used, the least is %d:\n%v\n%+v", name(l), hits, now, used, w.least(), w.log, w.bucket)
		}
		return
	}
	w.log = append(w.log, event{now, hits})
	if used, most := w.used(now-now%w.period), w.most(now); used > most {
		names := slices.Collect(func(yield func(string) bool) {
			for l := range w.met {
				yield(name(l))
			}
		})
		t.Fatalf("%s lets %d hits pass at %d: %d in this window, the most is %d:\n%v\n%v\n%+v", name(l), hits, now, used, most, names, w.log, w.bucket)
	}
}

func (w *lateLimits) run(t *rapid.T) {
	now := epoch - epoch%w.period + rapid.Int64Range(0, w.period).Draw(t, "phase µs")
	asked := 1
	for range rapid.IntRange(1, 120).Draw(t, "steps") {
		if rapid.IntRange(0, 5).Draw(t, "another") == 0 {
			asked = min(asked+1, len(w.limits))
		}
		l := w.limits[rapid.IntRange(0, asked-1).Draw(t, "node")]
		now += rapid.OneOf(
			rapid.Just[int64](0), rapid.Int64Range(0, 2), rapid.Int64Range(0, w.period/50), rapid.Int64Range(0, w.period/3),
		).Draw(t, "step µs")
		_, peek := Decide(l, w.bucket, Micros(now), 0)
		hits := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Just(peek.Remaining), rapid.Just(peek.Remaining+1)).Draw(t, "hits")
		if hits < 1 || hits > l.capacity {
			hits = 1
		}
		w.take(t, l, now, hits)
		if isTAT(w.bucket.Kind) {
			return // the state does not say its rate
		}
	}
}

// TestLateLimits has limits join one after the other a key that others have used, up to
// as many as have a tally each: in every window no more passes than the largest of them
// allows and a bucket among them drains, and nothing is denied before the smallest is
// used up.
//
//promise:late-limits
func TestLateLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drawLateLimits(t, maxTallies).run(t) })
}

// TestMoreLimitsThanTallies is the same with more limits than have tallies: no more
// passes either, but those that are dropped and made again may deny early.
//
//promise:more-than-eight-limits
func TestMoreLimitsThanTallies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drawLateLimits(t, 3*maxTallies).run(t) })
}

// TestBucketThatWasLeftFull: what was in a bucket when its limit was asked last delays
// the draining of what passed elsewhere since then, though by itself it has drained.
//
//promise:disagreement-of-rates
func TestBucketThatWasLeftFull(t *testing.T) {
	window := Must(PerHour(100))
	small := Must(Spec{Algorithm: TokenBucket, Quota: 60, Burst: 30, Period: time.Hour})
	var s State
	for _, step := range []struct {
		minute, hits int64
		l            *Limit
		remaining    int64
	}{
		{0, 1, window, 99},
		{0, 29, small, 0},
		{20, 17, window, 53}, // the bucket holds 10 and 17
		{31, 1, small, 13},   // 27 and 1, less 11 that have drained in the meantime
	} {
		var d Decision
		if s, d = Decide(step.l, s, Micros(epoch+step.minute*60_000_000), step.hits); !d.Allowed || d.Remaining != step.remaining {
			t.Errorf("minute %d: %+v, want %d to remain", step.minute, d, step.remaining)
		}
	}
}

// TestLeasedHitsAreLaterThanTheirLease: hits that were leased under one limit may still
// pass until the lease ends, so that another does not take them for as old as the lease.
func TestLeasedHitsAreLaterThanTheirLease(t *testing.T) {
	window := Must(PerHour(100))
	small := Must(Spec{Algorithm: TokenBucket, Quota: 60, Burst: 30, Period: time.Hour})
	s, _ := Decide(window, State{}, Micros(epoch), 1)
	s, _ = Decide(small, s, Micros(epoch), 1)
	s, granted, lasts := Lease(window, s, Micros(epoch), 20, 1, 10*time.Minute)
	if granted != 20 || lasts != 10*time.Minute {
		t.Fatalf("%d hits for %v", granted, lasts)
	}
	if _, d := Decide(small, s, Micros(epoch+5*60_000_000), 0); d.Remaining != 10 {
		t.Errorf("%d remain after five minutes, want 30 less the 20 that may have passed just now", d.Remaining)
	}
	if _, d := Decide(small, s, Micros(epoch+15*60_000_000), 0); d.Remaining != 15 {
		t.Errorf("%d remain after a quarter of an hour, want five more", d.Remaining)
	}
}

// TestSpareTallyIsCovered: buckets that look back longer than a window, but hold less, are
// no reason to do without it.
func TestSpareTallyIsCovered(t *testing.T) {
	window := Must(PerHour(60))
	s, _ := Decide(window, State{}, Micros(epoch), 1)
	s, _ = Decide(Must(PerMinute(60)), s, Micros(epoch), 1)
	s, _ = Decide(window, s, Micros(epoch), 58) // and now its tally says whose it is
	for i := range int64(maxTallies) {
		bucket := Must(Spec{Algorithm: GCRA, Quota: 4, Burst: 5 + i, Period: time.Hour})
		var d Decision
		if s, d = Decide(bucket, s, Micros(epoch+1+i), 1); d.Allowed {
			t.Errorf("a burst of %d passes after 60 hits", bucket.Burst)
		}
	}
	if _, d := Decide(window, s, Micros(epoch+660_000_000), 1); d.Allowed {
		t.Error("the window lets the 61st hit pass: it was dropped")
	}
}
