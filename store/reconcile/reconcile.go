// Package reconcile charges to a shared store what this node has let pass by itself while
// that store was away.
//
// A node whose store does not answer may let hits pass by its share of the limit (failure
// mode local). The store knows nothing of them, and when it is back it would let the whole
// limit pass again. A Ledger remembers them, and charges them once the store answers:
//
//   - What is charged is what still weighs at that time: hits of a window that has ended
//     meanwhile, and what a bucket has drained, are not. In a sliding window all of it
//     counts as used in the present window, so that it weighs for up to a window longer.
//   - No hit is charged twice. A hit that failed by a timeout may have been counted by the
//     store after all, so the ledger does not take it; and a charge that ends in a
//     timeout is not repeated. Both are counted (Stats).
//   - Memory is bounded: at MaxKeys keys, or MaxBytes, hits of further ones are not taken,
//     and counted.
//   - The ledger is of this process. What has not been charged when it ends is lost.
//
// Concurrency and bans are not reconciled: slots end by themselves, and a ban counts no
// hits that passed.
package reconcile

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Bounds of a Ledger.
const (
	// MaxKeys is how many keys are remembered at most.
	MaxKeys = 1 << 16
	// MaxBytes bounds the memory of keys and states, about.
	MaxBytes = 32 << 20
	// entryBytes is what an entry takes beside its key, about.
	entryBytes = 256
	// maxBatch is how many keys are charged with one call.
	maxBatch = 100
)

// Every is the time between two attempts to charge while the store is away.
const Every = time.Second

// Ledger remembers what passed. It is safe for concurrent use. Make one with New.
type Ledger struct {
	store store.Store
	now   func() limit.Micros

	mu      sync.Mutex
	entries map[string]*entry
	bytes   int
	stats   Stats
}

// entry is what was let pass of one bucket, as a bucket of its own.
type entry struct {
	limit *limit.Limit
	// where is how the charge finds the store of the bucket.
	where *store.Mode
	state limit.State
}

// Stats counts hits since the start, but for Waiting.
type Stats struct {
	// Passed were let pass by a share while the store was away, and are in the ledger or
	// were.
	Passed uint64
	// Charged were charged to the store. That is less than Passed where hits stopped to
	// weigh before the store was back.
	Charged uint64
	// Uncertain were not charged because the store may have counted them: their call, or
	// the one that should have charged them, has timed out.
	Uncertain uint64
	// Full were not taken because the ledger was full.
	Full uint64
	// Waiting is the number of keys that are to be charged.
	Waiting int
}

// New returns an empty Ledger. What passed is charged to s; now is the clock by which hits
// cease to weigh.
func New(s store.Store, now func() limit.Micros) *Ledger {
	return &Ledger{store: s, now: now, entries: make(map[string]*entry)}
}

// Passed notes a take that was counted by a share because the store failed with err. It
// keeps nothing of t, and never waits for anybody.
func (g *Ledger) Passed(t *store.Take, err error) {
	switch t.Limit.Algorithm {
	case limit.Concurrency, limit.Ban:
		return
	}
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.Op == store.Refund {
		g.giveBack(t, now)
		return
	}
	if store.MayCount(err) {
		g.stats.Uncertain += uint64(t.Hits)
		return
	}
	g.add(t, where(t.Mode), now)
}

// where returns a mode that decides exactly in the store of m.
func where(m *store.Mode) *store.Mode {
	if m == nil || m.Store == "" {
		return nil
	}
	return &store.Mode{Store: m.Store}
}

// giveBack takes hits out that were given back by share. Hits that the store itself has
// counted are not here: those are given back no more.
func (g *Ledger) giveBack(t *store.Take, now limit.Micros) {
	if e := g.entries[string(t.Key)]; e != nil {
		e.limit = t.Limit
		e.state, _ = limit.Refund(t.Limit, e.state, now, t.Hits)
	}
}

