package local

import (
	"context"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Recall returns the state in which the shared bucket of t was when this node heard of
// it last, by a clock that now says; false where nothing is known, or nothing that
// still counts. It is called by many goroutines, asks nobody, and does not keep t.
type Recall func(t *store.Take, now limit.Micros) (limit.State, bool)

// Fallback returns a store over the buckets of s for takes that a shared store has
// failed to decide. Before it decides a hit it sees to it that the bucket holds what
// recall, which may be nil, knows of the shared one.
//
// Where there is no room for another bucket, it lets pass who asks for the whole limit:
// that is a rule that rather fails open, and the bucket which newcomers share would
// deny most of them. Those who ask for a share meet that bucket, as in any memstore.
//
// The store needs no Close of its own.
func (s *Store) Fallback(recall Recall) store.Store { return &fallback{s, recall} }

type fallback struct {
	*Store
	recall Recall
}

// Take implements store.Store; see Store.Take.
func (f *fallback) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	f.take(ctx, takes, results, f.recall)
	for i := range takes {
		t, d := &takes[i], &results[i].Decision
		if t.Op == store.Hit && !d.Allowed && !d.Never && isWhole(t) && !f.memory.Holds(t.Key) {
			*d = limit.Decision{Allowed: true, Limit: d.Limit}
		}
	}
}

// raise sees to it that the bucket of t, which is decided by the limit l of one of
// parts, holds what recall knows.
func (s *Store) raise(t *store.Take, l *limit.Limit, parts int, recall Recall) {
	if state, known := recall(t, s.memory.Now()); known {
		s.memory.Raise(t.Key, l, inParts(state, t.Limit, int64(parts)))
	}
}

// inParts returns what one of parts holds of a state of l. Hits are rounded down: what is
// left is so shared to the last hit, and a node that had its even part of them denies
// none of its own. A window of which nothing is left leaves nothing to any part. The time
// in which a bucket drains is the same for each part of it.
func inParts(s limit.State, l *limit.Limit, parts int64) limit.State {
	part := func(n int64) int64 {
		if n >= l.Quota {
			return n
		}
		return n / parts
	}
	switch l.Algorithm {
	case limit.FixedWindow:
		s.B = part(s.B)
	case limit.SlidingWindow:
		s.B, s.C = part(s.B), part(s.C)
	case limit.Ban:
		s.B = part(s.B)
	}
	return s
}
