package memstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// by is a take of one hit by a hold, or its renewal or release.
func by(hold limit.Hold, op store.Op, key string, l *limit.Limit) store.Take {
	return store.Take{Key: []byte(key), Limit: l, Hits: 1, Hold: hold, Op: op}
}

func (s *Store) do(t store.Take) limit.Decision {
	var results [1]store.Result
	s.Take(context.Background(), []store.Take{t}, results[:])
	return results[0].Decision
}

func slotsOf(quota int64) *limit.Limit {
	return limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: quota, Period: time.Minute})
}

// fillAll leaves no room for slots, nor for a table slot of any other algorithm.
func (s *Store) fillAll(tb testing.TB) {
	tb.Helper()
	s.fill(tb, limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 3, Period: 24 * time.Hour}), 1)
	s.fill(tb, limit.Must(limit.Spec{Quota: 3, Period: 24*time.Hour + time.Microsecond}), 1)
	s.fill(tb, limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 3, Period: 24 * time.Hour}), 1)
	s.fill(tb, limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 3, Period: 24 * time.Hour}), 1)
}

// TestHoldsDoNotAllocate on a bucket that has had as many slots before, in a group or
// not.
func TestHoldsDoNotAllocate(t *testing.T) {
	s := newStore(t, Options{})
	l := slotsOf(100)
	ban := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 1 << 40, Period: time.Hour, BanFor: time.Hour})
	var enter, leave, group []store.Take
	for hold := limit.Hold(1); hold <= 5; hold++ {
		enter = append(enter, by(hold, store.Hit, "key", l), by(hold, store.Renew, "key", l))
		leave = append(leave, by(hold, store.Release, "key", l))
	}
	denial := store.Take{Key: []byte("ban"), Limit: ban, Hits: 1, Op: store.Charge}
	check := store.Take{Key: []byte("ban"), Limit: ban, Hits: 1}
	group = append(group, by(9, store.Hit, "other", l), check, denial)
	for i := range group {
		group[i].Group = 1
	}
	group = append(group, by(9, store.Release, "other", l))
	results := make([]store.Result, len(enter))
	take := func(takes []store.Take) { s.Take(t.Context(), takes, results[:len(takes)]) }
	all := func() {
		take(enter)
		take(leave)
		take(group)
	}
	all()
	allocates(t, "holds that come and go", all) // but for a copy of the arena now and then
	take([]store.Take{by(100, store.Renew, "key", l), by(100, store.Renew, "other", l)})
	allocates(t, "holds that come and go beside others", func() {
		for range 50 {
			all()
		}
	})
	take(enter)
	allocates(t, "renewals", func() { take(enter) })
}

// TestSlotsWhenFull fills a shard, and sees newcomers share the slots of one, give
// them back there, and start from there when there is room.
func TestSlotsWhenFull(t *testing.T) {
	s, c := newStoreAt(t, noon)
	s.fillAll(t)
	l := slotsOf(3)
	key := func(i limit.Hold) string { return fmt.Sprint("new ", i) }
	for i := limit.Hold(1); i <= 5; i++ {
		if d := s.do(by(i, store.Hit, key(i), l)); d.Allowed != (i <= 3) || d.Remaining != max(3-int64(i), 0) {
			t.Errorf("newcomer %d: %+v", i, d)
		}
	}
	if d := s.do(by(4, store.Release, key(4), l)); d.Remaining != 0 {
		t.Errorf("a release of nothing: %+v", d)
	}
	if d := s.do(by(2, store.Release, key(2), l)); d.Remaining != 1 {
		t.Errorf("a release: %+v", d)
	}
	c.advance(micros(time.Second))
	if d := s.do(by(4, store.Hit, key(4), l)); !d.Allowed {
		t.Errorf("the slot that was released: %+v", d)
	}
	if d := s.do(by(9, store.Renew, key(9), l)); !d.Allowed || d.Remaining != 0 {
		t.Errorf("a renewal for which there is no room: %+v", d)
	}
	if d := s.do(by(1, store.Renew, key(1), l)); !d.Allowed || d.ResetAfter != time.Minute {
		t.Errorf("a renewal: %+v", d)
	}
	// There is room again for the first one: with its own slot it has those of the
	// others, until they end or it forgets them.
	for i := range 200 {
		s.do(store.Take{Key: fmt.Append(nil, "fill ", limit.SlidingLog, " ", i), Limit: l, Op: store.Reset})
	}
	if d := s.do(by(1, store.Renew, key(1), l)); d.Remaining != 0 || s.Stats().Keys == 0 {
		t.Errorf("a renewal when there is room: %+v", d)
	}
	if d := s.do(by(1, store.Release, key(1), l)); d.Remaining != 1 {
		t.Errorf("a release there: %+v", d)
	}
	c.advance(micros(59 * time.Second))
	if d := s.do(by(1, store.Hit, key(1), l)); !d.Allowed || d.Remaining != 1 {
		t.Errorf("when the slot of the third newcomer has ended: %+v", d)
	}
	c.advance(micros(time.Second))
	if d := s.do(by(1, store.Renew, key(1), l)); d.Remaining != 2 {
		t.Errorf("when that of the fourth has: %+v", d)
	}
	s.check(t)
}

