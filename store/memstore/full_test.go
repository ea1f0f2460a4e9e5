package memstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/storetest"
)

// TestBound floods a small store with two million keys: memory stays flat, and
// the first keys keep their buckets.
func TestBound(t *testing.T) {
	racetest.Serially(t)
	const maxBytes = 1 << 20
	keys := 2_000_000
	if testing.Short() {
		keys = 200_000
	}
	for _, algorithm := range []limit.Algorithm{limit.GCRA, limit.SlidingWindow, limit.SubWindows, limit.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			c := new(testClock)
			c.set(noon)
			s := newStore(t, Options{MaxBytes: maxBytes, Now: c.now})
			l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: 10, Period: time.Minute})
			early := "early"
			s.TakeOne(early, l, 10)
			random := newRandom()
			var key [8]byte
			before := heapBytes()
			for range keys {
				binary.LittleEndian.PutUint64(key[:], random.Uint64())
				s.TakeOneBytes(key[:], l, 1)
			}
			if grown := heapBytes() - before; grown > 2*maxBytes {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			runtime.KeepAlive(s)
			got := s.Stats()
			if got.Bytes > maxBytes || got.Bytes < maxBytes/2 {
				t.Errorf("%d bytes of %d", got.Bytes, maxBytes)
			}
			if got.Overflowed == 0 || got.Overflowed > 1000 {
				t.Errorf("%d keys passed by shared buckets of 10 each", got.Overflowed)
			}
			if perKey := got.Bytes / got.Keys; perKey > 250 {
				t.Errorf("%d bytes for each of %d keys", perKey, got.Keys)
			}
			if s.TakeOne(early, l, 1).Allowed {
				t.Error("a bucket in use was dropped")
			}
			s.check(t)
		})
	}
}

// fill takes hits on new keys until one finds no room.
func (s *Store) fill(tb testing.TB, l *limit.Limit, hits int64) {
	tb.Helper()
	before := s.Stats().Overflowed
	for i := 0; s.Stats().Overflowed == before; i++ {
		s.TakeOne(filler(l, i), l, hits)
		if i > 1_000_000 {
			tb.Fatal("the store does not fill")
		}
	}
}

// filler is the name of a key that fill has filled a store with.
func filler(l *limit.Limit, i int) string { return fmt.Sprint("fill ", l.Algorithm, " ", i) }

// TestFullNeverExceeds has more keys than there is room for come again and again
// while buckets expire and others take their place. No key may ever have more
// than its limit in any window.
func TestFullNeverExceeds(t *testing.T) {
	racetest.Serially(t)
	const quota, window, keys = 5, 10 * time.Second, 3_000
	steps := 300_000
	if testing.Short() {
		steps = 60_000
	}
	s, c := newStoreAt(t, noon)
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: quota, Period: window})
	admitted := make([][]limit.Micros, keys)
	random := newRandom()
	for range steps {
		k := random.IntN(keys)
		if random.IntN(3) == 0 {
			k = random.IntN(20)
		}
		if hits := 1 + random.Int64N(3); s.TakeOne(fmt.Sprint(k), l, hits).Allowed {
			for range hits {
				admitted[k] = append(admitted[k], c.now())
			}
		}
		c.advance(limit.Micros(random.IntN(4_000)))
	}
	got := s.Stats()
	if got.Overflowed == 0 || got.Expired == 0 {
		t.Fatalf("the store was never full or nothing expired: %+v", got)
	}
	total := 0
	for k, stamps := range admitted {
		total += len(stamps)
		if most := storetest.MaxInWindow(stamps, window); most > quota {
			t.Errorf("key %d: %d hits in one window", k, most)
		}
	}
	if total < keys*quota {
		t.Errorf("only %d hits passed", total)
	}
	s.check(t)
}

// TestSharedBucket fills a shard, and sees newcomers share what one would get.
func TestSharedBucket(t *testing.T) {
	for _, spec := range algorithms {
		t.Run(spec.Algorithm.String(), func(t *testing.T) {
			s, c := newStoreAt(t, noon)
			spec.Quota, spec.Period = 1000, 24*time.Hour
			spec.Burst, spec.MaxDelay = 0, 0
			filler := limit.Must(spec)
			s.fill(t, filler, 1)
			l := limit.Must(limit.Spec{Algorithm: spec.Algorithm, Quota: 20, Period: time.Hour})
			most := s.TakeOne("peek", l, 0).Limit
			var passed int64
			for i := range 100 {
				if s.TakeOne(fmt.Sprint("new ", i), l, 1).Allowed {
					passed++
				}
			}
			if passed != most {
				t.Errorf("%d newcomers passed, want %d", passed, most)
			}
			if d := s.TakeOne("another", l, 0); d.Remaining != 0 {
				t.Errorf("peek of a newcomer: %+v", d)
			}
			if d := s.refund("new 0", l, 1); d.Remaining != 0 {
				t.Errorf("a refund went to the shared bucket: %+v", d)
			}
			// The buckets of the flood expire, and there is room; but who was
			// decided in the shared bucket starts from what it has used.
			c.advance(micros(48 * time.Hour))
			for i := range 100 {
				if d := s.TakeOne(fmt.Sprint("new ", i), l, most); !d.Allowed {
					t.Errorf("newcomer %d after the flood: %+v", i, d)
				}
			}
			s.check(t)
		})
	}
}

