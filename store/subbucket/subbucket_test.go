package subbucket

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/storetest"
)

var t0 = limit.MicrosOf(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))

type clock struct{ micros atomic.Int64 }

func (c *clock) now() limit.Micros        { return limit.Micros(c.micros.Load()) }
func (c *clock) set(now limit.Micros)     { c.micros.Store(int64(now)) }
func (c *clock) advance(by time.Duration) { c.micros.Add(by.Microseconds()) }

func newMemstore(t testing.TB, c *clock) *memstore.Store {
	t.Helper()
	m, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Shards: 1, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// watched is a memory store that counts what comes by key, and can fail.
type watched struct {
	store.Store
	byKey map[string]int
	calls int
	fail  func(call int) error
	then  func(call int)
}

func (w *watched) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	w.calls++
	for i := range takes {
		w.byKey[string(takes[i].Key)]++
	}
	w.Store.Take(ctx, takes, results)
	if w.fail != nil {
		for i := range results {
			results[i].Err = w.fail(w.calls)
		}
	}
	if w.then != nil {
		w.then(w.calls)
	}
}

type bench struct {
	*Store
	inner *watched
	clock *clock
	t     testing.TB
}

func newBench(t testing.TB) *bench {
	t.Helper()
	c := new(clock)
	c.set(t0)
	inner := &watched{Store: newMemstore(t, c), byKey: map[string]int{}}
	return &bench{New(inner), inner, c, t}
}

func (b *bench) batch(takes ...store.Take) []store.Result {
	b.t.Helper()
	results := make([]store.Result, len(takes))
	b.Take(b.t.Context(), takes, results)
	return results
}

func (b *bench) one(t store.Take) limit.Decision {
	b.t.Helper()
	r := b.batch(t)[0]
	if r.Err != nil {
		b.t.Fatal(r.Err)
	}
	return r.Decision
}

func in(n int) *store.Mode { return &store.Mode{SubBuckets: n} }

var (
	fixed = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute})
	gcra  = limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 100, Period: time.Minute})
	in8   = in(8)
)

func hit(key string, l *limit.Limit, hits int64) store.Take {
	return store.Take{Key: []byte(key), Limit: l, Hits: hits, Mode: in8}
}

// op is on the bucket k under the limit fixed.
func op(o store.Op, hits int64) store.Take {
	t := hit("k", fixed, hits)
	t.Op = o
	return t
}

func group(takes ...store.Take) []store.Take {
	for i := range takes {
		takes[i].Group = 1
	}
	return takes
}

// Takes that ask for no sub-buckets get what the contract says.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		c := new(clock)
		return storetest.Harness{Store: New(newMemstore(t, c)), SetNow: c.set}
	})
}

// A bucket in parts lets pass its limit from idle, hit by hit of any size, to
// the last.
func TestUsesTheWholeLimit(t *testing.T) {
	for _, spec := range []limit.Spec{
		{Algorithm: limit.FixedWindow, Quota: 1003, Period: time.Minute},
		{Algorithm: limit.SlidingWindow, Quota: 1003, Period: time.Minute},
		{Algorithm: limit.SubWindows, Quota: 1003, Period: time.Minute},
		{Algorithm: limit.SlidingLog, Quota: 1003, Period: time.Minute},
		{Algorithm: limit.TokenBucket, Quota: 77, Period: time.Minute, Burst: 1003},
		{Algorithm: limit.GCRA, Quota: 1003, Period: time.Minute},
	} {
		for _, hits := range []int64{1, 7, 63, 500, 1003} {
			t.Run(fmt.Sprint(spec.Algorithm, " by ", hits), func(t *testing.T) {
				b, l := newBench(t), limit.Must(spec)
				for used := int64(0); ; used += hits {
					d := b.one(store.Take{Key: []byte("k"), Limit: l, Hits: hits, Mode: in(16)})
					if want := used+hits <= 1003; d.Allowed != want || d.Limit != 1003 || d.Never {
						t.Fatalf("after %d: %+v", used, d)
					}
					if d.Allowed {
						continue
					}
					if d.RetryAfter <= 0 || d.Remaining != 1003-used || d.ResetAfter < d.RetryAfter {
						t.Fatalf("after %d: %+v", used, d)
					}
					b.clock.advance(d.RetryAfter)
					if again := b.one(store.Take{Key: []byte("k"), Limit: l, Hits: hits, Mode: in(16)}); !again.Allowed {
						t.Fatalf("after RetryAfter: %+v", again)
					}
					return
				}
			})
		}
	}
}

