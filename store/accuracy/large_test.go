package accuracy_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store/accuracy"
)

// largeQuota is beyond what a log is kept of.
const largeQuota = 2 * accuracy.MaxReferenceLog

func largeBench(t *testing.T) *bench {
	return newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 2000}}]", 1, headgate.Options{})
}

func (b *bench) hits(n int64) (allowed bool) {
	d := on("user:a")
	d.Hits = n
	return b.check(d).Allowed
}

// What a sliding_window lets pass and denies wrongly is seen of a large quota too.
func TestLargeQuotasAreNotComparedWithThemselves(t *testing.T) {
	b := largeBench(t)
	for _, step := range []struct {
		at      time.Duration
		hits    int64
		allowed bool
		want    accuracy.Counts
	}{
		{59 * time.Second, 2000, true, accuracy.Counts{Decided: 1}},
		// Half of them count as gone, and all of them were there 31 s ago.
		{90 * time.Second, 1000, true, accuracy.Counts{Decided: 2, WrongAllowed: 1, Overshoot: 0.5}},
		{10 * time.Minute, 2000, true, accuracy.Counts{Decided: 3, WrongAllowed: 1, Overshoot: 0.5}},
		// They were there 61 s ago, and nearly all of them count.
		{11*time.Minute + time.Second, 100, false, accuracy.Counts{Decided: 4, WrongAllowed: 1, WrongDenied: 1, Overshoot: 0.5}},
	} {
		b.now = noon.Add(step.at)
		allowed := b.hits(step.hits)
		if got := b.counts("user"); got != step.want || allowed != step.allowed {
			t.Errorf("%d hits at %v: allowed %t, %+v, want %+v", step.hits, step.at, allowed, got, step.want)
		}
	}
}

// Of a large quota what was measured differs from a naive log by the hits of a sixtieth of
// the period at most.
func TestLargeQuotasAgainstALog(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const part = time.Minute / accuracy.ReferenceParts
		b := largeBench(t)
		passed := map[time.Time]int64{}
		within := func(span time.Duration) (hits int64) {
			for at, n := range passed {
				if at.After(b.now.Add(-span)) {
					hits += n
				}
			}
			return hits
		}
		var before accuracy.Counts
		for range rapid.IntRange(1, 60).Draw(r, "requests") {
			b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 500, 1000, 7300, 31_000, 200_000}).Draw(r, "milliseconds")) * time.Millisecond)
			hits := rapid.Int64Range(1, 900).Draw(r, "hits")
			fewest, most := within(time.Minute-part)+hits, within(time.Minute+part)+hits
			allowed := b.hits(hits)
			got := b.counts("user")
			wrongAllowed, wrongDenied := got.WrongAllowed > before.WrongAllowed, got.WrongDenied > before.WrongDenied
			switch {
			case allowed && fewest > largeQuota && !wrongAllowed, allowed && most <= largeQuota && wrongAllowed,
				!allowed && most <= largeQuota && !wrongDenied, !allowed && fewest > largeQuota && wrongDenied, got.Decided != before.Decided+1:
				r.Fatalf("%d hits at %v, %d to %d with those before: allowed %t, %+v, before %+v", hits, b.now, fewest, most, allowed, got, before)
			}
			if allowed {
				passed[b.now] += hits
			}
			if over := float64(most-largeQuota) / largeQuota; got.Overshoot > max(before.Overshoot, over) {
				r.Fatalf("an overshoot of %v, and %v at most", got.Overshoot, over)
			}
			before = got
		}
	})
}
