package denial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

var t0 = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// clock is the one clock of a test: of the memory store and of the denials.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time           { return t0.Add(time.Duration(c.nanos.Load())) }
func (c *clock) micros() limit.Micros     { return limit.MicrosOf(c.now()) }
func (c *clock) advance(by time.Duration) { c.nanos.Add(int64(by)) }

// counted counts the takes that reach a store, and runs then after each call.
type counted struct {
	store.Store
	takes, calls int
	then         func()
	fail         error
}

func (c *counted) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	c.takes += len(takes)
	c.calls++
	c.Store.Take(ctx, takes, results)
	if c.fail != nil {
		for i := range results {
			results[i].Err = c.fail
		}
	}
	if then := c.then; then != nil {
		c.then = nil
		then()
	}
}

// bench is a Store over a counted memory store, at one clock.
type bench struct {
	*Store
	inner *counted
	clock *clock
	t     testing.TB
}

func newBench(t testing.TB, o Options) *bench {
	t.Helper()
	c := new(clock)
	o.Now = c.now
	m := newMemstore(t, c)
	inner := &counted{Store: m}
	return &bench{Store: New(inner, o), inner: inner, clock: c, t: t}
}

func newMemstore(t testing.TB, c *clock) *memstore.Store {
	t.Helper()
	m, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Shards: 1, Now: c.micros})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func hit(key string, l *limit.Limit, hits int64) store.Take {
	return store.Take{Key: []byte(key), Limit: l, Hits: hits}
}

func (b *bench) batch(takes ...store.Take) []store.Result {
	b.t.Helper()
	results := make([]store.Result, len(takes))
	b.Take(b.t.Context(), takes, results)
	return results
}

// one takes t and checks whether it passes and whether the store was asked.
func (b *bench) one(t store.Take, allowed, asked bool) limit.Decision {
	b.t.Helper()
	before := b.inner.takes
	r := b.batch(t)[0]
	if r.Allowed != allowed || r.Err != nil {
		b.t.Fatalf("%d hits on %s: %+v, want allowed %v", t.Hits, t.Key, r, allowed)
	}
	if got := b.inner.takes > before; got != asked {
		b.t.Fatalf("%d hits on %s: the store was asked %v, want %v", t.Hits, t.Key, got, asked)
	}
	return r.Decision
}

var (
	sliding = limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 10, Period: time.Minute})
	bucket  = limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 10, Period: time.Minute})
	fixed   = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Minute})
)

func TestRemembersUntilLongest(t *testing.T) {
	b := newBench(t, Options{})
	b.one(hit("a", bucket, 10), true, true)
	first := b.one(hit("a", bucket, 1), false, true)
	if first.RetryAfter != 6*time.Second {
		t.Fatalf("the store says %+v", first)
	}
	b.clock.advance(1500*time.Millisecond + 300*time.Nanosecond)
	d := b.one(hit("a", bucket, 1), false, false)
	want := first
	want.RetryAfter, want.ResetAfter = 4500*time.Millisecond, first.ResetAfter-1500*time.Millisecond
	if d != want {
		t.Errorf("from memory: %+v, want %+v", d, want)
	}
	b.clock.advance(500*time.Millisecond - 301*time.Nanosecond)
	b.one(hit("a", bucket, 1), false, false)
	b.clock.advance(time.Nanosecond)
	b.one(hit("a", bucket, 1), false, true)
	b.clock.advance(2 * time.Second)
	b.one(hit("a", bucket, 1), false, true)
	b.clock.advance(2*time.Second - time.Nanosecond)
	b.one(hit("a", bucket, 1), false, false)
	b.clock.advance(time.Nanosecond)
	b.one(hit("a", bucket, 1), true, true)
}

// TestLeasedForATenthOfASecond: other nodes may give back what they hold.
func TestLeasedForATenthOfASecond(t *testing.T) {
	for _, c := range []struct {
		mode    store.Mode
		longest time.Duration
		want    time.Duration
	}{
		{store.Mode{Consistency: store.Leased}, 0, 100 * time.Millisecond},
		{store.Mode{Consistency: store.Leased}, 50 * time.Millisecond, 50 * time.Millisecond},
		{store.Mode{Consistency: store.Synced}, 0, 2 * time.Second},
		{store.Mode{Consistency: store.Local}, 0, 2 * time.Second},
		{store.Mode{AutoLease: true}, 0, 2 * time.Second},
	} {
		for _, l := range []*limit.Limit{fixed, bucket} {
			b := newBench(t, Options{Longest: c.longest})
			take := hit("a", l, 10)
			take.Mode = &c.mode
			b.one(take, true, true)
			b.one(take, false, true)
			b.clock.advance(c.want - time.Nanosecond)
			b.one(take, false, false)
			b.clock.advance(time.Nanosecond)
			b.one(take, false, true)
		}
	}
}