func TestPeekSumsUp(t *testing.T) {
	b := newBench(t)
	for range 30 {
		b.one(hit("k", gcra, 1))
	}
	d := b.one(hit("k", gcra, 0))
	if !d.Allowed || d.Remaining != 70 || d.Limit != 100 || d.ResetAfter < 8*3*600*time.Millisecond || d.RetryAfter != 0 {
		t.Errorf("%+v", d)
	}
	if used := len(b.inner.byKey); used != 8 {
		t.Errorf("%d keys are in use", used)
	}
}

func TestNever(t *testing.T) {
	b := newBench(t)
	b.one(hit("k", fixed, 10))
	if d := b.one(hit("k", fixed, 101)); d.Allowed || !d.Never || d.RetryAfter != 0 || d.Remaining != 90 {
		t.Errorf("%+v", d)
	}
	other := hit("other", fixed, 1)
	other.Mode = nil
	if r := b.batch(group(other, hit("k", fixed, 101))...); !r[0].Allowed || !r[1].Never {
		t.Errorf("%+v", r)
	}
	other.Group, other.Hits = 0, 0
	if d := b.one(other); d.Remaining != 100 {
		t.Errorf("a group with a hit that never passes is charged: %+v", d)
	}
}

func TestRefundResetCharge(t *testing.T) {
	b := newBench(t)
	b.one(hit("k", fixed, 100))
	if d := b.one(op(store.Refund, 40)); !d.Allowed || d.Remaining != 40 {
		t.Errorf("refund: %+v", d)
	}
	if d := b.one(op(store.Refund, 0)); d.Remaining != 40 {
		t.Errorf("refund of nothing: %+v", d)
	}
	if d := b.one(op(store.Refund, 1000)); d.Remaining != 100 {
		t.Errorf("refund of more than was used: %+v", d)
	}
	if d := b.one(op(store.Refund, 1)); d.Remaining != 100 {
		t.Errorf("refund to an unused bucket: %+v", d)
	}
	b.one(hit("k", fixed, 100))
	if d := b.one(op(store.Reset, 0)); d.Remaining != 100 || d.ResetAfter != 0 {
		t.Errorf("reset: %+v", d)
	}
	for _, hits := range []int64{3, 70} {
		b.one(op(store.Charge, hits))
	}
	if d := b.one(hit("k", fixed, 0)); d.Remaining != 27 {
		t.Errorf("after charges: %+v", d)
	}
	if d := b.one(op(store.Charge, 800)); d.Allowed || d.Remaining != 0 || d.RetryAfter != time.Minute {
		t.Errorf("in debt: %+v", d)
	}
}

func TestGroups(t *testing.T) {
	b := newBench(t)
	plainTake := func(key string, hits int64) store.Take {
		take := hit(key, fixed, hits)
		take.Mode = nil
		return take
	}
	left := func(take store.Take) int64 {
		take.Hits, take.Group = 0, 0
		return b.one(take).Remaining
	}
	for range 95 { // from part to part
		if r := b.batch(group(hit("k", fixed, 1), plainTake("p", 1))...); !r[0].Allowed || !r[1].Allowed {
			t.Fatalf("%+v", r)
		}
	}
	if r := b.batch(group(hit("k", fixed, 5), plainTake("p", 6))...); !r[0].Allowed || r[1].Allowed || left(hit("k", fixed, 0)) != 5 {
		t.Errorf("denied by another: %+v", r)
	}
	if r := b.batch(group(plainTake("p", 5), hit("k", fixed, 6))...); !r[0].Allowed || r[1].Allowed || r[1].RetryAfter != time.Minute || left(plainTake("p", 0)) != 5 {
		t.Errorf("denied by the parts: %+v", r)
	}
	shadow := hit("k", fixed, 6)
	shadow.Shadow = true
	if r := b.batch(group(plainTake("p", 1), shadow)...); !r[0].Allowed || r[1].Allowed || left(plainTake("p", 0)) != 4 {
		t.Errorf("a shadow: %+v", r)
	}
	if r := b.batch(group(hit("k", fixed, 3), hit("k", fixed, 2), plainTake("p", 4))...); !r[0].Allowed || !r[1].Allowed || !r[2].Allowed {
		t.Errorf("two hits on one bucket, to the last: %+v", r)
	}
	if left(hit("k", fixed, 0)) != 0 || left(plainTake("p", 0)) != 0 {
		t.Error("what is left is not charged")
	}
	s := b.Stats()
	if s.Hits != 100 || s.Denied != 2 || s.Spread == 0 {
		t.Errorf("%+v", s)
	}
	if b.Close() != nil {
		t.Error("close")
	}
}

