package headgate

import (
	"context"
	"sync"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// Keyed limits every key by the same limit. It is the shortest way to limit
// inside a program, and safe for concurrent use.
type Keyed struct {
	store   store.Store
	limit   *limit.Limit
	failure rules.FailureMode
	pool    sync.Pool // of *scratch
}

// NewKeyed returns a Keyed that counts in s by l. Two Keyed on one store share
// the bucket of equal keys; prefix the keys to keep them apart. When the store
// cannot decide, or panics, keys are allowed; see FailClosed. A limit on concurrency only
// says whether a slot is free here: it takes a Limiter to hold one. It panics where s or l
// is nil.
func NewKeyed(s store.Store, l *limit.Limit) *Keyed {
	switch {
	case s == nil:
		panic("new keyed: the store is nil; hint: memstore.New keeps the buckets in this process")
	case l == nil:
		panic("new keyed: the limit is nil; hint: limit.Must(limit.PerMinute(100))")
	}
	k := &Keyed{store: s, limit: l}
	k.pool.New = func() any { return new(scratch) }
	return k
}

// FailClosed makes k deny when the store cannot decide, and returns k. Call it
// before the first Take.
func (k *Keyed) FailClosed() *Keyed {
	k.failure = rules.Closed
	return k
}

// KeyedDecision is a decision on one key.
type KeyedDecision struct {
	limit.Decision
	// Degraded says why the store did not decide; empty when it did.
	Degraded store.Reason
}

// Take charges hits to key if they fit; 0 hits is a peek. Hits outside of
// [0, limit.MaxQuota] never fit.
func (k *Keyed) Take(ctx context.Context, key string, hits int64) KeyedDecision {
	return k.do(ctx, key, store.Take{Limit: k.limit, Hits: hits})
}

// Refund gives hits back to key.
func (k *Keyed) Refund(ctx context.Context, key string, hits int64) KeyedDecision {
	return k.do(ctx, key, store.Take{Limit: k.limit, Hits: hits, Op: store.Refund})
}

// Reset forgets what key has used.
func (k *Keyed) Reset(ctx context.Context, key string) KeyedDecision {
	return k.do(ctx, key, store.Take{Limit: k.limit, Op: store.Reset})
}

// scratch is the working memory of one Keyed call; the slices that a Store
// takes would otherwise be allocated by every call.
type scratch struct {
	key     []byte
	entries [1]descriptor.Entry
	takes   [1]store.Take
	results [1]store.Result
}

func (k *Keyed) do(ctx context.Context, key string, take store.Take) KeyedDecision {
	if take.Hits < 0 || take.Hits > limit.MaxQuota {
		return KeyedDecision{Decision: limit.Decision{Never: true, Limit: ceiling(k.limit)}}
	}
	s := k.pool.Get().(*scratch)
	defer k.pool.Put(s)
	s.entries[0] = descriptor.Entry{Key: "key", Value: key}
	s.key = rules.AppendOverrideKey(s.key[:0], CallerDomain, s.entries[:], 0)
	take.Key = s.key
	s.takes[0] = take
	s.results[0] = store.Result{}
	k.ask(ctx, s)
	d := KeyedDecision{Decision: s.results[0].Decision, Degraded: store.ReasonOf(s.results[0].Err)}
	answerTo(&d.Decision, take.Op)
	if d.Degraded != store.NoReason {
		d.Decision = failureDecision(k.limit, k.failure, take.Op)
	}
	s.entries[0].Value = ""
	return d
}

// ask asks the store. A panic of it is a bug, and answered as its other failures are.
func (k *Keyed) ask(ctx context.Context, s *scratch) {
	defer func() {
		if cause := recover(); cause != nil {
			s.results[0] = store.Result{Err: panicError("keyed", cause)}
		}
	}()
	k.store.Take(ctx, s.takes[:], s.results[:])
}
