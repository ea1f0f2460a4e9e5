package lease

import (
	"bytes"
	"context"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/spread"
)

// Where a dry run is decided.
const (
	inShared = iota
	inLocal
	here
)

// takeRuns is Take for batches with dry runs in them.
func (s *Store) takeRuns(ctx context.Context, takes []store.Take, results []store.Result) {
	for from := 0; from < len(takes); {
		to := store.RunEnd(takes, from)
		if takes[from].DryRun {
			s.dryRun(ctx, takes[from:to], results[from:to])
		} else {
			s.Take(ctx, takes[from:to], results[from:to])
		}
		from = to
	}
}

// dryRun decides takes of which all are dry runs. It asks for no lease, and notes
// nothing of what it hears.
func (s *Store) dryRun(ctx context.Context, takes []store.Take, results []store.Result) {
	now := s.read()
	places := make([]int, len(takes))
	for i := range takes {
		places[i] = s.placeOf(takes, i, now)
	}
	ask := func(p spread.Part) {
		switch p.ID {
		case here:
			s.letPass(p.Takes, p.Results, now)
		case inLocal:
			s.local.Take(ctx, p.Takes, p.Results)
		default:
			s.inner.Take(ctx, p.Takes, p.Results)
		}
	}
	spread.Plan{Part: func(i int) int { return places[i] }, Ask: spread.SideBySide(ask)}.Take(takes, results)
}

// placeOf returns where takes[i] is decided: here, if all that takes ask of its bucket
// would pass without a question.
func (s *Store) placeOf(takes []store.Take, i int, now time.Duration) int {
	t := &takes[i]
	m := t.Mode
	switch {
	case m == nil:
		return inShared
	case m.Consistency == store.Local:
		if s.local != nil {
			return inLocal
		}
		return inShared
	case !followed(t.Limit):
		return inShared
	}
	hits := int64(0)
	for j := range takes {
		switch o := &takes[j]; {
		case !bytes.Equal(o.Key, t.Key):
		case o.Op != store.Hit || o.Mode != m || !sameLimit(o.Limit, t.Limit):
			return inShared
		default:
			hits = min(hits+max(o.Hits, 0), limit.MaxQuota)
		}
	}
	hash := s.hash(t.Key)
	sh := s.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := sh.find(hash, t.Key)
	if hits > 0 && b != nil && sameLimit(b.limit, t.Limit) && b.spare(now) >= hits {
		return here
	}
	return inShared
}

// letPass answers takes that all pass, of buckets with so many to spare.
func (s *Store) letPass(takes []store.Take, results []store.Result, now time.Duration) {
	for i := range takes {
		t, d := &takes[i], &results[i].Decision
		used := int64(0)
		for j := range i + 1 {
			if bytes.Equal(takes[j].Key, t.Key) {
				used += max(takes[j].Hits, 0)
			}
		}
		hash := s.hash(t.Key)
		sh := s.shardOf(hash)
		sh.mu.Lock()
		if b := sh.find(hash, t.Key); b != nil {
			b.describe(d, now)
			d.Remaining = b.spare(now)
			if b.kind == leased {
				results[i].Basis = store.OnAdvance
				d.Remaining += b.view.remaining
			}
			d.Remaining = max(d.Remaining-used, 0)
		} else {
			d.Limit = t.Limit.Capacity() // it was given back a moment ago
		}
		d.Allowed = true
		sh.mu.Unlock()
	}
}

// spare returns how many hits on b this node lets pass at now without asking.
func (b *bucket) spare(now time.Duration) int64 {
	if b.kind == leased {
		left := int64(0)
		for i := range b.lots {
			if now < b.lots[i].ends {
				left += b.lots[i].left
			}
		}
		return left
	}
	over := b.traits.refill == 0 && b.view.resetAt > b.view.at && now >= b.view.resetAt
	if over || now < b.view.retryAt || !b.usable(now, syncInterval(b.mode)) {
		return 0
	}
	return max(b.view.remaining-b.delta-b.sent, 0)
}
