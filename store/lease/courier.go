package lease

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// maxFlights bounds the calls of one kind that are in the air at one time,
	// and so the goroutines.
	maxFlights = 4
	// maxBatch bounds the questions of one call.
	maxBatch = 128
	// driftPart is by which part of its length a lease ends sooner here, in case
	// that this clock is slower than that of the store: 500 µs in a second, the
	// most by which clocks are slewed.
	driftPart = 2000
)

// purpose says what an errand is for.
type purpose uint8

const (
	renew      purpose = iota // ask for a lease, give back what is left of the last
	handIn                    // give back a lease
	exchange                  // charge what has passed, and look
	chargeGone                // charge what has passed in a bucket that is gone
)

// flight is a question about a bucket that is under way; done is closed when it
// is answered, and err then says whether it was.
type flight struct {
	done chan struct{}
	err  error
	late time.Duration // from when nobody waits for it any more
	void bool          // the bucket was reset since: what is granted no longer counts
}

// errand is one question for the courier.
type errand struct {
	what purpose
	// b and flight are of renew and exchange.
	b      *bucket
	flight *flight
	// The others carry what they need: their bucket may be gone.
	key  []byte
	hash uint64
	// limit is also that of an exchange, once it is sent.
	limit *limit.Limit
	id    store.LeaseID
	hits  int64
}

// courier asks the store in the background. What falls due while it is on its
// way goes along on the next one, so that many buckets share a call; nothing
// waits when it is at home.
type courier struct {
	s  *Store
	mu sync.Mutex
	// lanes are apart because leases and charges are different calls.
	lanes [2]lane
	// home is closed and replaced when there is nothing left to do.
	home chan struct{}

	leaseCalls, exchangeCalls atomic.Uint64
}

type lane struct {
	waiting []*errand
	flying  int
}

// laneOf says which kind of call an errand needs.
func laneOf(e *errand) int {
	if e.what == renew || e.what == handIn {
		return 0
	}
	return 1
}

// add queues e and reports whether it will be run: what is not about a bucket of
// the table is left undone beyond a bound.
func (c *courier) add(e *errand) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := laneOf(e)
	l := &c.lanes[i]
	if e.b == nil && len(l.waiting) >= c.s.maxBuckets {
		return false
	}
	l.waiting = append(l.waiting, e)
	if l.flying < maxFlights {
		l.flying++
		go c.fly(i)
	}
	return true
}

// fly runs errands until none wait.
func (c *courier) fly(i int) {
	batch := make([]*errand, 0, 8)
	for {
		c.mu.Lock()
		l := &c.lanes[i]
		n := min(len(l.waiting), maxBatch)
		if n == 0 {
			l.waiting = nil
			l.flying--
			c.landed()
			c.mu.Unlock()
			return
		}
		batch = append(batch[:0], l.waiting[:n]...)
		l.waiting = append(l.waiting[:0], l.waiting[n:]...)
		c.mu.Unlock()
		if i == 0 {
			c.lease(batch)
		} else {
			c.charge(batch)
		}
	}
}

// hasten runs the exchange of f now, if it still waits for its turn.
func (c *courier) hasten(f *flight) {
	c.mu.Lock()
	l := &c.lanes[1]
	i := slices.IndexFunc(l.waiting, func(e *errand) bool { return e.flight == f })
	if i < 0 {
		c.mu.Unlock()
		return
	}
	batch := []*errand{l.waiting[i]}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.flying++
	c.mu.Unlock()
	c.charge(batch)
	c.mu.Lock()
	l.flying--
	c.landed()
	c.mu.Unlock()
}

// landed tells those who wait that there is nothing left to do.
func (c *courier) landed() {
	for i := range c.lanes {
		if c.lanes[i].flying > 0 || len(c.lanes[i].waiting) > 0 {
			return
		}
	}
	close(c.home)
	c.home = make(chan struct{})
}

// idle returns a channel that is closed when there is nothing left to do, nil if
// there is nothing now.
func (c *courier) idle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.lanes {
		if c.lanes[i].flying > 0 || len(c.lanes[i].waiting) > 0 {
			return c.home
		}
	}
	return nil
}

// lease makes one call of Lease for batch.
func (c *courier) lease(batch []*errand) {
	s := c.s
	requests := make([]store.LeaseRequest, len(batch))
	grants := make([]store.Grant, len(batch))
	nodes := s.liveNodes()
	epoch := s.epoch.Load()
	sent := s.read()
	for i, e := range batch {
		requests[i] = s.leaseRequest(e, nodes, sent)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.budget)
	s.inner.Lease(ctx, requests, grants)
	cancel()
	c.leaseCalls.Add(1)
	now := s.read()
	for i, e := range batch {
		sh := s.shardOf(e.hash)
		sh.mu.Lock()
		sh.stats.LeaseRequests++
		s.returned(sh, &requests[i], &grants[i])
		if e.what == renew {
			a := answer{request: &requests[i], grant: &grants[i], sent: sent, now: now, nodes: nodes}
			a.stale = s.epoch.Load() != epoch
			s.granted(sh, e, &a)
		}
		sh.mu.Unlock()
	}
}

