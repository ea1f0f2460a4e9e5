package redisstore

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
)

// A failover to a replica that lags forgets the latest hits. The nodes that were
// told of them still know: a memory keeps the state that each bucket was in when
// this node last asked for it, and the first call for it under another history
// of the server brings that state along (see seed.lua). Since the states of a
// bucket only grow but for refunds, the larger one is the later one, and one node
// that saw the last hit is enough to bring back all before it. So a failover frees
// nobody who is banned.

const (
	// memoryShards is the number of parts with a lock of their own.
	memoryShards = 64
	// ways is the number of places in which a bucket may be remembered.
	ways = 4
)

// remembered is what is known of a bucket, in one cache line.
type remembered struct {
	hash    keyHash
	kind    uint8 // 0: the place is free
	history uint32
	a, b, c int64
	period  int64 // of the limit, µs
	// until is when the bucket will be as if unused, µs of the clock of the
	// memory.
	until int64
}

// memory remembers a bounded number of buckets. Where it is full it forgets
// those that will be unused first. It is safe for concurrent use.
type memory struct {
	began time.Time
	// latest is the history under which something was noted last, mixed whether
	// there have been several.
	latest atomic.Uint32
	mixed  atomic.Bool
	sets   uint64 // per shard
	shards [memoryShards]struct {
		mu      sync.Mutex
		entries []remembered // ways for each set
	}
}

// newMemory returns a memory for about that many buckets; at least one set for
// each shard.
func newMemory(buckets int) *memory {
	m := &memory{began: time.Now(), sets: uint64(max(1, buckets/(memoryShards*ways)))}
	for i := range m.shards {
		m.shards[i].entries = make([]remembered, m.sets*ways)
	}
	return m
}

// set locks and returns the places of a bucket. The caller unlocks.
func (m *memory) set(hash *keyHash) (places []remembered, unlock *sync.Mutex) {
	n := binary.BigEndian.Uint64(hash[8:])
	shard := &m.shards[n%memoryShards]
	first := n / memoryShards % m.sets * ways
	shard.mu.Lock()
	return shard.entries[first : first+ways], &shard.mu
}

// note remembers the state of a bucket, under a history of the server, for d from
// now on. States that are wide are not remembered.
func (m *memory) note(hash *keyHash, history uint32, l *limit.Limit, s *limit.State, now time.Time, d time.Duration) {
	if s.Kind == 0 || s.Wide != nil {
		m.forget(hash)
		return
	}
	if latest := m.latest.Load(); latest != history {
		if latest != 0 {
			m.mixed.Store(true)
		}
		m.latest.Store(history)
	}
	at := now.Sub(m.began).Microseconds()
	places, mu := m.set(hash)
	defer mu.Unlock()
	best := 0
	for i := range places {
		p := &places[i]
		if p.kind != 0 && p.hash == *hash {
			best = i
			break
		}
		if p.kind == 0 || p.until < places[best].until {
			best = i
		}
	}
	places[best] = remembered{
		hash: *hash, kind: s.Kind, history: history, a: s.A, b: s.B, c: s.C,
		period: l.PeriodMicros(), until: at + d.Microseconds(),
	}
}

// forget drops a bucket.
func (m *memory) forget(hash *keyHash) {
	places, mu := m.set(hash)
	defer mu.Unlock()
	for i := range places {
		if places[i].kind != 0 && places[i].hash == *hash {
			places[i] = remembered{}
		}
	}
}

// mayMiss reports whether a server with that history may have to be told of
// buckets.
func (m *memory) mayMiss(history uint32) bool {
	return m.mixed.Load() || m.latest.Load() != history
}

// missing returns what is remembered of a bucket under another history than
// this one, and how long it lasts; false if there is nothing, or nothing that still
// counts.
func (m *memory) missing(hash *keyHash, history uint32, now time.Time) (r remembered, left time.Duration, ok bool) {
	r, left = m.recall(hash, now)
	return r, left, r.history != history && left > 0
}

// stateOf returns the state of a bucket about which a decision at now was the last
// word, as far as the decision tells it; previous is the count of the previous
// window of a sliding one. The state is unused when the decision's reset is over. It may
// be too full by a microsecond, or, where the bucket is full, not as full as it is; then
// it is one that nothing passes all the same. States that are wide are not found out.
//
// Nothing is decided for that: each decision of the store comes through here.
func stateOf(l *limit.Limit, d *limit.Decision, now limit.Micros, previous int64) limit.State {
	if d.ResetAfter <= 0 || !merges(l) {
		return limit.State{}
	}
	s := limit.State{Kind: 1 + uint8(l.Algorithm)}
	period := l.PeriodMicros()
	switch {
	case l.Algorithm == limit.Ban:
		return banOf(l, d, now)
	case l.Calendar != nil:
		s.A = int64(l.Calendar.Around(now)[1])
		s.B = d.Limit - d.Remaining
	case l.Algorithm == limit.FixedWindow:
		s.A = int64(now) - int64(now)%period
		s.B = d.Limit - d.Remaining
	case l.Algorithm == limit.SlidingWindow:
		elapsed := int64(now) % period
		s.A, s.C = int64(now)-elapsed, previous
		s.B = max(d.Limit-weightOf(previous, period-elapsed, period), 0) - d.Remaining
	default:
		s.A = int64(now) + d.ResetAfter.Microseconds()
	}
	s.Per = l.Per()
	return s
}

// weightOf returns how many hits a previous window of so many is taken for while left of
// its period is: rounded up.
func weightOf(previous, left, period int64) int64 {
	if previous <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(previous), uint64(left))
	whole, rest := bits.Div64(hi, lo, uint64(period)) // at most previous, because left <= period
	if rest > 0 {
		whole++
	}
	return int64(whole)
}

// banOf is stateOf for a ban. A count has at least one denial left.
func banOf(l *limit.Limit, d *limit.Decision, now limit.Micros) limit.State {
	ends := int64(now) + d.ResetAfter.Microseconds()
	s := limit.State{Kind: 1 + uint8(limit.Ban)}
	if d.Remaining == 0 {
		s.C = ends
	} else {
		s.A, s.B = ends-l.PeriodMicros(), d.Limit-d.Remaining
	}
	return s
}

// brought notes that a server with that history has been told of a bucket.
func (m *memory) brought(hash *keyHash, history uint32) {
	places, mu := m.set(hash)
	defer mu.Unlock()
	for i := range places {
		if places[i].kind != 0 && places[i].hash == *hash {
			places[i].history = history
		}
	}
}
