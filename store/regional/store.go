package regional

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/sweep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/steady"
)

const (
	// DefaultBudget is how long a question to the home may take: two trips around the earth.
	DefaultBudget = time.Second
	// DefaultMaxBuckets bounds the buckets of which a node holds rights at one time: about 30 MB.
	DefaultMaxBuckets = 1 << 16
	// maxKey is the longest key of which rights are held, in bytes; others have the reserve alone.
	maxKey = 1024
	// maxLimits bounds the limits of which the parts are remembered.
	maxLimits  = 1 << 12
	shardCount = 64
	// evictLooks is how many buckets are looked at for one that can go.
	evictLooks = 8
	// forgetAfter is how long after its last use a bucket is forgotten.
	forgetAfter = 15 * time.Second
)

// Lender is the store that is the home: it lends, and knows whether it has forgotten.
type Lender interface {
	store.Leaser
	store.Chronicler
}

// Options configures a Store.
type Options struct {
	// Home is the store of which nodes of all regions lease; required. Close leaves it alone.
	Home Lender
	// Own is the store of this region, which counts its reserve; required. Close leaves it
	// alone.
	Own store.Store
	// Layout says which regions there are, Region which one this is: one of them.
	Layout Layout
	Region string
	// Nodes says how many nodes of all regions lease from Home; nil and any answer below 1
	// mean 1. A wrong number makes leases too small or too large, never too many.
	Nodes func() int
	// Now and Wall are as in package steady.
	Now, Wall func() time.Time
	// Budget bounds each question to Home, of which nobody waits for an answer; 0 means
	// DefaultBudget.
	Budget time.Duration
	// MaxBuckets bounds the buckets of which rights are held; 0 means DefaultMaxBuckets. Those
	// beyond have the reserve alone.
	MaxBuckets int
}

// Store is a store.Store that decides by rights leased from a home far away, and by the
// reserve of its region. Make one with New.
type Store struct {
	home     Lender
	own      store.Store
	region   string
	nodes    func() int
	budget   time.Duration
	shardMax int
	clock    steady.Clock
	parted   func()
	cuts     *memo.Memo[*limit.Limit, Cut]
	seed     maphash.Seed
	shards   [shardCount]shard
	courier  courier
	sweeps   *sweep.Sweep
}

var _ store.Store = (*Store)(nil)

// shard is a part of the table with a lock of its own. Lock order: shard, then courier.
type shard struct {
	mu      sync.Mutex
	buckets map[uint64]*bucket
	// rows count by rule; rest counts what has no row.
	rows     map[string]*row
	rest     row
	partings uint64
	_        [64]byte // no two locks in one cache line
}

// bucket is the rights of one key.
type bucket struct {
	Rights
	key    []byte
	hash   uint64
	row    *row         // of the rule that has made it
	limit  *limit.Limit // as takes have it
	cut    Cut
	queued bool // the courier has it
	voided bool // reset while a question was under way: what it brings is not used
	gone   bool
}

// New returns a Store that holds nothing. It fails where the layout does not have the region.
func New(o Options) (*Store, error) {
	if o.Home == nil || o.Own == nil {
		return nil, errors.New("new regional store: no home, or no store of the region")
	}
	if o.Layout.Weights[o.Region] < 1 {
		return nil, errors.New("new regional store: there is no region " + o.Region + "; hint: name it in the layout")
	}
	s := &Store{home: o.Home, own: o.Own, region: o.Region, nodes: o.Nodes, budget: o.Budget, seed: maphash.MakeSeed()}
	s.budget = cmp.Or(max(s.budget, 0), DefaultBudget)
	o.MaxBuckets = cmp.Or(max(o.MaxBuckets, 0), DefaultMaxBuckets)
	s.shardMax = max(o.MaxBuckets/shardCount, 1)
	for i := range s.shards {
		s.shards[i].buckets, s.shards[i].rows = make(map[uint64]*bucket), make(map[string]*row)
	}
	s.cuts = memo.New(maxLimits, func(l *limit.Limit) (Cut, error) {
		c, err := o.Layout.CutFor(o.Region, l)
		if err != nil {
			return Cut{}, &store.Error{Op: "take", Store: "regions", Reason: store.Misconfigured, Hint: "regions: each", Err: err}
		}
		return c, nil
	})
	s.courier.s = s
	s.courier.home = make(chan struct{})
	s.parted = s.DropRights
	s.sweeps = sweep.New(sweepEvery, s.sweep)
	s.clock.Start(o.Now, o.Wall)
	return s, nil
}

// Supports implements store.Supporter.
func (s *Store) Supports(l *limit.Limit) error {
	_, err := s.cuts.Get(l)
	return err
}

// read is the time, after dropping all rights if it can no longer be trusted.
func (s *Store) read() time.Duration { return s.clock.Read(s.parted) }

func (s *Store) liveNodes() int64 { return store.LiveNodes(s.nodes) }

func (s *Store) shardOf(hash uint64) *shard { return &s.shards[hash%shardCount] }

// DropRights forgets all rights, because nobody knows how old they are: they are asked for anew. A
// Store does so by itself when the wall clock and the monotonic clock part, as they do on a machine
// that was suspended; this is for those who rehearse that. Stats counts both as Partings.
func (s *Store) DropRights() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, b := range sh.buckets {
			b.Drop()
			b.voided = b.asking
		}
		sh.partings++
		sh.mu.Unlock()
	}
}