func (s *Store) refund(key string, l *limit.Limit, hits int64) limit.Decision {
	var results [1]store.Result
	s.Take(context.Background(), []store.Take{{Key: []byte(key), Limit: l, Hits: hits, Op: store.Refund}}, results[:])
	return results[0].Decision
}

// TestFreedRoomIsNoFreshBudget frees a slot while the shared bucket is used up.
func TestFreedRoomIsNoFreshBudget(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 20, Period: time.Hour})
	s.fill(t, l, 1)
	for range 30 {
		s.TakeOne("new", l, 1)
	}
	var results [200]store.Result
	var resets []store.Take
	for i := range results {
		resets = append(resets, store.Take{Key: []byte(filler(l, i)), Limit: l, Op: store.Reset})
	}
	s.Take(t.Context(), resets, results[:])
	if d := s.TakeOne("new", l, 1); d.Allowed {
		t.Errorf("a key that has used up the shared bucket: %+v", d)
	}
	s.check(t)
}

// TestLogThatCannotGrow fills the arena, then asks a log for more than its block
// holds.
func TestLogThatCannotGrow(t *testing.T) {
	s, c := newStoreAt(t, noon)
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 9_000, Period: time.Hour})
	s.TakeOne("early", l, 1)
	s.fill(t, l, 1)
	s.fill(t, limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: time.Hour}), 1)
	d := s.TakeOne("early", l, 8_000)
	if d.Allowed || d.Never || d.RetryAfter <= 0 || d.Remaining != 0 {
		t.Errorf("8,000 stamps: %+v", d)
	}
	if d := s.TakeOne("early", l, 0); d.Remaining != 8_999 {
		t.Errorf("the bucket has changed: %+v", d)
	}
	if d := s.TakeOne("newcomer", l, 8_000); d.Allowed || d.RetryAfter != time.Hour {
		t.Errorf("8,000 stamps without a bucket: %+v", d)
	}
	c.advance(micros(2 * time.Hour))
	for i := range 3_000 {
		s.TakeOne(fmt.Sprint("later ", i), l, 1)
		c.advance(micros(10 * time.Second))
	}
	if d := s.TakeOne("early", l, 8_000); !d.Allowed {
		t.Errorf("8,000 stamps when there is room again: %+v", d)
	}
	s.check(t)
}

// TestLogIsWholeWhenStuck asks a log for more than there is memory for when most
// of its stamps have expired: dropping those must not be half done.
func TestLogIsWholeWhenStuck(t *testing.T) {
	s, c := newStoreAt(t, noon)
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 1_300, Period: time.Hour})
	s.TakeOne("log", l, 30)
	c.advance(micros(50 * time.Minute))
	s.TakeOne("log", l, 20)
	// Nothing is left but room for the log in a shared bucket.
	sh := &s.shards[0]
	sh.shared = newOverflow(sh.share)
	sh.arena.words = sh.arena.words[:sh.arena.end:sh.arena.end]
	sh.share = sh.bytes()
	c.advance(micros(11 * time.Minute))
	if d := s.TakeOne("log", l, 1_250); d.Allowed {
		t.Fatalf("1,250 stamps found room: %+v", d)
	}
	if d := s.TakeOne("log", l, 0); d.Remaining != 1_280 {
		t.Errorf("20 stamps are left: %+v", d)
	}
	c.advance(micros(50 * time.Minute))
	if d := s.TakeOne("log", l, 0); d.Remaining != 1_300 {
		t.Errorf("no stamp is left: %+v", d)
	}
}

// TestAlgorithmChangesWhenFull asks keys that have a bucket by an algorithm for
// which there is no room: they share.
//
//promise:change-without-room
func TestAlgorithmChangesWhenFull(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	full := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 3, Period: 24 * time.Hour})
	s.fill(t, full, 1)
	l := limit.Must(limit.PerHour(20))
	for i := 0; s.Stats().Overflowed < 2; i++ {
		s.TakeOne(fmt.Sprint("sliding ", i), l, 1)
	}
	passed := 0
	for i := range 10 {
		for range 20 {
			if s.TakeOne(filler(full, i), l, 1).Allowed {
				passed++
			}
		}
	}
	if passed != 19 {
		t.Errorf("%d hits passed, want the 19 that were left", passed)
	}
}

// TestSharedLogsAreBounded asks a full store for logs that would take more than
// is set aside for shared buckets.
func TestSharedLogsAreBounded(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	s.fill(t, limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 3, Period: 24 * time.Hour}), 1)
	for i := range maxShapes {
		l := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 1_000 + int64(i), Period: time.Hour})
		if d := s.TakeOne("new", l, 1_000); d.Allowed != (i == 0) {
			t.Errorf("log %d: %+v", i, d)
		}
	}
	s.check(t)
}

