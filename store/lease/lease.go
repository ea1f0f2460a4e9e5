package lease

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sweep"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
	"github.com/headgate/headgate/store/steady"
)

const (
	// DefaultBudget is how long a question in the background may take.
	DefaultBudget = 250 * time.Millisecond
	// DefaultHotPause is for how long a node asks nothing of a hot bucket at most.
	DefaultHotPause = time.Second
	// shareFactor is k: one lease takes at most 1/(k nodes) of what remains.
	shareFactor = 2
)

// Options configures a Store.
type Options struct {
	// Store is the shared store; required. Close closes it.
	Store store.Leaser
	// Local decides takes of the consistency local; nil lets the shared store
	// decide them, exactly. Close leaves it alone.
	Local store.Store
	// Nodes says how many nodes lease from the store, this one among them; it
	// is called often, by many goroutines. Nil, and any answer below 1, mean 1.
	// A wrong number makes leases too small or too large, never too many.
	Nodes func() int
	// Now is the clock, of which only the monotonic reading counts; nil means
	// time.Now. Wall is the wall clock that it is compared with; nil means the
	// wall reading of Now.
	Now, Wall func() time.Time
	// Budget bounds each question in the background; 0 means DefaultBudget.
	Budget time.Duration
	// MaxBuckets bounds the buckets that are followed at one time; 0 means
	// DefaultMaxBuckets. Those beyond are decided in the store.
	MaxBuckets int
	// Hot finds the hot ones among the exact takes that carry a Mode; nil finds
	// none, and then no exact bucket is leased.
	Hot *hotkey.Detector
	// MaxHotPause bounds for how long a node asks nothing of such a bucket when it was
	// found empty, and so how late a refund, a reset or a raised limit that came through
	// another node takes effect here; 0 means DefaultHotPause.
	MaxHotPause time.Duration
	// OnHot, when not nil, is told of every key that Hot finds, at most once a
	// minute: a take on it, the first half of the SHA-256 of the key, and the rate in
	// asks per second on this node. It is called by one goroutine at a time, must not
	// block and must not keep t.
	OnHot func(t *store.Take, key hotkey.Key, rate float64)
}

// Store is a store.Store over a store.Leaser. Make one with New.
type Store struct {
	inner store.Leaser
	local store.Store
	nodes func() int
	hot   *hotkey.Detector
	onHot func(t *store.Take, key hotkey.Key, rate float64)

	// named has when each hot key was named, as a time.Time.
	named  sync.Map
	naming sync.Mutex

	clock       steady.Clock
	budget      time.Duration
	maxBuckets  int
	maxHotPause time.Duration
	shardMax    int
	seed        maphash.Seed
	shards      [shardCount]shard
	courier     courier
	serials     atomic.Uint64
	// epoch counts the times that the clocks parted.
	epoch    atomic.Uint64
	partings atomic.Uint64
	draining atomic.Bool
	// parted is DropLeases, made once so that reading the clock makes nothing.
	parted func()

	sweeps *sweep.Sweep
	// turn counts the sweeps, of which each tidies another part of the shards.
	turn atomic.Uint32
}

var _ store.Leaser = (*Store)(nil)

// New returns a Store that holds no leases.
func New(o Options) *Store {
	s := &Store{
		inner: o.Store, local: o.Local, nodes: o.Nodes, hot: o.Hot, onHot: o.OnHot,
		budget: o.Budget, maxBuckets: o.MaxBuckets, maxHotPause: o.MaxHotPause, seed: maphash.MakeSeed(),
	}
	s.budget = cmp.Or(max(s.budget, 0), DefaultBudget)
	s.maxBuckets = cmp.Or(max(s.maxBuckets, 0), DefaultMaxBuckets)
	s.maxHotPause = cmp.Or(max(s.maxHotPause, 0), DefaultHotPause)
	s.shardMax = max(s.maxBuckets/shardCount, 1)
	for i := range s.shards {
		s.shards[i].buckets = make(map[uint64]*bucket)
	}
	s.courier = courier{s: s, home: make(chan struct{})}
	s.parted = s.DropLeases
	s.sweeps = sweep.New(sweepEvery, s.sweep)
	s.clock.Start(o.Now, o.Wall)
	return s
}

// Lease implements store.Leaser: it asks the shared store.
func (s *Store) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	s.inner.Lease(ctx, requests, grants)
}

// Drain gives back all leases and sends what synced buckets have not sent yet.
// From its start on every take is decided in the store, except those of the
// consistency local. It returns when the store has answered, or with the error
// of ctx.
func (s *Store) Drain(ctx context.Context) error {
	s.draining.Store(true)
	now := s.read()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, b := range sh.buckets {
			s.remove(sh, b, now)
		}
		sh.mu.Unlock()
	}
	return store.AwaitIdle(ctx, s.courier.idle)
}

// Close drains for at most the budget, and closes the shared store.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.budget)
	defer cancel()
	err := s.Drain(ctx)
	s.sweeps.Stop()
	if err != nil {
		err = &store.Error{Op: "drain", Store: "leases", Reason: store.Timeout, Hint: "what was leased is lost until its window ends", Err: err}
	}
	return errors.Join(err, s.inner.Close())
}

// read is the time, after dropping all leases if it can no longer be trusted.
func (s *Store) read() time.Duration { return s.clock.Read(s.parted) }

func (s *Store) liveNodes() int64 { return store.LiveNodes(s.nodes) }

func (s *Store) shardOf(hash uint64) *shard { return &s.shards[hash%shardCount] }

// roundUp makes a time that is left whole microseconds, at least 0.
func roundUp(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return (d + time.Microsecond - 1) / time.Microsecond * time.Microsecond
}
