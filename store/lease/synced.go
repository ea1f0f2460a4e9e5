package lease

import (
	"context"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// freshIntervals is how many intervals old a view may be while exchanges
	// work: a bucket that was idle for longer is asked about first.
	freshIntervals = 2
	// staleIntervals is how many intervals old a view may be while the store
	// does not answer. Then its error is the answer.
	staleIntervals = 10
)

// decideSynced answers a hit from the last view of the bucket less what has
// passed here since. With final it never waits.
func (s *Store) decideSynced(sh *shard, t *store.Take, st *step, now time.Duration, d *limit.Decision, final bool) outcome {
	b := st.b
	b.usedAt = now
	interval := syncInterval(b.mode)
	b.turn(now, &sh.stats)
	if !b.usable(now, interval) {
		if !final && s.owes(b, interval, now) {
			st.flight = b.flight
			return wait
		}
		return ask
	}
	allowed := b.view.remaining-b.delta-b.sent >= t.Hits && now >= b.view.retryAt
	if allowed {
		b.delta += t.Hits
		sh.markDirty(b)
	}
	if now >= b.exchange && b.flight == nil && now >= b.retryAt {
		s.startExchange(b, interval, now)
	}
	sh.stats.Decided++
	*d = limit.Decision{
		Allowed:    allowed,
		Limit:      b.view.limit,
		Remaining:  max(b.view.remaining-b.delta-b.sent, 0),
		ResetAfter: roundUp(b.view.resetAt - now),
	}
	switch {
	case allowed:
		return served
	case t.Hits > b.traits.capacity:
		d.Never = true
	default:
		// What the store will say at the next exchange is not known.
		d.RetryAfter = max(roundUp(b.view.retryAt-now), roundUp(b.exchange-now), time.Microsecond)
	}
	return denied
}

// owes says that the store must not be asked for a hit on b before the flight of b
// is answered: there is no view of b, because its limit has changed, and what has
// passed here is not charged yet.
func (s *Store) owes(b *bucket, interval, now time.Duration) bool {
	if b.view.at != 0 || b.delta+b.sent <= 0 {
		return false
	}
	if b.flight == nil && now >= b.retryAt {
		s.startExchange(b, interval, now)
	}
	return b.flight != nil
}

// usable says that the view of b is good enough to decide by.
func (b *bucket) usable(now, interval time.Duration) bool {
	if b.view.at == 0 {
		return false
	}
	age := now - b.view.at
	if age <= freshIntervals*interval {
		return true
	}
	return (b.flight != nil || b.backoff > 0) && age <= staleIntervals*interval
}

// turn begins a new window when that of the view is over. What was not charged
// to the old one never will be: in the new one it would be wrong.
func (b *bucket) turn(now time.Duration, st *Stats) {
	if b.traits.refill != 0 || b.view.at == 0 || b.view.resetAt <= b.view.at || now < b.view.resetAt {
		return
	}
	if b.delta > 0 {
		st.Dropped += b.delta
	}
	b.delta, b.sent = 0, 0
	b.view = view{at: b.view.at, limit: b.view.limit, remaining: b.traits.capacity}
	b.exchange = now
}

// startExchange sends what has passed, and asks for a new view.
func (s *Store) startExchange(b *bucket, interval, now time.Duration) {
	b.flight = &flight{done: make(chan struct{}), late: now + b.impatience()}
	b.exchange = now + interval
	s.courier.add(&errand{what: exchange, b: b, hash: b.hash, flight: b.flight})
}

// charge makes one call of Take for a batch of exchanges.
func (c *courier) charge(batch []*errand) {
	s := c.s
	takes := make([]store.Take, len(batch))
	results := make([]store.Result, len(batch))
	sent := s.read()
	for i, e := range batch {
		takes[i] = s.exchangeTake(e, sent)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.budget)
	s.inner.Take(ctx, takes, results)
	cancel()
	c.exchangeCalls.Add(1)
	now := s.read()
	for i, e := range batch {
		if e.what == exchange {
			s.exchanged(e, &results[i], sent, now)
		} else if results[i].Err != nil {
			s.unsettled(e)
		}
	}
}

// exchangeTake is the take that e stands for: a charge of what has passed, a
// refund where more was given back, a peek where nothing has.
func (s *Store) exchangeTake(e *errand, now time.Duration) store.Take {
	hits := e.hits
	t := store.Take{Key: e.key, Limit: e.limit}
	if b := e.b; b != nil {
		sh := s.shardOf(b.hash)
		sh.mu.Lock()
		b.turn(now, &sh.stats)
		t.Key, t.Limit, hits = b.key, b.limit, b.delta
		e.limit = b.limit
		b.sent, b.delta = hits, 0
		sh.mu.Unlock()
	}
	switch {
	case hits > 0:
		t.Op, t.Hits = store.Charge, min(hits, limit.MaxQuota)
	case hits < 0:
		t.Op, t.Hits = store.Refund, min(-hits, limit.MaxQuota)
	}
	return t
}

// unsettled counts what was not charged, as far as one knows, of a bucket that is
// gone.
func (s *Store) unsettled(e *errand) {
	sh := s.shardOf(e.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.stats.Failures++
	sh.stats.Dropped += max(e.hits, 0)
}

// exchanged books the answer to an exchange. Hits whose exchange failed are sent
// again: they may then count twice, but none is forgotten.
func (s *Store) exchanged(e *errand, r *store.Result, sent, now time.Duration) {
	b := e.b
	sh := s.shardOf(b.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	defer close(e.flight.done)
	b.flight = nil
	sh.stats.Exchanges++
	hits := b.sent
	b.sent = 0
	if r.Err != nil {
		sh.stats.Failures++
		e.flight.err = r.Err
		b.failed(now)
		switch {
		case e.flight.void:
			return
		case b.gone:
			sh.stats.Dropped += max(hits, 0)
			return
		}
		b.delta += hits
		sh.markDirty(b)
		return
	}
	// An answer out of a window that is over is worth nothing in the next, nor is
	// one about another limit.
	over := b.traits.refill == 0 && r.ResetAfter > 0 && sent+r.ResetAfter <= now
	if !e.flight.void && !over && sameLimit(e.limit, b.limit) {
		b.learn(&r.Decision, sent, now)
	}
}
