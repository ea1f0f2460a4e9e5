package regional

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/store"
)

const (
	// maxFlights bounds the questions to the home at one time, and so the goroutines.
	maxFlights = 4
	// maxBatch bounds the buckets of one question.
	maxBatch = 128
)

// errand is one question for the courier: about a bucket, or, without one, what is given back.
type errand struct {
	b    *bucket
	hash uint64
	rule string // of what is given back
	give store.LeaseRequest
}

// courier asks the home in the background; nothing that it does is waited for, but by Drain.
// Many buckets share a question.
type courier struct {
	s        *Store
	draining atomic.Bool
	trips    store.Durations // of questions for leases

	mu      sync.Mutex
	known   Home
	waiting []errand
	// unmarked is why the home did not tell its epoch when it was asked last, unlent why it lent
	// nothing; nil if it did.
	unmarked, unlent error
	flying           int
	// home is closed and replaced when there is nothing left to do.
	home chan struct{}
}

// ask queues b, whose shard is locked, if it is due and the home can be asked.
func (c *courier) ask(b *bucket, now time.Duration) {
	if b.queued || b.gone || !b.Due(now) || c.draining.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known.Answers(now) || c.known.Known() && !c.known.Lends(b.cut.Fence, now) && !c.known.Stale(now) {
		return
	}
	b.queued = true
	c.add(errand{b: b, hash: b.hash})
}

// give queues what is given back, and reports whether there was room.
func (c *courier) give(e errand) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= DefaultMaxBuckets {
		return false
	}
	c.add(e)
	return true
}

// add queues e. The lock is held.
func (c *courier) add(e errand) {
	c.waiting = append(c.waiting, e)
	if c.flying < maxFlights {
		c.flying++
		go c.fly()
	}
}

// idle returns a channel that is closed when there is nothing left to do, nil if there is
// nothing now.
func (c *courier) idle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying == 0 && len(c.waiting) == 0 {
		return nil
	}
	return c.home
}

// fly runs errands until none wait.
func (c *courier) fly() {
	for {
		c.mu.Lock()
		n := min(len(c.waiting), maxBatch)
		if n == 0 {
			c.flying--
			if c.flying == 0 {
				close(c.home)
				c.home = make(chan struct{})
			}
			c.mu.Unlock()
			return
		}
		batch := append([]errand(nil), c.waiting[:n]...)
		c.waiting = append(c.waiting[:0], c.waiting[n:]...)
		clear(c.waiting[len(c.waiting):cap(c.waiting)])
		before := c.known.Epoch()
		c.mu.Unlock()
		c.run(batch, before)
	}
}

// run asks for batch: the epoch if it is not known, the leases, and the epoch again.
// before is the epoch that is known, 0 if none is.
func (c *courier) run(batch []errand, before uint64) {
	if before == 0 {
		if before = c.mark(); before == 0 {
			c.fail(batch)
			return
		}
	}
	batch, requests := c.requests(batch)
	if len(requests) == 0 {
		if c.stale() {
			c.mark()
		}
		return
	}
	grants := make([]store.Grant, len(requests))
	sent := c.s.read()
	ctx, cancel := context.WithTimeout(context.Background(), c.s.budget)
	c.s.home.Lease(ctx, requests, grants)
	cancel()
	c.trips.Note(c.s.read() - sent)
	c.lent(grants)
	sure := c.mark() == before
	now := c.s.read()
	for i := range batch {
		c.end(&batch[i], &Answer{Request: requests[i], Grant: grants[i], Sure: sure, Sent: sent, Now: now})
	}
}

// lent notes whether the home has answered any of the questions for leases that it was asked
// together, of which there is one at least.
func (c *courier) lent(grants []store.Grant) {
	err := grants[0].Err
	for i := range grants {
		if grants[i].Err == nil {
			err = nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlent = err
}

// refusal returns why the home did not answer what it was asked last, and what may help. The lock
// is held.
func (c *courier) refusal() (reason store.Reason, hint string) {
	err := c.unmarked
	if err == nil {
		err = c.unlent
	}
	if known, ok := errors.AsType[*store.Error](err); ok {
		hint = known.Hint
	}
	return store.ReasonOf(err), hint
}

// mark asks the home for its epoch, and returns it; 0 where there is no answer.
func (c *courier) mark() uint64 {
	sent := c.s.read()
	ctx, cancel := context.WithTimeout(context.Background(), c.s.budget)
	defer cancel()
	epoch, err := c.s.home.Epoch(ctx)
	now := c.s.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unmarked = err
	if err != nil {
		c.known.Failed(now)
		return 0
	}
	c.known.Heard(epoch, sent, now)
	return epoch.ID
}

// requests writes down what the errands of batch ask for by now, and returns those that
// still ask for something beside it.
func (c *courier) requests(batch []errand) (kept []errand, requests []store.LeaseRequest) {
	s, now, nodes := c.s, c.s.read(), c.s.liveNodes()
	kept, requests = batch[:0], make([]store.LeaseRequest, 0, len(batch))
	for _, e := range batch {
		q, ok := e.give, e.b == nil
		if !ok {
			sh := s.shardOf(e.hash)
			sh.mu.Lock()
			if c.lends(e.b, now) && !e.b.gone && !c.draining.Load() {
				q, ok = e.b.Ask(nodes, now)
				q.Key, q.ID = e.b.key, store.NewLeaseID()
				e.b.row.UnderWay += q.ReturnHits
			}
			e.b.queued = ok
			sh.mu.Unlock()
		}
		if ok {
			kept, requests = append(kept, e), append(requests, q)
		}
	}
	return kept, requests
}

// stale reports whether the epoch of the home is worth asking for again.
func (c *courier) stale() bool {
	now := c.s.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.Stale(now)
}

// failing reports whether the home does not answer.
func (c *courier) failing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.Failing()
}

// mayLend reports whether the home answers, and lends limits of that fence as far as is known.
func (c *courier) mayLend(fence time.Duration) bool {
	now := c.s.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.known.Failing() && (!c.known.Known() || c.known.Lends(fence, now))
}

// lends reports whether hits of b may be leased in the epoch of the home.
func (c *courier) lends(b *bucket, now time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.Lends(b.cut.Fence, now)
}

// end books the answer to e.
func (c *courier) end(e *errand, a *Answer) {
	sh := c.s.shardOf(e.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b, r := e.b, sh.rowOfErrand(e)
	r.Asked++
	r.returned(a)
	if b == nil {
		return
	}
	fresh := int64(0)
	switch {
	case a.Grant.Err != nil:
		r.Failed++
	case !a.Sure || b.voided:
		r.Unsure += a.Grant.Hits
		a.Sure = false
	default:
		fresh = a.Grant.Hits
	}
	b.Answer(a)
	b.queued, b.voided = false, false
	r.Granted += fresh
	if b.gone || c.draining.Load() {
		c.s.handBack(b, a.Now)
	}
}

// fail ends batch because nobody answers: what was to be given back is lost.
func (c *courier) fail(batch []errand) {
	for i := range batch {
		e := &batch[i]
		sh := c.s.shardOf(e.hash)
		sh.mu.Lock()
		if e.b != nil {
			e.b.queued = false
		}
		sh.rowOfErrand(e).returned(&Answer{Request: e.give})
		sh.mu.Unlock()
	}
}
