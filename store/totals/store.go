package totals

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// DefaultInterval is the time between two rounds, MinInterval and MaxInterval its bounds.
	DefaultInterval = time.Second
	MinInterval     = 200 * time.Millisecond
	MaxInterval     = 10 * time.Second
	// DefaultFloor is the floor, in millionths of a limit; at most MaxFloor.
	DefaultFloor = 10_000
	MaxFloor     = 200_000
	// DefaultBudget is how long a message may take: two trips around the earth.
	DefaultBudget = time.Second
	// DefaultMaxBuckets bounds the buckets that are counted.
	DefaultMaxBuckets = 1 << 16

	// MinRounds is how many rounds there must be while a hit weighs.
	MinRounds = 10

	maxKey     = 1024 // the longest key that is counted, in bytes
	maxLimits  = 1 << 12
	shardCount = 64
	evictLooks = 8
)

// Peer is the store of another region.
type Peer struct {
	// Region is its name.
	Region string
	// Store is told what passes here; Close leaves it alone.
	Store store.Importer
}

// Options configures a Store.
type Options struct {
	// Own is the store of this region, which decides; required. Close leaves it alone.
	Own store.Store
	// Peers are the stores of the other regions; at least one.
	Peers []Peer
	// Interval is the time between two rounds; 0 means DefaultInterval.
	Interval time.Duration
	// Floor is which part of a limit, in millionths, may stay untold in each region; below 0
	// none, and 0 means DefaultFloor.
	Floor int64
	// Nodes says how many nodes of this region decide; nil and any answer below 1 mean 1.
	Nodes func() int
	// Now is the wall clock; nil means time.Now.
	Now func() limit.Micros
	// Budget bounds each message, of which nobody waits for an answer; 0 means DefaultBudget.
	Budget time.Duration
	// MaxBuckets bounds the buckets that are counted; 0 means DefaultMaxBuckets.
	MaxBuckets int
}

// Store is a store.Store that decides by the store of its region, and tells the others what
// passes. Make one with New, and Run it.
type Store struct {
	own      store.Store
	peers    []peer
	interval time.Duration
	floor    int64
	nodes    func() int
	now      func() limit.Micros
	budget   time.Duration
	shardMax int
	// told is the limit by which a peer charges: that of the rule, but no debt is longer than
	// a period.
	told   *memo.Memo[*limit.Limit, *limit.Limit]
	seed   maphash.Seed
	name   [8]byte // of the process, in its columns
	serial atomic.Uint64
	shards [shardCount]shard
}

var _ store.Store = (*Store)(nil)

// shard is a part of the table with a lock of its own.
type shard struct {
	mu      sync.Mutex
	entries map[uint64]*entry
	rows    map[string]*row
	rest    row // of what has no row of its own
	_       [64]byte
}

// New returns a Store that has counted nothing.
func New(o Options) (*Store, error) {
	switch {
	case o.Own == nil || len(o.Peers) == 0:
		return nil, errors.New("new totals: no store of the region, or no peers")
	case o.Interval != 0 && (o.Interval < MinInterval || o.Interval > MaxInterval):
		return nil, errors.New("new totals: Interval is out of range; hint: from 200ms to 10s")
	case o.Floor > MaxFloor:
		return nil, errors.New("new totals: Floor is out of range; hint: up to a fifth")
	}
	s := &Store{own: o.Own, interval: o.Interval, floor: max(o.Floor, 0), nodes: o.Nodes, now: o.Now, budget: o.Budget, seed: maphash.MakeSeed()}
	for _, p := range o.Peers {
		s.peers = append(s.peers, peer{Peer: p, wake: sleep.NewNudge()})
	}
	s.interval = cmp.Or(s.interval, DefaultInterval)
	if o.Floor == 0 {
		s.floor = DefaultFloor
	}
	if s.now == nil {
		s.now = func() limit.Micros { return limit.MicrosOf(time.Now()) }
	}
	s.budget = cmp.Or(max(s.budget, 0), DefaultBudget)
	o.MaxBuckets = cmp.Or(max(o.MaxBuckets, 0), DefaultMaxBuckets)
	s.shardMax = max(o.MaxBuckets/shardCount, 1)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.entries, sh.rows, sh.rest.unheard = make(map[uint64]*entry), make(map[string]*row), make([]int64, len(s.peers))
	}
	s.told = memo.New(maxLimits, bounded)
	crand.Read(s.name[:]) // never fails
	return s, nil
}

// bounded returns l with a bound on what a bucket may owe: as much as it holds.
func bounded(l *limit.Limit) (*limit.Limit, error) {
	spec := l.Spec
	if spec.MaxDebt == 0 || spec.MaxDebt > l.Capacity() {
		spec.MaxDebt = l.Capacity()
	}
	return limit.New(spec)
}