func TestNeverLongerThanTheStoreMeant(t *testing.T) {
	b := newBench(t, Options{Longest: time.Hour})
	b.one(hit("a", bucket, 10), true, true)
	// The answer takes a second to come back, in which nothing drains that the
	// store has not said.
	b.inner.then = func() { b.clock.advance(time.Second) }
	b.one(hit("a", bucket, 1), false, true)
	b.clock.advance(5*time.Second - time.Nanosecond)
	if d := b.one(hit("a", bucket, 1), false, false); d.RetryAfter != time.Microsecond {
		t.Errorf("a nanosecond before the end RetryAfter is %v", d.RetryAfter)
	}
	b.clock.advance(time.Nanosecond)
	b.one(hit("a", bucket, 1), true, true)
}

func TestMoreAndFewerHits(t *testing.T) {
	for _, test := range []struct {
		limit *limit.Limit
		asked bool // for more hits than were denied
	}{
		{sliding, true}, {bucket, false}, {fixed, false},
		{limit.Must(limit.Spec{Algorithm: limit.SubWindows, Quota: 10, Period: time.Minute}), true},
		{limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 10, Period: time.Minute}), true},
		{limit.Must(limit.Spec{Algorithm: limit.LeakyQueue, Quota: 10, Period: time.Minute, MaxQueue: 9}), false},
	} {
		t.Run(test.limit.Algorithm.String(), func(t *testing.T) {
			b := newBench(t, Options{})
			b.one(hit("a", test.limit, 6), true, true)
			b.one(hit("a", test.limit, 5), false, true)
			b.one(hit("a", test.limit, 5), false, false)
			more := b.one(hit("a", test.limit, 7), false, test.asked)
			if again := b.one(hit("a", test.limit, 7), false, false); again != more {
				t.Errorf("again: %+v, before %+v", again, more)
			}
			never := b.one(hit("a", test.limit, 11), false, false)
			if !never.Never || never.RetryAfter != 0 {
				t.Errorf("more than the limit: %+v", never)
			}
			b.one(hit("a", test.limit, 4), true, true)
			b.one(hit("a", test.limit, 5), false, true)
		})
	}
}

func TestNever(t *testing.T) {
	b := newBench(t, Options{})
	none := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 0, Period: time.Minute})
	for _, l := range []*limit.Limit{sliding, bucket, none} {
		d := b.one(hit("a", l, 11), false, true)
		if !d.Never {
			t.Fatalf("%+v", d)
		}
		if got := b.one(hit("a", l, 12), false, false); got != d {
			t.Errorf("from memory: %+v, want %+v", got, d)
		}
		b.clock.advance(2 * time.Second)
		b.one(hit("a", l, 11), false, true)
	}
}

func TestWhatDrops(t *testing.T) {
	raised := limit.Must(limit.Spec{Quota: 20, Period: time.Minute})
	asks := &store.Mode{AskAlways: true}
	for _, test := range []struct {
		name    string
		between store.Take
		hits    int64
		allowed bool
		asked   bool
	}{
		{"nothing", hit("a", sliding, 0), 5, false, false},
		{"another key", store.Take{Key: []byte("b"), Limit: sliding, Op: store.Reset}, 5, false, false},
		{"refund", store.Take{Key: []byte("a"), Limit: sliding, Hits: 1, Op: store.Refund}, 5, true, true},
		{"refund of nothing", store.Take{Key: []byte("a"), Limit: sliding, Op: store.Refund}, 5, false, false},
		{"reset", store.Take{Key: []byte("a"), Limit: sliding, Op: store.Reset}, 10, true, true},
		{"fewer hits that pass", hit("a", sliding, 1), 5, false, true},
		{"a raised limit", hit("a", raised, 0), 5, false, false},
		{"hits that pass under a raised limit", hit("a", raised, 14), 5, false, true},
		{"asked always", store.Take{Key: []byte("a"), Limit: sliding, Hits: 5, Mode: asks}, 5, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.one(hit("a", sliding, 6), true, true)
			b.one(hit("a", sliding, 5), false, true)
			b.one(hit("a", sliding, 5), false, false)
			b.batch(test.between)
			b.one(hit("a", sliding, test.hits), test.allowed, test.asked)
		})
	}
	t.Run("another limit", func(t *testing.T) {
		b := newBench(t, Options{})
		b.one(hit("a", sliding, 10), true, true)
		b.one(hit("a", sliding, 1), false, true)
		b.one(hit("a", raised, 1), true, true)
	})
}

