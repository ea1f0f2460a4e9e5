package subbucket

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

//promise:sub-buckets
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := limit.Spec{
			Algorithm: limit.Algorithm(rapid.IntRange(0, int(limit.Ban)).Draw(t, "algorithm")),
			Quota:     rapid.OneOf(rapid.Int64Range(0, 200), rapid.Int64Range(0, limit.MaxLogQuota)).Draw(t, "quota"),
			Period:    time.Hour,
		}
		burst := spec.Algorithm == limit.TokenBucket || spec.Algorithm == limit.GCRA
		if burst {
			spec.Burst = rapid.Int64Range(0, 10_000).Draw(t, "burst")
		}
		if spec.Algorithm == limit.FixedWindow || spec.Algorithm == limit.SlidingWindow {
			spec.CountDenied = rapid.IntRange(0, 3).Draw(t, "countDenied") == 0
		}
		switch spec.Algorithm {
		case limit.Concurrency:
			spec.Quota = min(spec.Quota, limit.MaxConcurrency)
		case limit.Ban:
			spec.Quota, spec.BanFor = max(spec.Quota, 1), time.Hour
		}
		l := limit.Must(spec)
		n := rapid.IntRange(0, store.MaxSubBuckets).Draw(t, "n")
		p := cut(l, n)
		whole := n >= 2 && !l.CountDenied && l.Quota >= int64(n) &&
			l.Algorithm != limit.LeakyBucket && l.Algorithm != limit.LeakyQueue &&
			l.Algorithm != limit.Concurrency && l.Algorithm != limit.Ban && (!burst || l.Burst >= int64(n))
		if (p != nil) != whole {
			t.Fatalf("%+v in %d parts: cut %v, want %v", spec, n, p != nil, whole)
		}
		if p == nil {
			return
		}
		var quota, burstSum, capacities int64
		for i, part := range p.limits {
			quota += part.Quota
			burstSum += part.Burst
			capacities += p.capacities[i]
			if part.Quota-p.limits[n-1].Quota > 1 || part.Burst-p.limits[n-1].Burst > 1 || p.capacities[i] < p.least {
				t.Fatalf("part %d is %+v, the last %+v", i, part.Spec, p.limits[n-1].Spec)
			}
			if _, d := limit.Decide(part, limit.State{}, t0, 0); d.Limit != p.capacities[i] || d.Limit < 1 {
				t.Fatalf("part %d takes %d, not %d", i, d.Limit, p.capacities[i])
			}
		}
		if _, d := limit.Decide(l, limit.State{}, t0, 0); quota != l.Quota || burstSum != l.Burst || capacities != d.Limit || p.whole != d.Limit {
			t.Fatalf("%+v in %d parts: quota %d, burst %d, capacity %d", spec, n, quota, burstSum, capacities)
		}
	})
	// A burst that drains in 30 years does not at half of a rate of three.
	long := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 3, Period: limit.MaxPeriod, Burst: 100})
	if cut(long, 2) != nil {
		t.Error("a part that drains too long")
	}
}

// Any two keys, in parts or not, have other names beneath.
func TestNamesAreInjective(t *testing.T) {
	name := func(key string, part int) string {
		switch {
		case part >= 0:
			_, made := appendKey(nil, []byte(key), byte(part))
			return string(made)
		case marked([]byte(key)):
			_, made := appendKey(nil, []byte(key), plain)
			return string(made)
		}
		return key
	}
	pieces := rapid.SampledFrom([]string{"a", "\x00", "sub", marker, "\xff", "\x01", "\x3f"})
	rapid.Check(t, func(t *rapid.T) {
		key := func(label string) string { return strings.Join(rapid.SliceOfN(pieces, 0, 6).Draw(t, label), "") }
		part := rapid.IntRange(-1, store.MaxSubBuckets-1)
		key1, key2, part1, part2 := key("key 1"), key("key 2"), part.Draw(t, "part 1"), part.Draw(t, "part 2")
		if same := key1 == key2 && part1 == part2; (name(key1, part1) == name(key2, part2)) != same {
			t.Fatalf("%q part %d and %q part %d: %q, %q", key1, part1, key2, part2, name(key1, part1), name(key2, part2))
		}
	})
}