func TestBatchOfManyKeys(t *testing.T) {
	b := newBench(t)
	var takes []store.Take
	for i := range 60 {
		take := hit(fmt.Sprint("key ", i), fixed, int64(i))
		if i%3 == 0 {
			take.Mode = nil
		}
		take.Group = uint32(i / 10 % 2)
		takes = append(takes, take)
	}
	for i, r := range b.batch(takes...) {
		if !r.Allowed || r.Limit != 100 {
			t.Errorf("take %d: %+v", i, r)
		}
	}
	for i, take := range takes {
		take.Hits = 0
		if d := b.one(take); d.Remaining != 100-int64(i) {
			t.Errorf("take %d: %+v", i, d)
		}
	}
}

// No part gets much more than its share of the load, also not when a window
// begins of which nothing is known.
func TestLoadIsSpread(t *testing.T) {
	b := newBench(t)
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100_000, Period: time.Minute})
	for range 3 {
		clear(b.inner.byKey)
		const hits = 8000
		for range hits {
			b.one(hit("k", l, 1))
		}
		for key, n := range b.inner.byKey {
			if n > 2*hits/8 || n < hits/8/2 {
				t.Errorf("part %q gets %d of %d", key, n, hits)
			}
		}
		for b.one(hit("k", l, 5000)).Allowed {
		}
		b.clock.advance(time.Minute)
	}
}

func TestErrors(t *testing.T) {
	down := errors.New("down")
	b := newBench(t)
	b.inner.fail = func(int) error { return down }
	for _, take := range []store.Take{hit("k", fixed, 1), hit("k", fixed, 50), hit("k", fixed, 0), op(store.Refund, 1), op(store.Reset, 0)} {
		if r := b.batch(take)[0]; r.Err != down {
			t.Errorf("%+v: %+v", take, r)
		}
	}
	for _, r := range b.batch(group(hit("a", fixed, 1), hit("k", fixed, 50))...) {
		if r.Err != down {
			t.Errorf("group: %+v", r)
		}
	}
	b.inner.fail = nil
	for b.one(hit("k", fixed, 1)).Allowed {
	}
	// The first answer denies, the second, of the peeks, does not come.
	b.inner.calls = 0
	b.inner.fail = func(call int) error {
		if call > 1 {
			return down
		}
		return nil
	}
	var r [1]store.Result
	New(b.inner).Take(t.Context(), []store.Take{hit("k", fixed, 1)}, r[:]) // it knows nothing, and tries
	if r[0].Err != nil || r[0].Allowed || r[0].RetryAfter != time.Minute {
		t.Errorf("denied, then an error: %+v", r)
	}
}

// When others are always faster, a hit is denied after three tries.
func TestTriesAreBounded(t *testing.T) {
	b := newBench(t)
	victim, other := New(b.inner), New(b.inner.Store)
	for b.one(hit("k", fixed, 1)).Allowed {
	}
	b.inner.calls = 0
	peekLast := false
	b.inner.then = func(call int) {
		peekLast = !peekLast
		var r [1]store.Result
		takes := []store.Take{op(store.Refund, 1)}
		if !peekLast { // the peeks have seen a hit that is gone when it is asked for
			takes[0] = hit("k", fixed, 1)
		}
		other.Take(t.Context(), takes, r[:])
	}
	// A refund after each denial, which the peeks see, and a hit after the peeks.
	var r [1]store.Result
	victim.Take(t.Context(), []store.Take{hit("k", fixed, 1)}, r[:])
	if r[0].Allowed || r[0].Err != nil || r[0].RetryAfter != time.Minute {
		t.Errorf("%+v", r)
	}
	if s := victim.Stats(); b.inner.calls != 2*maxTries-1 || s.Again != maxTries-1 {
		t.Errorf("%d calls, %+v", b.inner.calls, s)
	}
}

// Many callers at once get the limit and no more, under the race detector.
func TestConcurrent(t *testing.T) {
	c := new(clock)
	c.set(t0)
	s := New(newMemstore(t, c))
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5000, Period: time.Hour})
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var r [2]store.Result
			takes := []store.Take{hit("k", l, 1), hit("k", l, int64(1+g))}
			for range 300 {
				s.Take(t.Context(), takes, r[:])
				for i := range r {
					if r[i].Allowed {
						allowed.Add(takes[i].Hits)
					}
				}
				s.Stats()
			}
		})
	}
	wg.Wait()
	if got := allowed.Load(); got > 5000 || got < 5000-8 {
		t.Errorf("%d of 5000 hits have passed", got)
	}
}

