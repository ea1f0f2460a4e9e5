package memstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

func leaseRequest(key string, l *limit.Limit, id uint64, want int64) store.LeaseRequest {
	q := store.LeaseRequest{Key: []byte(key), Limit: l, Want: want, Share: 1, TTL: time.Minute}
	binary.BigEndian.PutUint64(q.ID[:], id)
	return q
}

func leaseOne(s *Store, q store.LeaseRequest) store.Grant {
	grants := make([]store.Grant, 1)
	s.Lease(context.Background(), []store.LeaseRequest{q}, grants)
	return grants[0]
}

// A Store that remembers as many leases as it may grants no more until some have
// ended; then what they took is free again.
func TestLeasesAreBounded(t *testing.T) {
	racetest.Serially(t)
	s, c := newStoreAt(t, noon)
	l := limit.Must(limit.PerHour(1000))
	for i := range uint64(maxLeases) {
		if g := leaseOne(s, leaseRequest(fmt.Sprint("key ", i/200), l, i, 2)); g.Hits != 2 {
			t.Fatalf("lease %d: %+v", i, g)
		}
	}
	if g := leaseOne(s, leaseRequest("newcomer", l, 1, 2)); g.Hits != 0 || g.Decision.Remaining != 1000 {
		t.Errorf("one too many: %+v", g)
	}
	if got := s.Stats(); got.Leases != maxLeases || got.LeasedHits != 2*maxLeases {
		t.Errorf("stats %+v", got)
	}
	c.advance(limit.Micros(61_000_000))
	if g := leaseOne(s, leaseRequest("newcomer", l, 1, 2)); g.Hits != 2 {
		t.Errorf("after the end of all: %+v", g)
	}
	got := s.Stats()
	if got.Leases != 1 || got.EndedHits != 2*maxLeases || got.ReturnedHits != 0 || len(s.leases.buckets) != 1 {
		t.Errorf("stats %+v, %d registers", got, len(s.leases.buckets))
	}
}

// Registers of buckets that nobody asks about any more are dropped, by and by,
// when others get leases.
func TestEndedLeasesAreSwept(t *testing.T) {
	racetest.Serially(t)
	s, c := newStoreAt(t, noon)
	l := limit.Must(limit.PerHour(1000))
	for i := range uint64(20_000) {
		leaseOne(s, leaseRequest(fmt.Sprint("key ", i), l, i, 2))
		c.advance(60_000) // a thousand leases at a time
	}
	if n := len(s.leases.buckets); n > 5000 {
		t.Errorf("%d registers, 1000 hold leases that last", n)
	}
}

// A key for which there is no room gets no lease, and no hit is lost over it.
func TestNoLeaseWithoutRoom(t *testing.T) {
	clock := new(testClock)
	clock.set(noon)
	s := newStore(t, Options{MaxBytes: MinMaxBytes, Shards: 1, Now: clock.now})
	l := limit.Must(limit.PerHour(1000))
	for i := 0; s.Stats().Overflowed == 0; i++ {
		s.TakeOne(fmt.Sprint("key ", i), l, 1)
	}
	before := s.TakeOne("newcomer", l, 0)
	if g := leaseOne(s, leaseRequest("newcomer", l, 1, 100)); g.Hits != 0 || g.Decision != before {
		t.Errorf("got %+v, before %+v", g, before)
	}
	if g := leaseOne(s, leaseRequest("key 0", l, 1, 100)); g.Hits != 100 {
		t.Errorf("a key with a bucket: %+v", g)
	}
}