// A fixed window in parts, of which no one else takes, decides as one that is
// whole: one take or group at a time.
func TestSameAsWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		whole := newMemstore(t, b.clock)
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: rapid.Int64Range(10, 40).Draw(rt, "quota"), Period: time.Minute})
		mode := in(rapid.IntRange(2, 10).Draw(rt, "n"))
		for range rapid.IntRange(1, 40).Draw(rt, "batches") {
			b.clock.advance(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 5, 20}).Draw(rt, "seconds")) * time.Second)
			takes := drawRun(rt, l, mode)
			dry := slices.Clone(takes)
			for i := range dry {
				dry[i].DryRun = true
			}
			stats := b.Stats()
			said := b.batch(dry...)
			if after := b.Stats(); after != stats {
				rt.Fatalf("%+v: dry runs have made %+v of %+v", takes, after, stats)
			}
			got, want := b.batch(takes...), make([]store.Result, len(takes))
			for i := range takes {
				if said[i].Allowed != got[i].Allowed || said[i].Never != got[i].Never || said[i].RetryAfter != got[i].RetryAfter || said[i].Err != nil {
					rt.Fatalf("%+v: take %d: dry %+v, real %+v", takes, i, said[i], got[i])
				}
			}
			for i := range takes {
				takes[i].Mode = nil
			}
			whole.Take(t.Context(), takes, want)
			for i, take := range takes {
				if got[i].Allowed != want[i].Allowed || got[i].Never != want[i].Never || got[i].RetryAfter != want[i].RetryAfter || got[i].Limit != want[i].Limit || got[i].Err != nil {
					rt.Fatalf("%+v: take %d: %+v, whole %+v", takes, i, got[i], want[i])
				}
				take.Mode, take.Op, take.Hits, take.Group = mode, store.Hit, 0, 0
				peek := b.one(take)
				take.Mode = nil
				var r [1]store.Result
				whole.Take(t.Context(), []store.Take{take}, r[:])
				if peek != r[0].Decision {
					rt.Fatalf("%+v: then a peek of take %d: %+v, whole %+v", takes, i, peek, r[0].Decision)
				}
			}
		}
	})
}

// drawRun draws a take, or a group on different buckets.
func drawRun(t *rapid.T, l *limit.Limit, mode *store.Mode) (takes []store.Take) {
	n := rapid.IntRange(1, 3).Draw(t, "takes")
	for i := range n {
		take := store.Take{Key: fmt.Append(nil, "key ", i), Limit: l, Hits: rapid.Int64Range(0, 15).Draw(t, "hits"), Mode: mode}
		if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
			take.Hits *= 4
		}
		take.Op = rapid.SampledFrom([]store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Refund, store.Reset}).Draw(t, "op")
		if n > 1 {
			take.Group = 7
		}
		takes = append(takes, take)
	}
	return takes
}

// Whatever several nodes do at several instants, in any time t no more passes
// than burst + rate*t.
//
//promise:sub-buckets
func TestNeverOverTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		nodes := []*Store{b.Store, New(b.inner)}
		spec := limit.Spec{Algorithm: limit.TokenBucket, Quota: 60, Period: time.Minute, Burst: rapid.Int64Range(8, 40).Draw(rt, "burst")}
		l := limit.Must(spec)
		type passed struct{ at, hits int64 }
		var log []passed
		for range rapid.IntRange(10, 80).Draw(rt, "hits") {
			b.clock.advance(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 100, 900, 5000}).Draw(rt, "ms")) * time.Millisecond)
			var r [1]store.Result
			take := hit("k", l, rapid.Int64Range(1, 12).Draw(rt, "n"))
			rapid.SampledFrom(nodes).Draw(rt, "node").Take(t.Context(), []store.Take{take}, r[:])
			if r[0].Allowed {
				log = append(log, passed{int64(b.clock.now()), take.Hits})
			}
		}
		for i := range log {
			sum := int64(0)
			for _, p := range log[i:] {
				sum += p.hits
				if most := spec.Burst + (p.at-log[i].at)/1_000_000; sum > most {
					rt.Fatalf("%d hits in %d µs, at most %d", sum, p.at-log[i].at, most)
				}
			}
		}
	})
}

func TestManyLimits(t *testing.T) {
	var c cuts
	first := hit("k", limit.Must(limit.PerMinute(100)), 1)
	kept := c.of(&first)
	if kept == nil || c.of(&first) != kept {
		t.Error("the parts of a limit are made again")
	}
	many := map[cutOf]*parts{{first.Limit, 8}: kept}
	for n := range maxCuts - 1 {
		many[cutOf{nil, n}] = kept
	}
	c.known.Store(&many)
	second := hit("k", limit.Must(limit.PerMinute(100)), 1)
	if c.of(&first) != kept || c.of(&second) == nil || len(*c.known.Load()) != 1 {
		t.Errorf("%d limits are kept", len(*c.known.Load()))
	}
	first.Mode = in(1000)
	if n := len(c.of(&first).limits); n != store.MaxSubBuckets {
		t.Errorf("%d parts", n)
	}
}
