package memstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Traces run side by side with nothing.
func init() { racetest.DrawLess() }

const noon = limit.Micros(1_780_315_200_000_000) // 1 June 2026, 12:00 UTC

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// micros is d in the unit of the clock.
func micros(d time.Duration) limit.Micros { return limit.Micros(d / time.Microsecond) }

// newStoreAt returns a store of the least memory, in one shard, and its clock.
func newStoreAt(tb testing.TB, now limit.Micros) (*Store, *testClock) {
	tb.Helper()
	c := new(testClock)
	c.set(now)
	return newStore(tb, Options{MaxBytes: MinMaxBytes, Shards: 1, Now: c.now}), c
}

func (s *Store) check(tb testing.TB) {
	tb.Helper()
	for i := range s.shards {
		if err := s.shards[i].check(); err != nil {
			tb.Errorf("shard %d: %v", i, err)
		}
	}
	if got := s.Stats(); got.Bytes > got.MaxBytes {
		tb.Errorf("%d bytes of %d", got.Bytes, got.MaxBytes)
	}
}

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		o    Options
		want string
	}{
		{Options{}, ""},
		{Options{MaxBytes: MinMaxBytes}, ""},
		{Options{MaxBytes: MinMaxBytes - 1}, "at least"},
		{Options{MaxBytes: -1}, "at least"},
		{Options{Shards: 1}, ""},
		{Options{Shards: 3}, "power of two"},
		{Options{Shards: -4}, "power of two"},
		{Options{Shards: 2 * MaxShards}, "power of two"},
		{Options{MaxBytes: 2 * MinMaxBytes, Shards: 4}, "too little"},
		{Options{MaxBytes: 1 << 40}, ""},
	} {
		s, err := New(test.o)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%+v: %v", test.o, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%+v: error %v, want one with %q", test.o, err, test.want)
		case err == nil && s.Stats().Bytes != 0:
			t.Errorf("%+v: an empty store takes %d bytes", test.o, s.Stats().Bytes)
		}
	}
}

// TestClock reads the default clock twice, an hour apart.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		for range 2 {
			if got, want := c.now(), limit.MicrosOf(time.Now()); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestExpiry(t *testing.T) {
	for _, now := range []limit.Micros{-1 << 62, -1, 0, 1, noon, 1<<52 - 1, 1 << 60, 1<<63 - 1} {
		for _, life := range []time.Duration{0, time.Microsecond, time.Hour, 1<<63 - 1} {
			expiry := expiryOf(now, life)
			end := now + micros(life) + margin
			if end > now && unitOf(end) > expiry {
				t.Errorf("at %d: a bucket that matters for %v expires in unit %d, before %d", now, life, expiry, unitOf(end))
			}
			if end < now && expiry != never {
				t.Errorf("at %d: a bucket that matters for %v expires", now, life)
			}
		}
	}
}

func TestSeeds(t *testing.T) {
	a, b := newStore(t, Options{}), newStore(t, Options{})
	k := a.identBytes([]byte("key"))
	if other := b.identBytes([]byte("key")); other.inv == k.inv || other.id == k.id {
		t.Error("two stores hash a key the same")
	}
	if k.inv == ^k.id {
		t.Error("both hashes of a key are the same")
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("a"), []byte("b"))
	f.Add([]byte(""), []byte("\x00"))
	f.Add([]byte("a"), []byte("a"))
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 3, Period: time.Hour})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s, _ := newStoreAt(t, noon)
		s.TakeOne(string(a), l, 1)
		s.TakeOneBytes(a, l, 1)
		takes := []store.Take{{Key: a, Limit: l, Hits: 1}, {Key: b, Limit: l, Hits: 0}}
		results := make([]store.Result, len(takes))
		s.Take(t.Context(), takes, results)
		if results[0].Remaining != 0 {
			t.Errorf("key %q has more than one bucket", a)
		}
		if same := string(a) == string(b); (results[1].Remaining == 0) != same {
			t.Errorf("keys %q and %q share a bucket: %t", a, b, !same)
		}
	})
}

// TestNoAllocation takes hits on buckets that are there.
func TestNoAllocation(t *testing.T) {
	s := newStore(t, Options{})
	var takes, group []store.Take
	for i, spec := range algorithms {
		l := limit.Must(spec)
		key := fmt.Sprint("key ", i)
		s.TakeOne(key, l, 1)
		allocates(t, spec.Algorithm.String(), func() { s.TakeOne(key, l, 1) })
		takes = append(takes, store.Take{Key: []byte(key), Limit: l, Hits: 1})
		group = append(group, store.Take{Key: []byte(key), Limit: l, Hits: 1, Group: 1})
	}
	results := make([]store.Result, len(takes))
	allocates(t, "batch", func() { s.Take(t.Context(), takes, results) })
	s.Take(t.Context(), group, results)
	allocates(t, "group", func() { s.Take(t.Context(), group, results) })
}

func allocates(t *testing.T, name string, f func()) {
	t.Helper()
	if racetest.Enabled {
		f() // sync.Pool drops what it gets at random
		return
	}
	if n := alloctest.PerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations", name, n)
	}
}