// Many holders at a few buckets: at every instant what was granted is what was
// given back, has ended or is out, and never more than the limit.
func TestLeasesInACrowd(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	const quota, goroutines = 5000, 8
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: quota, Period: time.Hour})
	keys := [...]string{"a", "b", "c"}
	var kept [len(keys)]atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 500 {
				at := random.IntN(len(keys))
				q := leaseRequest(keys[at], l, uint64(g+1)<<32|uint64(i), 1+random.Int64N(20))
				hits := leaseOne(s, q).Hits
				back := random.Int64N(hits + 1)
				if s.TakeOne(keys[at], l, 1).Allowed {
					kept[at].Add(1)
				}
				q.Return, q.ReturnHits, q.Want = q.ID, back, 0
				if r := leaseOne(s, q); r.Returned != (hits > 0) {
					t.Errorf("returned %d of %d: %+v", back, hits, r)
				}
				kept[at].Add(hits - back)
			}
		})
	}
	group.Wait()
	for i := range keys {
		if d := s.TakeOne(keys[i], l, 0); d.Remaining != quota-kept[i].Load() || d.Remaining < 0 {
			t.Errorf("%s: %+v, passed %d", keys[i], d, kept[i].Load())
		}
	}
	out := int64(0)
	for _, r := range s.leases.buckets {
		out += r.hits
	}
	if got := s.Stats(); got.LeasedHits != got.ReturnedHits+got.EndedHits+out {
		t.Errorf("out %d, stats %+v", out, got)
	}
}

// A lease that is not granted does not shorten the life of what another limit has
// charged: the slot is not given to the keys that come after it.
func TestLeaseOfNothingKeepsALog(t *testing.T) {
	c := new(testClock)
	c.set(noon)
	s := newStore(t, Options{MaxBytes: MinMaxBytes, Shards: 1, Now: c.now})
	log := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 10, Period: 36 * time.Hour})
	none := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 0, Period: time.Minute})
	s.TakeOne("k", log, 1)
	s.Lease(t.Context(), []store.LeaseRequest{{Key: []byte("k"), Limit: none, ID: store.LeaseID{1}, Want: 2, Share: 1}}, make([]store.Grant, 1))
	c.advance(limit.Micros(10 * time.Minute / time.Microsecond))
	for i := range 1000 {
		s.TakeOne(fmt.Sprint("key ", i), log, 1)
	}
	if d := s.TakeOne("k", log, 0); d.Remaining != 9 {
		t.Errorf("%+v", d)
	}
}

// A log is kept as long as the longest of the limits that ask it needs, because it does not
// say its period: neither a charge nor a refund under a short one makes it forgotten.
func TestShortLogsForgetNothingOfLongOnes(t *testing.T) {
	long := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 10, Period: 36 * time.Hour})
	short := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 0, Period: time.Microsecond})
	for _, op := range []store.Op{store.Charge, store.Refund} {
		c := new(testClock)
		c.set(noon)
		s := newStore(t, Options{MaxBytes: MinMaxBytes, Shards: 1, Now: c.now})
		s.TakeOne("k", long, 3)
		c.advance(-1) // the entries are not past for the short limit
		s.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: short, Op: op, Hits: 1}}, make([]store.Result, 1))
		c.advance(limit.Micros(10 * time.Minute / time.Microsecond))
		for i := range 1000 {
			s.TakeOne(fmt.Sprint("key ", i), long, 1)
		}
		if d := s.TakeOne("k", long, 0); d.Remaining > 8 || op == store.Charge && d.Remaining != 7 {
			t.Errorf("op %v: %+v", op, d)
		}
	}
}

// What comes back under a limit with a short memory does not shorten the life of what was
// leased under one with a long memory.
func TestReturnsForgetNothingOfLongerLimits(t *testing.T) {
	c := new(testClock)
	c.set(noon)
	s := newStore(t, Options{MaxBytes: MinMaxBytes, Shards: 1, Now: c.now})
	long := limit.Must(limit.Spec{Algorithm: limit.SubWindows, Quota: 60, Period: time.Minute, SubWindows: 60, Strict: true})
	short := limit.Must(limit.Spec{Algorithm: limit.SubWindows, Quota: 1, Period: time.Second, SubWindows: 10})
	if g := leaseOne(s, leaseRequest("k", long, 1, 31)); g.Hits != 31 {
		t.Fatalf("%+v", g)
	}
	back := leaseRequest("k", short, 2, 0)
	binary.BigEndian.PutUint64(back.Return[:], 1)
	back.ReturnHits = 5
	if g := leaseOne(s, back); !g.Returned {
		t.Fatalf("%+v", g)
	}
	c.advance(limit.Micros(59 * time.Second / time.Microsecond))
	for i := range 60 {
		s.TakeOne(fmt.Sprint("key ", i), long, 1)
	}
	if d := s.TakeOne("k", long, 0); d.Remaining > 60-31+5 {
		t.Errorf("%+v", d)
	}
}