// leaseRequest writes down what e asks for, as it is now.
func (s *Store) leaseRequest(e *errand, nodes int64, now time.Duration) store.LeaseRequest {
	if e.what == handIn {
		return store.LeaseRequest{Key: e.key, Limit: e.limit, Return: e.id, ReturnHits: e.hits, Share: 1}
	}
	sh := s.shardOf(e.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := e.b
	r := store.LeaseRequest{
		Key: b.key, Limit: b.limit, ID: store.NewLeaseID(),
		Share: b.share(nodes), TTL: b.traits.ttl,
	}
	if !b.gone {
		r.Want = b.want(now)
		b.handOver(&r, now, &sh.stats)
	}
	return r
}

// handOver puts into r the lease of b that ends with it: one on a bucket that is
// about to end by itself, with all that it has left, which would be lost else; or
// one that is used up, so that the store need not remember it until its window
// ends.
func (b *bucket) handOver(r *store.LeaseRequest, now time.Duration, st *Stats) {
	l := &b.lots[0]
	switch {
	case l.left > 0 && !b.onWindow() && b.ending(now):
		r.Return, r.ReturnHits = l.id, l.left
		if l.left > l.granted/2 {
			b.size = max(l.granted/2, firstSize)
		}
		*l = lot{}
	default:
		if l.left == 0 && b.spent.ends <= now {
			b.retire(l)
		}
		r.Return = b.takeSpent(now)
	}
	st.UnderWay += r.ReturnHits
}

// unsent has the end of a used-up lease told again, as q may not have arrived.
func (b *bucket) unsent(q *store.LeaseRequest, now time.Duration) {
	if q.ReturnHits == 0 && q.Return != (store.LeaseID{}) && b.spent.id == (store.LeaseID{}) {
		b.spent = spentLease{q.Return, now + q.TTL}
	}
}

// returned books a return.
func (s *Store) returned(sh *shard, r *store.LeaseRequest, g *store.Grant) {
	sh.stats.UnderWay -= r.ReturnHits
	if g.Err == nil && g.Returned {
		sh.stats.Returned += r.ReturnHits
	} else {
		sh.stats.Expired += r.ReturnHits
	}
}

// answer is what the store said to a request for a lease.
type answer struct {
	request   *store.LeaseRequest
	grant     *store.Grant
	sent, now time.Duration
	nodes     int64
	stale     bool // the clocks have parted since sent
}

// granted books the answer to a request for a lease.
func (s *Store) granted(sh *shard, e *errand, a *answer) {
	b, g := e.b, a.grant
	b.flight, b.pending = nil, 0
	defer close(e.flight.done)
	if g.Err != nil {
		sh.stats.Failures++
		e.flight.err = g.Err
		b.failed(a.now)
		b.unsent(a.request, a.sent)
		return
	}
	b.learn(&g.Decision, a.sent, a.now)
	if g.Hits == 0 {
		b.direct = a.request.Want > 0
		// With more than that left, the store has no room for another lease.
		scarce := g.Decision.Remaining/a.request.Share < 2
		if a.now >= b.exactTo && (g.Decision.Remaining == 0 || b.gathers(a.nodes) && b.direct && scarce) {
			b.press(a.now, a.nodes)
		}
		return
	}
	sh.stats.Granted += g.Hits
	fresh := lot{
		id: a.request.ID, serial: s.serials.Add(1), granted: g.Hits, left: g.Hits,
		ends: a.sent + g.TTL - g.TTL/driftPart,
	}
	switch {
	case a.stale || e.flight.void:
		b.drop(&fresh, &sh.stats)
	case b.gone || s.draining.Load() || a.now < b.exactTo:
		s.giveBack(sh, b, fresh.id, fresh.left)
	default:
		b.hold(fresh, a, &sh.stats)
	}
}

// hold adds a lease to what b has.
func (b *bucket) hold(fresh lot, a *answer, st *Stats) {
	if b.onWindow() {
		b.edge, b.blur = fresh.ends, a.now-a.sent+2*a.grant.TTL/driftPart
	}
	st.Expired += b.lots[1].left
	b.lots[1] = fresh
	if b.lots[0].serial == 0 {
		b.lots[0], b.lots[1] = fresh, lot{}
	}
	b.shift()
	b.recover(a.nodes)
	if fresh.granted < a.request.Want && b.view.remaining < b.traits.gain && b.gathers(a.nodes) {
		b.pressed = true
		b.quiet = a.now + b.traits.pause
	}
}