func TestWhatIsNotRemembered(t *testing.T) {
	t.Run("ask always", func(t *testing.T) {
		b := newBench(t, Options{})
		take := hit("a", bucket, 10)
		take.Mode = &store.Mode{AskAlways: true}
		b.one(take, true, true)
		b.one(take, false, true)
		b.one(take, false, true)
		b.one(hit("a", bucket, 10), false, true) // another rule, which remembers
		b.one(hit("a", bucket, 10), false, false)
	})
	t.Run("counted denials", func(t *testing.T) {
		b := newBench(t, Options{})
		counted := limit.Must(limit.Spec{Quota: 10, Period: time.Minute, CountDenied: true})
		b.one(hit("a", counted, 10), true, true)
		b.one(hit("a", counted, 1), false, true)
		b.one(hit("a", counted, 1), false, true)
		b.one(hit("a", counted, 0), false, true) // a peek, denied
		b.one(hit("a", counted, 0), false, true)
	})
	t.Run("counted denials of a fixed window", func(t *testing.T) {
		b := newBench(t, Options{})
		counted := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Minute, CountDenied: true})
		b.one(hit("a", counted, 8), true, true)
		b.one(hit("a", counted, 11), false, true) // never, and not remembered
		b.one(hit("b", counted, 8), true, true)
		b.one(hit("b", counted, 3), false, true)
		if d := b.one(hit("b", counted, 1), false, false); d.RetryAfter != time.Minute || d.Remaining != 0 {
			t.Errorf("%+v", d)
		}
		if d := b.one(hit("b", counted, 11), false, false); !d.Never {
			t.Errorf("%+v", d)
		}
		// A denied group is not counted, so its denial is not that of others.
		b.one(hit("c", counted, 8), true, true)
		grouped := hit("c", counted, 3)
		grouped.Group = 1
		b.one(grouped, false, true)
		b.one(hit("c", counted, 2), true, true)
	})
	t.Run("errors", func(t *testing.T) {
		b := newBench(t, Options{})
		b.one(hit("a", bucket, 10), true, true)
		b.inner.fail = errors.New("no answer")
		b.batch(hit("a", bucket, 1))
		b.inner.fail = nil
		b.one(hit("a", bucket, 1), false, true)
	})
	t.Run("beside another hit of the group", func(t *testing.T) {
		b := newBench(t, Options{})
		first, second := hit("a", bucket, 6), hit("a", bucket, 5)
		first.Group, second.Group = 1, 1
		r := b.batch(first, second)
		if !r[0].Allowed || r[1].Allowed {
			t.Fatalf("%+v", r)
		}
		b.one(hit("a", bucket, 5), true, true)
	})
}

// A refund that is decided after a denial, and whose answer comes back before
// it, is not forgotten.
// A dry run is asked of the store whatever is remembered, and leaves that alone.
func TestDryRunsAreAsked(t *testing.T) {
	b := newBench(t, Options{})
	dry := func(t store.Take) store.Take {
		t.DryRun = true
		return t
	}
	b.one(hit("k", bucket, 10), true, true)
	b.one(dry(hit("k", bucket, 1)), false, true)
	if n := b.Stats().Entries; n != 0 {
		t.Errorf("%d denials remembered of dry runs", n)
	}
	want := b.one(hit("k", bucket, 1), false, true)
	for _, op := range []store.Op{store.Hit, store.Refund, store.Reset, store.Charge} {
		t := dry(hit("k", bucket, 1))
		t.Op = op
		b.batch(t)
	}
	if got := b.one(dry(hit("k", bucket, 1)), false, true); got != want {
		t.Errorf("dry run %+v, denial %+v", got, want)
	}
	b.one(hit("k", bucket, 1), false, false)
	results := b.batch(dry(hit("k", bucket, 1)), hit("k", bucket, 1), hit("free", bucket, 1), dry(hit("free", bucket, 10)))
	for i, want := range []bool{false, false, true, false} {
		if results[i].Allowed != want {
			t.Errorf("dry and real in one batch: take %d is %+v", i, results[i])
		}
	}
}

