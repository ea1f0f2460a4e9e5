package denial

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// specs has a limit of ten for each algorithm that counts hits, and some that
// count denials.
var specs = []limit.Spec{
	{Algorithm: limit.SlidingWindow, Quota: 10, Period: time.Minute},
	{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Minute},
	{Algorithm: limit.SubWindows, Quota: 10, Period: time.Minute, SubWindows: 6},
	{Algorithm: limit.SubWindows, Quota: 10, Period: time.Minute, SubWindows: 6, Strict: true},
	{Algorithm: limit.SlidingLog, Quota: 10, Period: time.Minute},
	{Algorithm: limit.TokenBucket, Quota: 7, Period: time.Minute, Burst: 10},
	{Algorithm: limit.LeakyBucket, Quota: 10, Period: time.Minute},
	{Algorithm: limit.LeakyQueue, Quota: 7, Period: time.Minute, MaxQueue: 9},
	{Algorithm: limit.GCRA, Quota: 11, Period: time.Minute, Burst: 10},
	{Algorithm: limit.SlidingWindow, Quota: 10, Period: time.Minute, CountDenied: true},
	{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Minute, CountDenied: true},
	{Algorithm: limit.Concurrency, Quota: 2, Period: 5 * time.Second},
	{Algorithm: limit.Concurrency, Quota: 0, Period: 5 * time.Second},
	{Algorithm: limit.Ban, Quota: 2, Period: 3 * time.Second, BanFor: 10 * time.Second},
	{Algorithm: limit.Ban, Quota: 1, Period: time.Second, BanFor: time.Second},
}

func drawTake(t *rapid.T, limits []*limit.Limit) store.Take {
	key := rapid.IntRange(0, 3).Draw(t, "key")
	take := hit(fmt.Sprint("key ", key), limits[key%len(limits)], int64(rapid.IntRange(0, 12).Draw(t, "hits")))
	if !take.Limit.CountDenied {
		// Where denials are counted, a refund finds fewer of them: see Options.
		ops := []store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Refund, store.Charge, store.Reset, store.Renew, store.Release}
		take.Op = rapid.SampledFrom(ops).Draw(t, "op")
	}
	take.Hold = limit.Hold(rapid.IntRange(0, 3).Draw(t, "hold"))
	take.Shadow = rapid.IntRange(0, 3).Draw(t, "shadow") == 0
	if rapid.IntRange(0, 9).Draw(t, "askAlways") == 0 {
		take.Mode = &store.Mode{AskAlways: true}
	}
	return take
}

// Whatever is answered from memory is what the store would have answered: two
// equal stores get the same takes, one of them with denials remembered.
func TestSameAsTheStore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		longest := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(rt, "longest")
		b := newBench(t, Options{MaxEntries: 16, Longest: longest})
		bare := newMemstore(t, b.clock)
		var limits []*limit.Limit
		for range 2 {
			limits = append(limits, limit.Must(rapid.SampledFrom(specs).Draw(rt, "spec")))
		}
		for range rapid.IntRange(1, 60).Draw(rt, "batches") {
			b.clock.advance(time.Duration(rapid.SampledFrom([]int64{0, 0, 0, 1, 999_999, 3_500_000, 20_000_000}).Draw(rt, "µs")) * time.Microsecond)
			var takes []store.Take
			for range rapid.IntRange(1, 4).Draw(rt, "takes") {
				takes = append(takes, drawTake(rt, limits))
			}
			for i := range takes {
				takes[i].Group = uint32(rapid.IntRange(0, 1).Draw(rt, "group"))
			}
			want := make([]store.Result, len(takes))
			bare.Take(t.Context(), takes, want)
			got := b.batch(takes...)
			for i := range takes {
				if !agree(takes, got, want, i) {
					rt.Fatalf("batch %+v: take %d: %+v, the store says %+v", takes, i, got[i], want[i])
				}
			}
		}
	})
}

// agree reports whether got[i] is as good as want[i].
func agree(takes []store.Take, got, want []store.Result, i int) bool {
	g, w := got[i], want[i]
	if g.Err != nil || w.Err != nil {
		return false
	}
	if g.Skipped {
		return g.Allowed && g.Limit == w.Limit && groupDenied(takes, got, i) && groupDenied(takes, want, i)
	}
	if late := g.RetryAfter - w.RetryAfter; late < -time.Microsecond || late > time.Microsecond {
		return false
	}
	return g.Allowed == w.Allowed && g.Never == w.Never && g.Limit == w.Limit &&
		g.Remaining <= w.Remaining && g.ResetAfter == w.ResetAfter && g.Delay == w.Delay
}

// groupDenied reports whether the group of take i has a hit that is denied and
// not a shadow.
func groupDenied(takes []store.Take, results []store.Result, i int) bool {
	for i > 0 && takes[i-1].Group == takes[i].Group {
		i--
	}
	for j := i; j < store.GroupEnd(takes, i); j++ {
		if takes[j].Op == store.Hit && !takes[j].Shadow && !results[j].Allowed {
			return true
		}
	}
	return false
}