// Check returns why l cannot be counted over several regions in rounds of an interval, nil if
// it can.
func Check(l *limit.Limit, interval time.Duration) error {
	switch l.Algorithm {
	case limit.Concurrency, limit.Ban, limit.LeakyQueue:
		return fmt.Errorf("%v counts no hits that have passed; hint: a window, a bucket or a log", l.Algorithm)
	}
	if l.Weighs() < MinRounds*interval {
		return fmt.Errorf("a hit counts for %v, in which other regions hardly hear of it; hint: a longer period, a shorter exchange, or regions: each", l.Weighs())
	}
	return nil
}

// Supports implements store.Supporter.
func (s *Store) Supports(l *limit.Limit) error {
	if err := Check(l, s.interval); err != nil {
		return &store.Error{Op: "take", Store: "regions", Reason: store.Misconfigured, Hint: "regions: each", Err: err}
	}
	return store.Supports(s.own, l)
}

// Take implements store.Store: the store of the region decides.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	s.own.Take(ctx, takes, results)
	now := s.now()
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		if held(takes[from:to], results[from:to]) {
			continue
		}
		for i := from; i < to; i++ {
			s.count(&takes[i], &results[i], now)
		}
	}
}

// held reports whether takes are a group of which nothing was charged.
func held(takes []store.Take, results []store.Result) bool {
	if len(takes) == 1 {
		return false
	}
	for i := range takes {
		if r := &results[i]; r.Err == nil && takes[i].Op == store.Hit && !takes[i].Shadow && !r.Allowed {
			return true
		}
	}
	return false
}

// count counts what the store of the region has done for t.
func (s *Store) count(t *store.Take, r *store.Result, now limit.Micros) {
	if r.Err != nil || t.DryRun || t.Limit.Algorithm == limit.Concurrency || t.Limit.Algorithm == limit.Ban {
		return
	}
	switch {
	case t.Op == store.Reset:
		s.note(t, store.Counts{Resets: 1}, now)
		s.hurry()
	case t.Hits <= 0:
	case t.Op == store.Charge, t.Op == store.Hit && (r.Allowed || t.Limit.CountDenied):
		s.note(t, store.Counts{Hits: t.Hits}, now)
	case t.Op == store.Refund:
		s.note(t, store.Counts{Back: t.Hits}, now)
	}
}

// note adds c to the count of the bucket of t, if there is room for one.
func (s *Store) note(t *store.Take, c store.Counts, now limit.Micros) {
	hash := maphash.Bytes(s.seed, t.Key)
	sh := s.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := s.entryOf(sh, hash, t)
	if e == nil {
		s.rowOf(sh, t).crowded++
		return
	}
	e.note(c, now)
	e.row.counts = e.row.counts.Plus(c)
	if e.count.Hits > maxHits || e.count.Back > maxHits {
		delete(sh.entries, hash)
	}
}

func (s *Store) shardOf(hash uint64) *shard { return &s.shards[hash%shardCount] }

// entryOf returns the entry of t, nil where there is no room for it. The lock of sh is held.
func (s *Store) entryOf(sh *shard, hash uint64, t *store.Take) *entry {
	e := sh.entries[hash]
	switch {
	case e != nil && !bytes.Equal(e.key, t.Key):
		return nil // one hash of two keys: the first has it
	case e != nil:
		e.limit = t.Limit // the one that counts now
		return e
	case len(t.Key) > maxKey || len(sh.entries) >= s.shardMax && !s.evict(sh):
		return nil
	}
	e = &entry{
		key: bytes.Clone(t.Key), limit: t.Limit, column: s.newColumn(), row: s.rowOf(sh, t),
		heard: make([]store.Counts, len(s.peers)), behind: make([]limit.Micros, len(s.peers)),
	}
	sh.entries[hash] = e
	return e
}

// evict makes room for an entry, if one of a few weighs nothing any more.
func (s *Store) evict(sh *shard) bool {
	now, looks := s.now(), evictLooks
	for hash, e := range sh.entries {
		e.redate(now)
		if e.idle(now) || e.ended(now) {
			delete(sh.entries, hash)
			return true
		}
		if looks--; looks == 0 {
			break
		}
	}
	return false
}

func (s *Store) newColumn() (c store.Column) {
	copy(c[:], s.name[:])
	binary.BigEndian.PutUint64(c[len(s.name):], s.serial.Add(1))
	return c
}

// Close implements store.Store. The stores stay open.
func (s *Store) Close() error { return nil }