// add puts the hits of t into its bucket. The lock is held.
func (g *Ledger) add(t *store.Take, where *store.Mode, now limit.Micros) {
	e := g.entries[string(t.Key)]
	if e == nil {
		size := len(t.Key) + entryBytes
		if len(g.entries) >= MaxKeys || g.bytes+size > MaxBytes {
			g.stats.Full += uint64(t.Hits)
			return
		}
		e = new(entry)
		g.entries[string(t.Key)] = e
		g.bytes += size
	}
	g.stats.Passed += uint64(t.Hits)
	e.limit, e.where = t.Limit, where
	e.state, _ = limit.Charge(t.Limit, e.state, now, t.Hits)
}

// Stats returns a snapshot.
func (g *Ledger) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Waiting = len(g.entries)
	return s
}

// Run charges what waits every second until ctx ends, and tells done, which may be nil,
// of each time that nothing is left: for how many keys, and how many hits.
func (g *Ledger) Run(ctx context.Context, done func(keys int, hits uint64)) {
	var keys int
	var hits uint64
	for range sleep.Every(ctx, Every) {
		k, h := g.Charge(ctx)
		keys, hits = keys+k, hits+h
		if keys > 0 && g.Stats().Waiting == 0 {
			if done != nil {
				done(keys, hits)
			}
			keys, hits = 0, 0
		}
	}
}

// Charge charges what waits, as far as the store answers, and returns of how many keys and
// how many hits. ctx bounds the wait.
func (g *Ledger) Charge(ctx context.Context) (keys int, hits uint64) {
	for ctx.Err() == nil {
		k, h := g.chargeSome(ctx)
		if k == 0 {
			break
		}
		keys, hits = keys+k, hits+h
	}
	return keys, hits
}

// chargeSome charges a part of what waits. Where nothing of it could be charged it returns
// 0 keys.
func (g *Ledger) chargeSome(ctx context.Context) (keys int, hits uint64) {
	takes := g.draw(g.decided(ctx))
	if len(takes) == 0 {
		return 0, 0
	}
	results := make([]store.Result, len(takes))
	g.store.Take(ctx, takes, results)
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range takes {
		t := &takes[i]
		switch err := results[i].Err; {
		case err == nil:
			keys++
			hits += uint64(t.Hits)
			g.stats.Charged += uint64(t.Hits)
		case store.MayCount(err):
			g.stats.Uncertain += uint64(t.Hits)
		default:
			g.stats.Passed -= uint64(t.Hits) // add counts them once more
			g.add(t, t.Mode, now)
		}
	}
	return keys, hits
}

// decided returns some of the keys that wait: those about which the store decides. It is
// asked before anything is charged, because a charge that ends in a timeout is lost; and of
// each key, because a part of the store may be away.
func (g *Ledger) decided(ctx context.Context) (keys [][]byte) {
	g.mu.Lock()
	peeks := make([]store.Take, 0, min(len(g.entries), maxBatch))
	for key, e := range g.entries {
		if len(peeks) == maxBatch {
			break
		}
		peeks = append(peeks, store.Take{Key: []byte(key), Limit: e.limit, Mode: e.where})
	}
	g.mu.Unlock()
	if len(peeks) == 0 {
		return nil
	}
	results := make([]store.Result, len(peeks))
	g.store.Take(ctx, peeks, results)
	for i := range peeks {
		if results[i].Err == nil {
			keys = append(keys, peeks[i].Key)
		}
	}
	return keys
}

// draw takes the entries of keys out, as charges of what still weighs of them. What does
// not is forgotten.
func (g *Ledger) draw(keys [][]byte) (takes []store.Take) {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		e := g.entries[string(key)]
		if e == nil { // another call has drawn it
			continue
		}
		delete(g.entries, string(key))
		g.bytes -= len(key) + entryBytes
		if used := weighing(e.limit, e.state, now); used > 0 {
			takes = append(takes, store.Take{Key: key, Limit: e.limit, Hits: used, Op: store.Charge, Mode: e.where})
		}
	}
	return takes
}

// weighing returns how many hits of s still weigh at now. A part of a hit that a bucket
// has not drained yet is none.
func weighing(l *limit.Limit, s limit.State, now limit.Micros) int64 {
	_, left := limit.Decide(l, s, now, 0)
	used := max(left.Limit-left.Remaining, 0)
	if used > 0 && l.Algorithm.IsBucket() {
		if _, again := limit.Charge(l, limit.State{}, now, used); again.ResetAfter > left.ResetAfter {
			used--
		}
	}
	return used
}