// TestPanic has a decision panic: its shard must not stay locked, and a group
// that it is in must not be half charged.
func TestPanic(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	l := limit.Must(limit.PerHour(10))
	panics := func(f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		f()
	}
	panics(func() { s.TakeOne("a", nil, 1) })
	takes := []store.Take{{Key: []byte("a"), Limit: l, Hits: 1, Group: 1}, {Key: []byte("b"), Group: 1, Hits: 1}}
	panics(func() { s.Take(t.Context(), takes, make([]store.Result, 2)) })
	if d := s.TakeOne("a", l, 0); d.Remaining != 10 {
		t.Errorf("after the panics: %+v", d)
	}
}

// TestMargin puts a bucket to the end of its life in the last microsecond of a
// unit, has the table swept in the next, and steps back.
func TestMargin(t *testing.T) {
	end := (noon>>unitShift+10)<<unitShift - 1
	s, c := newStoreAt(t, end-micros(time.Minute))
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: time.Minute})
	s.TakeOne("key", l, 1)
	c.set(end + 1)
	for i := range 500 {
		s.TakeOne(fmt.Sprint("other ", i), l, 1)
	}
	c.set(end - 1)
	if d := s.TakeOne("key", l, 1); d.Allowed {
		t.Errorf("a step back of 2 µs has freed a bucket: %+v", d)
	}
}

// TestSweep lets many buckets expire: they are dropped by and by, and the memory
// with them.
func TestSweep(t *testing.T) {
	racetest.Serially(t)
	for _, algorithm := range []limit.Algorithm{limit.GCRA, limit.SlidingWindow, limit.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			c := new(testClock)
			c.set(noon)
			s := newStore(t, Options{MaxBytes: 8 << 20, Shards: 2, Now: c.now})
			l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: 10, Period: time.Minute})
			for i := range 40_000 {
				s.TakeOne(fmt.Sprint(i), l, 1)
			}
			full := s.Stats()
			if full.Keys != 40_000 || full.Overflowed != 0 {
				t.Fatalf("after 40,000 keys: %+v", full)
			}
			c.advance(micros(time.Hour))
			for i := range 40_000 {
				s.TakeOne(fmt.Sprint("few ", i%100), l, 1)
				if i%100 == 0 {
					s.TakeOne(fmt.Sprint("new ", i), l, 1)
				}
				c.advance(micros(time.Millisecond))
			}
			for i := range 30_000 {
				s.TakeOne(fmt.Sprint("later ", i), l, 1)
				c.advance(micros(100 * time.Millisecond))
			}
			got := s.Stats()
			if got.Keys > 4_000 || got.Expired < 60_000 || got.Bytes > full.Bytes/3 {
				t.Errorf("when most have expired: %+v, when full: %+v", got, full)
			}
			s.check(t)
		})
	}
}

// TestStepBackWhenSwept steps the clock back and forth by hours while keys come
// and go. Nothing may be lost that matters at the latest instant.
func TestStepBackWhenSwept(t *testing.T) {
	s, c := newStoreAt(t, noon)
	day := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1, Period: 24 * time.Hour})
	second := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: time.Second})
	for i := range 200 {
		s.TakeOne(fmt.Sprint("day ", i), day, 1)
	}
	for i := range 5_000 {
		c.set(noon + micros(time.Hour)*limit.Micros(i%7-3))
		s.TakeOne(fmt.Sprint("second ", i), second, 1)
	}
	c.set(noon)
	for i := range 200 {
		if s.TakeOne(fmt.Sprint("day ", i), day, 1).Allowed {
			t.Fatalf("day %d was freed", i)
		}
	}
	s.check(t)
}

// TestConcurrent is for the race detector: all that a Store does, at one time.
func TestConcurrent(t *testing.T) {
	s := newStore(t, Options{MaxBytes: 2 * MinMaxBytes, Shards: 2})
	var limits []*limit.Limit
	for _, spec := range algorithms {
		limits = append(limits, limit.Must(spec))
	}
	limits = append(limits, slotsOf(3), limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Hour, BanFor: time.Hour}))
	var goroutines sync.WaitGroup
	for g := range 4 {
		goroutines.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			takes, results := make([]store.Take, 8), make([]store.Result, 8)
			for range 400 {
				for i := range takes {
					takes[i] = store.Take{
						Key:   fmt.Append(nil, random.IntN(4000)),
						Limit: limits[random.IntN(len(limits))],
						Hits:  random.Int64N(3),
						Group: uint32(i / 3),
						Hold:  limit.Hold(random.IntN(20)),
						Op:    []store.Op{store.Hit, store.Hit, store.Hit, store.Refund, store.Reset, store.Charge, store.Renew, store.Release}[random.IntN(8)],
					}
				}
				s.Take(t.Context(), takes, results)
				if slices.ContainsFunc(results, func(r store.Result) bool { return r.Err != nil }) {
					t.Error("a result carries an error")
				}
			}
			s.Stats()
		})
	}
	goroutines.Wait()
	s.check(t)
}