// bucketFor returns the bucket by whose rights t may be decided, nil where there is none. Only
// hits make one. The lock of sh is held.
func (s *Store) bucketFor(sh *shard, hash uint64, t *store.Take, c Cut, now time.Duration) *bucket {
	if t.Op == store.Hit && t.Hits > 0 && !t.DryRun {
		return s.bucketOf(sh, hash, t, c, now)
	}
	b := sh.buckets[hash]
	if b == nil || !bytes.Equal(b.key, t.Key) || b.limit != t.Limit && b.limit.Spec != t.Limit.Spec {
		return nil
	}
	return b
}

// bucketOf returns the bucket of t, nil where there is no room for it. The lock of sh is held.
func (s *Store) bucketOf(sh *shard, hash uint64, t *store.Take, c Cut, now time.Duration) *bucket {
	b := sh.buckets[hash]
	switch {
	case b != nil && !bytes.Equal(b.key, t.Key):
		return nil // one hash of two keys: the first has it
	case b != nil && b.limit == t.Limit:
		return b
	case b != nil && b.limit.Spec == t.Limit.Spec:
		b.limit = t.Limit // a reload has made it anew
		return b
	case b != nil:
		s.remove(sh, b, now)
	}
	if len(t.Key) > maxKey || len(sh.buckets) >= s.shardMax && !s.evict(sh, now) {
		sh.rowOf(t, nil).Crowded++
		return nil
	}
	longest := time.Duration(0)
	if t.Mode != nil {
		longest = t.Mode.LeaseTTL
	}
	b = &bucket{Rights: *NewRights(c.Home, longest, now), key: bytes.Clone(t.Key), hash: hash, row: sh.rowOf(t, nil), limit: t.Limit, cut: c}
	sh.buckets[hash] = b
	s.sweeps.Wake()
	return b
}

// evict makes room for one bucket: of a few that it looks at it removes the one that was not
// used for the longest, if that is idle.
func (s *Store) evict(sh *shard, now time.Duration) bool {
	var victim *bucket
	looks := 0
	for _, b := range sh.buckets { // the order of a map is random
		if !b.queued && (victim == nil || b.usedAt < victim.usedAt) {
			victim = b
		}
		if looks++; looks == evictLooks {
			break
		}
	}
	if victim == nil || !victim.Idle(now) {
		return false
	}
	s.remove(sh, victim, now)
	return true
}

// remove takes b out of the table and gives back what it holds.
func (s *Store) remove(sh *shard, b *bucket, now time.Duration) {
	s.handBack(b, now)
	b.row.Lost += b.lost
	b.lost, b.gone = 0, true
	delete(sh.buckets, b.hash)
}

// handBack sends home what b holds.
func (s *Store) handBack(b *bucket, now time.Duration) {
	for s.handBackOne(b, now) {
	}
}

// handBackOne sends home what is left of the lease that b would use first, and reports whether there
// was one.
func (s *Store) handBackOne(b *bucket, now time.Duration) bool {
	q, ok := b.HandBack(now)
	if !ok {
		return false
	}
	q.Key = b.key
	b.row.UnderWay += q.ReturnHits
	if !s.courier.give(errand{hash: b.hash, rule: b.row.rule, give: q}) {
		b.row.returned(&Answer{Request: q})
	}
	return true
}

// Watch asks the home for its epoch until ctx ends, where nothing was heard of it for two
// seconds, so that Stats knows how the home is while nobody asks for hits.
func (s *Store) Watch(ctx context.Context) {
	for range sleep.AtOnce(ctx, lookAgain) {
		if s.courier.stale() {
			s.courier.mark()
		}
	}
}

// Vouch says that the home has forgotten nothing, so that hits are leased from it at once.
func (s *Store) Vouch(ctx context.Context) error { return s.home.Vouch(ctx) }

// Drain gives back all that this node holds, and holds nothing from then on: what comes is
// decided by the reserve. It returns when the home has answered, or with the error of ctx.
func (s *Store) Drain(ctx context.Context) error {
	s.courier.draining.Store(true)
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

// Close drains for at most the budget. The stores are not its own.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.budget)
	defer cancel()
	err := s.Drain(ctx)
	s.sweeps.Stop()
	if err != nil {
		return &store.Error{Op: "drain", Store: "regions", Reason: store.Timeout, Hint: "what was leased is lost until its window ends", Err: err}
	}
	return nil
}

// The key of a reserve is that of the bucket, the name of the region and the marker, so that
// a store that is the home too, or that of two regions, keeps them apart.
const marker = "\x00region"

// appendOwnKey appends the key to buffer, and returns buffer and the key in it. A name has its
// length behind it, so that no two keys and regions make one.
func appendOwnKey(buffer, key []byte, region string) (grown, own []byte) {
	from := len(buffer)
	buffer = append(buffer, key...)
	buffer = append(buffer, region...)
	buffer = append(buffer, byte(len(region)))
	buffer = append(buffer, marker...)
	return buffer, buffer[from:len(buffer):len(buffer)]
}