func TestRefundOvertakesDenial(t *testing.T) {
	for _, op := range []store.Op{store.Refund, store.Reset} {
		b := newBench(t, Options{})
		b.one(hit("a", bucket, 10), true, true)
		b.inner.then = func() { b.batch(store.Take{Key: []byte("a"), Limit: bucket, Hits: 1, Op: op}) }
		b.one(hit("a", bucket, 1), false, true)
		b.one(hit("a", bucket, 1), true, true)
	}
}

func TestClockStepsBack(t *testing.T) {
	b := newBench(t, Options{})
	b.clock.advance(time.Hour)
	b.one(hit("a", bucket, 10), true, true)
	b.one(hit("a", bucket, 1), false, true)
	b.clock.advance(-time.Second)
	b.one(hit("a", bucket, 1), false, false)
	b.clock.advance(-time.Minute)
	b.one(hit("a", bucket, 1), false, true)
}

func TestStats(t *testing.T) {
	b := newBench(t, Options{MaxEntries: 100})
	b.one(hit("a", bucket, 10), true, true)
	b.one(hit("a", bucket, 1), false, true)
	b.one(hit("a", bucket, 1), false, false)
	grouped := []store.Take{hit("a", bucket, 1), hit("b", bucket, 1)}
	grouped[0].Group, grouped[1].Group = 1, 1
	b.batch(grouped...)
	want := Stats{Entries: 1, MaxEntries: 128, Answered: 2, Skipped: 1, Remembered: 1}
	if got := b.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	b.batch(store.Take{Key: []byte("a"), Limit: bucket, Op: store.Reset})
	want.Entries, want.Dropped = 0, 1
	if got := b.Stats(); got != want {
		t.Errorf("after a reset: %+v, want %+v", got, want)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// However many keys are denied, no more are remembered than there is room for,
// and those that are are answered rightly.
func TestMemoryIsBounded(t *testing.T) {
	b := newBench(t, Options{MaxEntries: 64})
	none := limit.Must(limit.Spec{Quota: 0, Period: time.Minute})
	for i := range 5000 {
		b.one(hit(fmt.Sprint("key ", i), none, 1), false, true)
	}
	if got := b.Stats(); got.Entries != 64 || got.MaxEntries != 64 {
		t.Errorf("%+v", got)
	}
	for _, o := range []struct {
		asked int
		most  int64
	}{{0, DefaultMaxEntries}, {1, 8}, {9, 16}, {100_000, 1 << 17}} {
		if got := New(nil, Options{MaxEntries: o.asked}).Stats().MaxEntries; got != o.most {
			t.Errorf("MaxEntries %d: %d", o.asked, got)
		}
	}
}

// Many callers at once, under the race detector: whoever has refunded may hit.
func TestConcurrent(t *testing.T) {
	m, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := New(m, Options{MaxEntries: 64, Longest: time.Hour})
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: limit.MaxPeriod})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			mine := []byte(fmt.Sprint("key ", g%2))
			var r [2]store.Result
			take := func(takes ...store.Take) bool {
				s.Take(t.Context(), takes, r[:len(takes)])
				return r[0].Allowed
			}
			for i := range 2000 {
				if g >= 2 { // knocks, and is always denied
					if take(store.Take{Key: mine, Limit: l, Hits: 11}, store.Take{Key: mine, Limit: l, Hits: 11}) {
						t.Errorf("11 hits pass a limit of 10")
						return
					}
					continue
				}
				if !take(store.Take{Key: mine, Limit: l, Hits: 10}) {
					t.Errorf("round %d: denied after a refund", i)
					return
				}
				for range 2 { // the second one is answered from memory
					if take(store.Take{Key: mine, Limit: l, Hits: 1}) {
						t.Errorf("round %d: an eleventh hit passes", i)
						return
					}
				}
				take(store.Take{Key: mine, Limit: l, Hits: 10, Op: store.Refund})
				if i%100 == 0 {
					s.Stats()
				}
			}
		})
	}
	wg.Wait()
}
