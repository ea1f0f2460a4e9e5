package lease

import (
	"bytes"
	"sync"
	"time"

	"github.com/headgate/headgate/store"
)

const (
	// DefaultMaxBuckets is room for the hot tenth of half a million keys, in
	// about 30 MB.
	DefaultMaxBuckets = 1 << 16
	// maxKey is the longest key that is leased, in bytes; longer ones are
	// decided in the store. Keys are kept whole.
	maxKey = 1024

	shardCount = 64
	// evictLooks is how many buckets are looked at for one that can go.
	evictLooks = 8
	// idleAfter is how long after its last use a bucket gives back what it
	// holds at the earliest, and may go when another needs its place;
	// forgetAfter when it does in any case.
	idleAfter   = time.Second
	forgetAfter = 15 * time.Second
)

// shard is a part of the table of buckets with a lock of its own. Lock order:
// shard, then courier; never two shards.
type shard struct {
	mu      sync.Mutex
	buckets map[uint64]*bucket
	// dirty are the synced buckets with something to send.
	dirty []*bucket
	stats Stats
	_     [64]byte // no two locks in one cache line
}

// find returns the bucket of key, nil if there is none.
func (sh *shard) find(hash uint64, key []byte) *bucket {
	b := sh.buckets[hash]
	if b == nil || !bytes.Equal(b.key, key) {
		return nil
	}
	return b
}

// bucketOf returns the bucket that t is decided in, nil when there is no room
// for it. A leased bucket of another limit, or one of another kind, gives back what
// it holds, and starts afresh.
func (s *Store) bucketOf(sh *shard, hash uint64, t *store.Take, k kind, now time.Duration) *bucket {
	b := sh.buckets[hash]
	switch {
	case b == nil:
		return s.insert(sh, hash, t, k, now)
	case !bytes.Equal(b.key, t.Key):
		return nil // one hash of two keys: the first has it
	case b.kind == k && b.limit == t.Limit && b.mode == t.Mode && (!b.auto || b.traits.nodes == s.liveNodes()):
		return b
	case b.kind != k || k == leased && !sameLimit(b.limit, t.Limit):
		s.remove(sh, b, now)
		return s.insert(sh, hash, t, k, now)
	case !sameLimit(b.limit, t.Limit):
		// What is not charged yet is charged under the new limit, before that is
		// looked at.
		b.turn(now, &sh.stats)
		b.view, b.exchange = view{}, now
	}
	b.limit, b.mode = t.Limit, t.Mode
	b.auto = b.mode.Consistency == store.Exact
	b.traits = s.traitsOf(b.limit, b.mode)
	return b
}

func (s *Store) insert(sh *shard, hash uint64, t *store.Take, k kind, now time.Duration) *bucket {
	if len(t.Key) > maxKey || (len(sh.buckets) >= s.shardMax && !s.evict(sh, now)) {
		sh.stats.Crowded++
		return nil
	}
	b := &bucket{
		key: bytes.Clone(t.Key), hash: hash, kind: k, limit: t.Limit, mode: t.Mode,
		traits: s.traitsOf(t.Limit, t.Mode), size: firstSize, usedAt: now,
		auto: t.Mode.Consistency == store.Exact,
	}
	sh.buckets[hash] = b
	sh.stats.Buckets++
	s.sweeps.Wake()
	return b
}

// evict makes room for one bucket: of a few that it looks at it removes the one
// that was not used for the longest, if that is idle.
func (s *Store) evict(sh *shard, now time.Duration) bool {
	var victim *bucket
	looks := 0
	for _, b := range sh.buckets { // the order of a map is random
		if b.flight == nil && (victim == nil || b.usedAt < victim.usedAt) {
			victim = b
		}
		if looks++; looks == evictLooks {
			break
		}
	}
	if victim == nil || now-victim.usedAt < idleAfter {
		return false
	}
	sh.stats.Evicted++
	s.remove(sh, victim, now)
	return true
}

// remove takes b out of the table and gives back what it holds.
func (s *Store) remove(sh *shard, b *bucket, now time.Duration) {
	s.release(sh, b, now)
	if b.delta != 0 {
		if !s.courier.add(&errand{what: chargeGone, key: b.key, hash: b.hash, limit: b.limit, hits: b.delta}) {
			sh.stats.Dropped += max(b.delta, 0)
		}
		b.delta = 0
	}
	b.gone = true
	delete(sh.buckets, b.hash)
	sh.stats.Buckets--
}

// release ends the leases of b and gives back what they have left.
func (s *Store) release(sh *shard, b *bucket, now time.Duration) {
	if id := b.takeSpent(now); id != (store.LeaseID{}) {
		s.giveBack(sh, b, id, 0)
	}
	for i := range b.lots {
		l := &b.lots[i]
		if l.serial == 0 {
			continue
		}
		if l.left >= l.granted/2 {
			b.size = max(l.granted/2, firstSize)
		}
		s.giveBack(sh, b, l.id, l.left)
		*l = lot{}
	}
}

// giveBack ends the lease id and sends hits of it to the store. They count as
// returned when it says so; until then they are under way.
func (s *Store) giveBack(sh *shard, b *bucket, id store.LeaseID, hits int64) {
	if !s.courier.add(&errand{what: handIn, key: b.key, hash: b.hash, limit: b.limit, id: id, hits: hits}) {
		sh.stats.Expired += hits
		return
	}
	sh.stats.UnderWay += hits
}

// forget drops what b holds without giving it back: the bucket was reset.
func (b *bucket) forget(st *Stats) {
	if b.flight != nil {
		b.flight.void = true
	}
	for i := range b.lots {
		l := &b.lots[i]
		st.Expired += l.left
		*l = lot{}
	}
	b.spent = spentLease{}
	b.view, b.delta = view{}, 0
	b.direct, b.pressed, b.quiet, b.pauses = false, false, 0, 0
}

// DropLeases forgets all leases and views, because nobody knows how old they are: they are asked
// for anew. A Store does so by itself when the wall clock and the monotonic clock part; this is
// for those who rehearse that. Stats counts both as Partings.
func (s *Store) DropLeases() {
	s.epoch.Add(1)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, b := range sh.buckets {
			for j := range b.lots {
				b.drop(&b.lots[j], &sh.stats)
			}
			b.edge, b.view = 0, view{}
		}
		sh.mu.Unlock()
	}
	s.partings.Add(1)
}

// markDirty notes that b has something to send.
func (sh *shard) markDirty(b *bucket) {
	if !b.listed {
		b.listed = true
		sh.dirty = append(sh.dirty, b)
	}
}