func TestPassesThrough(t *testing.T) {
	counting := limit.Must(limit.Spec{Quota: 100, Period: time.Minute, CountDenied: true})
	leaky := limit.Must(limit.Spec{Algorithm: limit.LeakyBucket, Quota: 100, Period: time.Minute})
	small := limit.Must(limit.Spec{Quota: 7, Period: time.Minute})
	for _, take := range []store.Take{
		hit("k", counting, 1), hit("k", leaky, 1), hit("k", small, 1),
		{Key: []byte("k"), Limit: fixed, Hits: 1},
		{Key: []byte("k"), Limit: fixed, Hits: 1, Mode: in(1)},
	} {
		b := newBench(t)
		b.one(take)
		if b.inner.byKey["k"] != 1 || len(b.inner.byKey) != 1 {
			t.Errorf("%+v goes to %v", take, b.inner.byKey)
		}
		takes, results := []store.Take{take}, make([]store.Result, 1)
		if allocs := alloctest.PerRun(100, func() { b.Store.Take(context.Background(), takes, results) }); allocs > 0 {
			t.Errorf("%v allocations", allocs)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	c := new(clock)
	s := New(newMemstore(t, c))
	huge := limit.Must(limit.Spec{Quota: 1 << 40, Period: time.Minute})
	takes, results := []store.Take{hit("k", huge, 1), hit("other", huge, 1)}, make([]store.Result, 2)
	if allocs := alloctest.PerRun(500, func() { s.Take(context.Background(), takes, results) }); allocs >= 1 && !raceEnabled {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkTake(b *testing.B) {
	huge := limit.Must(limit.Spec{Quota: 1 << 40, Period: time.Minute})
	for _, n := range []int{0, 8, 64} {
		b.Run(fmt.Sprint(n, " sub-buckets"), func(b *testing.B) {
			s := New(newMemstore(b, new(clock)))
			take := hit("a key of a common length", huge, 1)
			take.Mode = in(n)
			takes, results := []store.Take{take}, make([]store.Result, 1)
			b.ReportAllocs()
			for b.Loop() {
				s.Take(b.Context(), takes, results)
			}
		})
	}
}

func TestKeysDoNotCollide(t *testing.T) {
	b := newBench(t)
	var keys []string
	for _, key := range []string{"", "k", "k\x00", "k\x00sub", "k\x01\x00sub", "k\xff\x00sub", "k\xff\x00sub\xff\x00sub", "\x00sub"} {
		take := hit(key, fixed, 0)
		take.Mode = nil
		clear(b.inner.byKey)
		b.one(take)
		for made := range b.inner.byKey {
			keys = append(keys, made)
		}
		clear(b.inner.byKey)
		b.one(hit(key, fixed, 0))
		for made := range b.inner.byKey {
			keys = append(keys, made)
		}
	}
	slices.Sort(keys)
	if n := len(slices.Compact(slices.Clone(keys))); n != len(keys) || n != 8*9 {
		t.Errorf("%d keys, %d of them different: %q", len(keys), n, keys)
	}
}

// Where another node uses up parts between two looks of this one, a hit may be denied though
// the parts together have more left than it asks for. What is said to be left then is less than
// the hit, or clients would ask again at once. Which parts a hit goes to is drawn, so many tries
// are made.
func TestWhatIsLeftOfADenial(t *testing.T) {
	denied := 0
	for range 200 {
		b := newBench(t)
		b.one(hit("k", fixed, 8))
		b.one(hit("k", fixed, 0))
		keys := slices.Sorted(maps.Keys(b.inner.byKey))
		b.inner.then = func(call int) {
			part := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 12, Period: time.Minute})
			take := store.Take{Key: []byte(keys[call%len(keys)]), Limit: part, Hits: part.Quota, Op: store.Charge}
			b.inner.Store.Take(t.Context(), []store.Take{take}, make([]store.Result, 1))
		}
		d := b.one(hit("k", fixed, 30))
		if d.Allowed {
			continue
		}
		if denied++; d.Never || d.Remaining >= 30 {
			t.Fatalf("%+v, want a denial with less left than the hit", d)
		}
	}
	if denied == 0 {
		t.Error("nothing was denied")
	}
}
