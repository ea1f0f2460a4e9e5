// Package local decides in this process alone, by a share of each limit.
//
// A fleet of n nodes that cannot, or need not, ask a shared store still keeps a
// limit nearly if each of them enforces one n-th of it: quota, burst and queue
// divided by the number of live nodes, rounded down but never below 1. It is the
// store behind the consistency "local", and the one that the limiter falls back
// to when the shared store fails and a rule says so.
//
// # What the fleet lets pass
//
// The shares of n nodes that all know n add up to at most the limit where the
// limit is at least n, and to n, which is at most limit + n - 1, where it is
// less: nobody can enforce half a hit. A leaky_bucket, whose burst is always 1,
// lets n hits pass at one instant, at the rate divided by n; a leaky_queue whose
// max_queue is below n holds back n hits. While nodes join or leave, those who
// have not noticed yet go on with the old share.
//
// Of concurrency each node has its part of the slots, and of a ban its part of the
// denials that lead to it; the ban is the node's own, and lasts as long as any.
//
// What it does not promise: that the whole limit can be used. Nodes that get
// less than an equal part of the load leave some of their share unused, at worst
// (all load on one node) all but one n-th of the limit; and a take of more hits
// than the share can never pass here.
//
// # A fallback
//
// Store.Fallback is for who asks only while the shared store does not answer. What this
// node last knew of a shared bucket, whichever node has used it, is where its own bucket
// begins: whole where the whole limit counts, in n parts where the share does. So an
// outage that lasts for a few answers gives nobody a new limit.
//
// # Slots of a fallback
//
// A slot belongs to the store that gave it. A request that was let in here while
// the shared store was away is not known there when that is back, nor the other way
// round, until its next renewal: that puts it there, past the quota if need be
// (limit.Renew). Until then each store lets in by what it knows. The slot in the
// store that is no longer asked ends at its timeout, or when it is released there: a
// release of what a store does not hold changes nothing, so whoever has asked both
// may release in both, in any order. A slot that is left to its timeout is on the
// safe side: fewer are let in, not more.
package local

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// maxScaled bounds the divided limits that are remembered. Every reload of the
// rules makes new limits; the old ones are forgotten when there are too many,
// and those still in use are divided again, which takes a microsecond each.
const maxScaled = 4096

// Options configures a Store. The zero value is a store of one node.
type Options struct {
	// Nodes says how many nodes share the limits, this one among them. It is
	// called for every batch, by many goroutines, and may change at any time:
	// buckets live on with what they have counted. Nil, and any answer below 1,
	// mean 1.
	Nodes func() int
	// MaxBytes bounds the memory of all buckets; see memstore.Options.
	MaxBytes int64
	// Now is the clock; see memstore.Options.
	Now func() limit.Micros
}

// Store is a store.Store in memory that decides by a share of each limit. Take's
// Mode.Whole asks for the whole limit instead. Decisions speak of the share:
// their Limit is what this node lets pass. Make one with New.
type Store struct {
	memory *memstore.Store
	nodes  func() int
	// scaled has a *share for every *limit.Limit that was divided of late.
	scaled sync.Map
	known  atomic.Int64 // entries of scaled, about
}

var _ store.Store = (*Store)(nil)

// share is a limit divided by nodes.
type share struct {
	nodes int
	limit *limit.Limit
}

// New returns an empty Store. Its errors are those of memstore.New.
func New(o Options) (*Store, error) {
	memory, err := memstore.New(memstore.Options{MaxBytes: o.MaxBytes, Now: o.Now})
	if err != nil {
		return nil, fmt.Errorf("new local store: %w", err)
	}
	if o.Nodes == nil {
		o.Nodes = func() int { return 1 }
	}
	return &Store{memory: memory, nodes: o.Nodes}, nil
}

var batches = sync.Pool{New: func() any { return new([]store.Take) }}

// Take implements store.Store. It waits for nothing and its results carry no
// errors.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	s.take(ctx, takes, results, nil)
}

// take is Take for who knows what the shared buckets held last; recall is nil for those
// who do not.
func (s *Store) take(ctx context.Context, takes []store.Take, results []store.Result, recall Recall) {
	nodes := max(s.nodes(), 1)
	pooled := batches.Get().(*[]store.Take)
	shares := append((*pooled)[:0], takes...)
	for i := range shares {
		t, parts := &shares[i], 1
		if !isWhole(t) {
			t.Limit, parts = s.shareOf(t.Limit, nodes), nodes
		}
		if recall != nil && t.Op == store.Hit {
			s.raise(&takes[i], t.Limit, parts, recall)
		}
	}
	s.memory.Take(ctx, shares, results)
	clear(shares) // what callers own is not kept
	*pooled = shares
	batches.Put(pooled)
}

// isWhole reports whether t asks for the whole limit.
func isWhole(t *store.Take) bool { return t.Mode != nil && t.Mode.Whole }

// Close implements store.Store.
func (s *Store) Close() error { return s.memory.Close() }

// Stats says what the buckets take; see memstore.Stats.
func (s *Store) Stats() memstore.Stats { return s.memory.Stats() }

// shareOf returns l divided by nodes.
func (s *Store) shareOf(l *limit.Limit, nodes int) *limit.Limit {
	if nodes == 1 {
		return l
	}
	known, found := s.scaled.Load(l)
	if found {
		if sh := known.(*share); sh.nodes == nodes {
			return sh.limit
		}
	} else if s.known.Add(1) > maxScaled {
		s.scaled.Clear()
		s.known.Store(1)
	}
	sh := &share{nodes: nodes, limit: divide(l, int64(nodes))}
	s.scaled.Store(l, sh)
	return sh.limit
}

// divide returns the limit of one of nodes. A limit that is valid stays valid
// when it is divided, except that a burst may take longer than there is to drain
// at a rate that was rounded down; then the share has no burst.
func divide(l *limit.Limit, nodes int64) *limit.Limit {
	spec := l.Spec
	spec.Quota = part(spec.Quota, nodes)
	spec.MaxQueue = part(spec.MaxQueue, nodes)
	switch spec.Algorithm {
	case limit.LeakyBucket, limit.LeakyQueue:
		spec.Burst = 0 // theirs is not a setting
	default:
		spec.Burst = part(spec.Burst, nodes)
	}
	divided, err := limit.New(spec)
	if err != nil {
		spec.Burst = 1
		return limit.Must(spec)
	}
	return divided
}

// part is one of nodes parts of n, rounded down but at least 1; nothing stays
// nothing.
func part(n, nodes int64) int64 {
	if n == 0 {
		return 0
	}
	return max(n/nodes, 1)
}
