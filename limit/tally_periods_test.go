package limit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestShortLimitBesideALongOne has two nodes disagree by a limit of long periods and one
// of short ones, each asked now and then: the short one denies only what is more than it
// allows, but for its first window, in which all that was used before counts.
//
//promise:disagreement-of-periods
func TestShortLimitBesideALongOne(t *testing.T) {
	for name, long := range map[string]Spec{
		"fixed_window":   {Algorithm: FixedWindow, Quota: 10_000, Period: 24 * time.Hour},
		"sliding_window": {Algorithm: SlidingWindow, Quota: 10_000, Period: 24 * time.Hour},
		"gcra":           {Algorithm: GCRA, Quota: 10_000, Period: 24 * time.Hour},
	} {
		for _, short := range countingAlgorithms {
			nodes := [2]*Limit{Must(long), Must(Spec{Algorithm: short, Quota: 10, Period: time.Second})}
			s, _ := Decide(nodes[0], State{}, Micros(epoch), 5000)
			denied := 0
			for i := range 1000 {
				var d Decision
				now := Micros(epoch + int64(i)*2_500_000)
				if s, d = Decide(nodes[i%2], s, now, 1); !d.Allowed {
					denied++
				}
			}
			if denied > 1 {
				t.Errorf("%s beside %v: %d of 500 denied", name, short, denied)
			}
		}
	}
}

// drawPeriods draws limits of any periods, each with a tally of its own. Buckets have one rate, and logs one period:
// their plain states do not say under which they were written.
func drawPeriods(t *rapid.T) *disagreement {
	w := &disagreement{}
	period := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour})
	quota := rapid.Int64Range(1, 60)
	bucket := Spec{Period: period.Draw(t, "bucket's period"), Quota: quota.Draw(t, "rate")}
	log := period.Draw(t, "log's period")
	for range rapid.IntRange(2, 5).Draw(t, "limits") {
		s := Spec{Algorithm: rapid.SampledFrom(countingAlgorithms).Draw(t, "algorithm")}
		s.Quota, s.Period = quota.Draw(t, "quota"), period.Draw(t, "period")
		switch s.Algorithm {
		case SubWindows:
			s.SubWindows = rapid.SampledFrom([]int{2, 3, 10}).Draw(t, "parts")
		case SlidingLog:
			s.Period = log
		case TokenBucket, GCRA:
			s.Burst = quota.Draw(t, "burst")
			fallthrough
		case LeakyBucket, LeakyQueue:
			s.Quota, s.Period = bucket.Quota, bucket.Period
		}
		l := Must(s)
		first := tally{state: l.none(), terms: l.terms()}
		first.state.Per = l.per
		if !slices.ContainsFunc(w.limits, func(other *Limit) bool { return other.owns(&first) }) {
			w.limits = append(w.limits, l)
		}
	}
	w.alone = make([]lone, len(w.limits))
	return w
}

// has reports whether a limit has a tally, or the bucket is all its own.
func (w *disagreement) has(l *Limit) bool {
	return slices.ContainsFunc(talliesOf(&w.bucket, nil), func(t tally) bool {
		return l.owns(&t) && (t.terms != unknownTerms || t.until == 0)
	})
}

// enough reports whether limit i, asked at these instants, may deny hits at now: what was
// used since it was asked last before the time that it looks back on, twice over as a
// window does, is at least what it allows. All that was used before its first time may count.
func (w *disagreement) enough(i int, asked []int64, now, hits int64) bool {
	l := w.limits[i]
	n, _ := slices.BinarySearch(asked, now-2*(l.memory()+l.periodMicros)+1)
	if n == 0 {
		return true
	}
	used := hits
	for _, e := range w.log {
		if e.at >= asked[n-1] {
			used += e.hits
		}
	}
	return used > min(l.capacity, l.Quota)-1
}

// TestDisagreementOfPeriods alternates at random among limits of any periods. A hit
// passes only if its limit alone would have let it pass after all hits since its tally
// began. A limit that has been asked for as long as it looks back denies only what is
// more than it allows itself, however long the others look back.
// TestShortLimitBesideALongOne says how long it keeps its tally.
//
//promise:disagreement-of-periods
func TestDisagreementOfPeriods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawPeriods(t)
		asked := make([][]int64, len(w.limits)) // since the limit has a tally
		now := epoch + rapid.Int64Range(0, 7_200_000_000).Draw(t, "phase µs")
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			i := rapid.IntRange(0, len(w.limits)-1).Draw(t, "node")
			l := w.limits[i]
			now += rapid.OneOf(
				rapid.Just[int64](0), rapid.Int64Range(0, 2_000_000), rapid.Int64Range(0, l.periodMicros/20), rapid.Int64Range(0, 2*l.periodMicros),
			).Draw(t, "step µs")
			if !w.has(l) {
				asked[i] = nil
			}
			hits := min(rapid.Int64Range(1, 3).Draw(t, "hits"), l.capacity)
			if d := w.pass(t, i, now, hits); !d.Allowed && !w.enough(i, asked[i], now, hits) {
				t.Fatalf("%s denies %d hits at %d, asked at %d: %+v\n%v\n%s", name(l), hits, now, asked[i], d, w.log, w)
			}
			asked[i] = append(asked[i], now)
		}
	})
}

// TestBucketsOfDifferentRates: buckets share a time, and which rate it was written under
// is not known until one of them finds it beyond its burst. At one instant so many pass
// as all limits allow together, and no more.
//
//promise:change-of-a-bucket disagreement-of-rates
func TestBucketsOfDifferentRates(t *testing.T) {
	hour := Must(Spec{Algorithm: GCRA, Quota: 100, Period: time.Hour})
	minute := Must(Spec{Algorithm: GCRA, Quota: 100, Period: time.Minute})
	s, _ := Decide(minute, State{}, Micros(epoch), 99)
	if s, d := Decide(hour, s, Micros(epoch), 98); !d.Allowed { // as docs/guarantees.md says
		t.Errorf("98 more are denied: %+v", d)
	} else if _, d := Decide(minute, s, Micros(epoch), 1); d.Allowed {
		t.Errorf("the 198th passes: %+v", d)
	}
	rapid.Check(t, func(t *rapid.T) {
		var limits []*Limit
		together, passed, s := int64(0), int64(0), State{}
		for range rapid.IntRange(2, 6).Draw(t, "limits") {
			l := Must(Spec{
				Algorithm: rapid.SampledFrom([]Algorithm{TokenBucket, GCRA}).Draw(t, "algorithm"),
				Quota:     rapid.Int64Range(1, 60).Draw(t, "quota"),
				Period:    rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "period"),
				Burst:     rapid.Int64Range(1, 60).Draw(t, "burst"),
			})
			limits, together = append(limits, l), together+l.capacity
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			l := rapid.SampledFrom(limits).Draw(t, "limit")
			_, peek := Decide(l, s, Micros(epoch), 0)
			hits := min(rapid.SampledFrom([]int64{1, 2, peek.Remaining, peek.Remaining + 1}).Draw(t, "hits"), l.capacity)
			var d Decision
			if s, d = Decide(l, cloneState(s), Micros(epoch), hits); d.Allowed {
				passed += hits
			}
		}
		if passed > together {
			t.Fatalf("%d passed at once, all together allow %d", passed, together)
		}
	})
}