// TestOverflowIsBounded asks a full store for a thousand limits of each
// algorithm.
func TestOverflowIsBounded(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	s.fill(t, limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 1000, Period: 24 * time.Hour}), 1)
	s.fill(t, limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1000, Period: 24 * time.Hour}), 1)
	for i := range 1000 {
		for _, spec := range algorithms {
			spec.Quota, spec.Period = 100+int64(i), time.Hour
			spec.Burst, spec.MaxDelay = 0, 0
			l := limit.Must(spec)
			for range 3 {
				s.TakeOne(fmt.Sprint("new ", i), l, 40)
			}
		}
	}
	if got := s.Stats(); got.Shared > maxShapes || got.Shared < maxShapes/2 {
		t.Errorf("%d shared buckets", got.Shared)
	}
	s.check(t)
}

// TestGroupWhenFull has groups of newcomers and others denied in a full store:
// what is shared must be as before.
func TestGroupWhenFull(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	var takes []store.Take
	for i, spec := range algorithms {
		spec.Quota, spec.Period = 20, time.Hour
		spec.Burst, spec.MaxDelay = 0, 0
		l := limit.Must(spec)
		key := fmt.Append(nil, "group ", i)
		takes = append(takes, store.Take{Key: key, Limit: l, Hits: 1, Group: 1}, store.Take{Key: key, Limit: l, Hits: 1, Group: 1})
	}
	for hold := limit.Hold(1); hold < 4; hold++ {
		slot := by(hold, store.Hit, "slots", slotsOf(20))
		slot.Group = 1
		renewal, release := slot, slot
		renewal.Op, release.Op = store.Renew, store.Release
		release.Hold = 1
		takes = append(takes, slot, renewal, release)
	}
	s.fill(t, limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 3, Period: 24 * time.Hour}), 1)
	s.fill(t, limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 3, Period: 24 * time.Hour}), 1)
	denied := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 0, Period: time.Hour})
	peeks := append([]store.Take(nil), takes...)
	for i := range peeks {
		peeks[i].Hits, peeks[i].Group, peeks[i].Op = 0, 0, store.Hit
	}
	before, after := make([]store.Result, len(peeks)), make([]store.Result, len(peeks))
	for range 3 {
		s.Take(t.Context(), peeks, before)
		group := append(append([]store.Take(nil), takes...), store.Take{Key: []byte("denied"), Limit: denied, Hits: 1, Group: 1})
		results := make([]store.Result, len(group))
		s.Take(t.Context(), group, results)
		s.Take(t.Context(), peeks, after)
		for i := range peeks {
			if after[i] != before[i] {
				t.Errorf("%v: %+v, before the group %+v", peeks[i].Limit.Algorithm, after[i], before[i])
			}
		}
		s.TakeOne("group 1", takes[2].Limit, 1)
		s.do(by(7, store.Hit, "slots", takes[len(takes)-1].Limit))
	}
	s.check(t)
}

// Where there is no room, a dry run says what the take then is told by the shared bucket,
// or without one, and is not counted.
func TestDryRunWhenFull(t *testing.T) {
	racetest.Serially(t)
	for algorithm := limit.SlidingWindow; algorithm <= limit.Ban; algorithm++ {
		t.Run(algorithm.String(), func(t *testing.T) {
			s, _ := newStoreAt(t, noon)
			spec := limit.Spec{Algorithm: algorithm, Quota: 5, Period: time.Hour}
			if algorithm == limit.Ban {
				spec.BanFor = time.Hour
			}
			l, filling := limit.Must(spec), limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 50, Period: time.Hour})
			s.fill(t, limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1, Period: time.Hour}), 1)
			s.fill(t, limit.Must(limit.PerHour(1)), 1)
			s.fill(t, filling, 1)
			for i := range 12 {
				takes := []store.Take{
					{Key: fmt.Append(nil, "newcomer ", i%3), Limit: l, Hits: int64(i % 4), Hold: limit.Hold(1 + i)},
					{Key: fmt.Append(nil, "newcomer ", i%2), Limit: l, Hits: 1, Hold: limit.Hold(20 + i)},
				}
				for group := range uint32(2) {
					takes[0].Group, takes[1].Group = group, group
					dry := slices.Clone(takes)
					dry[0].DryRun, dry[1].DryRun = true, true
					said, real := make([]store.Result, 2), make([]store.Result, 2)
					before := s.Stats()
					s.Take(t.Context(), dry, said)
					if after := s.Stats().Overflowed; after != before.Overflowed {
						t.Errorf("%d dry runs are counted", after-before.Overflowed)
					}
					s.Take(t.Context(), takes, real)
					if said[0] != real[0] || said[1] != real[1] {
						t.Errorf("%d, group %d: dry %+v, real %+v", i, group, said, real)
					}
				}
			}
			s.check(t)
		})
	}
}