// TestSlotsWithoutASharedBucket: a limit of more slots than there is memory for is
// denied in a full shard, and answers all else as a peek.
func TestSlotsWithoutASharedBucket(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	s.fillAll(t)
	l := slotsOf(limit.MaxConcurrency)
	unused := limit.Decision{Allowed: true, Limit: limit.MaxConcurrency, Remaining: limit.MaxConcurrency}
	for _, op := range []store.Op{store.Renew, store.Release, store.Refund, store.Charge} {
		if d := s.do(by(1, op, "new", l)); d != unused {
			t.Errorf("op %d: %+v", op, d)
		}
	}
	if d := s.do(by(1, store.Hit, "new", l)); d.Allowed || d.Remaining != 0 || d.RetryAfter != time.Minute {
		t.Errorf("a hit: %+v", d)
	}
	if d := s.do(by(0, store.Hit, "new", l)); !d.Allowed {
		t.Errorf("a hit of nobody: %+v", d)
	}
	s.check(t)
}

// TestSlotsThatCannotGrow asks a bucket for more slots than its block holds when
// there is no memory left.
func TestSlotsThatCannotGrow(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	l := slotsOf(100)
	for hold := limit.Hold(1); hold <= 3; hold++ {
		s.do(by(hold, store.Hit, "key", l))
	}
	sh := &s.shards[0]
	sh.shared = newOverflow(sh.share)
	sh.arena.words = sh.arena.words[:sh.arena.end:sh.arena.end]
	sh.share = sh.bytes()
	hold := limit.Hold(4)
	for s.do(by(hold, store.Hit, "key", l)).Allowed {
		if hold++; hold > 10 {
			t.Fatal("the block grows")
		}
	}
	before := s.do(by(0, store.Hit, "key", l))
	if d := s.do(by(hold, store.Hit, "key", l)); d.Allowed || d.Remaining != 0 || d.RetryAfter != time.Minute {
		t.Errorf("a slot for which there is no memory: %+v", d)
	}
	if d := s.do(by(hold, store.Renew, "key", l)); d != before {
		t.Errorf("a renewal for which there is no memory: %+v, want %+v", d, before)
	}
	if d := s.do(by(1, store.Renew, "key", l)); d != before {
		t.Errorf("a renewal of what is there: %+v, want %+v", d, before)
	}
	if d := s.do(by(1, store.Release, "key", l)); d.Remaining != before.Remaining+1 {
		t.Errorf("a release: %+v", d)
	}
	if d := s.do(by(hold, store.Hit, "key", l)); !d.Allowed {
		t.Errorf("in its place: %+v", d)
	}
}

// TestFullNeverExceedsSlots has more keys than there is room for come and go, while
// buckets expire and others take their place. No key ever has more requests in
// flight than slots, but for those that have outlived their timeout.
func TestFullNeverExceedsSlots(t *testing.T) {
	racetest.Serially(t)
	const quota, keys = 3, 3_000
	steps := 200_000
	if testing.Short() {
		steps = 40_000
	}
	s, c := newStoreAt(t, noon)
	l := slotsOf(quota)
	type request struct {
		hold  limit.Hold
		until limit.Micros
	}
	inFlight := make([][]request, keys)
	random := newRandom()
	passed, released := 0, 0
	for i := range steps {
		k := random.IntN(keys)
		if random.IntN(3) == 0 {
			k = random.IntN(20)
		}
		key, now := fmt.Sprint(k), c.now()
		live := inFlight[k][:0]
		for _, r := range inFlight[k] {
			if r.until > now {
				live = append(live, r)
			}
		}
		switch {
		case len(live) > 0 && random.IntN(3) == 0:
			s.do(by(live[0].hold, store.Release, key, l))
			live = live[1:]
			released++
		default:
			r := request{limit.Hold(1 + i), now + micros(l.Period)}
			if s.do(by(r.hold, store.Hit, key, l)).Allowed {
				live = append(live, r)
				passed++
			}
		}
		if inFlight[k] = live; len(live) > quota {
			t.Fatalf("step %d: key %d has %d in flight", i, k, len(live))
		}
		c.advance(limit.Micros(random.IntN(10_000)))
	}
	if got := s.Stats(); got.Overflowed == 0 || got.Expired == 0 || passed < steps/20 || released == 0 {
		t.Errorf("%d passed, %d were released: %+v", passed, released, got)
	}
	s.check(t)
}

// TestBansWhenFull: nobody is banned for what others were denied. Who is banned
// stays so, and who has a bucket is counted.
func TestBansWhenFull(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Hour, BanFor: time.Hour})
	denial := func(key string) limit.Decision {
		return s.do(store.Take{Key: []byte(key), Limit: l, Hits: 1, Op: store.Charge})
	}
	for range 3 {
		denial("banned")
	}
	denial("counted")
	s.fillAll(t)
	for i := range 10 {
		if d := denial("newcomer"); !d.Allowed || d.Remaining != 3 || d.ResetAfter != 0 {
			t.Errorf("denial %d of a newcomer: %+v", i, d)
		}
		if !s.TakeOne("newcomer", l, 1).Allowed {
			t.Error("the newcomer is banned")
		}
	}
	if d := s.TakeOne("banned", l, 1); d.Allowed {
		t.Errorf("who was banned before: %+v", d)
	}
	if denial("counted"); denial("counted").Remaining != 0 || s.TakeOne("counted", l, 1).Allowed {
		t.Error("who has a bucket is not banned")
	}
	s.check(t)
}
