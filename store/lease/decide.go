package lease

import (
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// outcome is what this node makes of one take.
type outcome uint8

const (
	ask       outcome = iota // the store decides
	elsewhere                // Options.Local decides
	served                   // it passes, and is deducted here
	denied                   // it does not
	wait                     // the answer of flight will tell
)

// step is how one take of a call fares.
type step struct {
	outcome outcome
	// b is the bucket of a leased, synced or hot take, in shard sh; nil when
	// there is none.
	b  *bucket
	sh *shard
	// spent is what a served take has deducted: from leases, or from the view.
	spent [2]portion
	view  int64
	// basis is Result.Basis of what is decided here.
	basis  store.Basis
	flight *flight
}

// decide answers t from memory if it can. With final it never waits.
func (s *Store) decide(c *call, t *store.Take, st *step, d *limit.Decision, final bool) {
	*st = step{}
	m := t.Mode
	if m == nil {
		return
	}
	if m.Consistency == store.Local {
		if s.local != nil {
			st.outcome = elsewhere
		}
		return
	}
	if m.Consistency == store.Exact && s.hot == nil || !followed(t.Limit) {
		return
	}
	hash := s.hash(t.Key)
	if m.Consistency == store.Exact && t.Op == store.Hit && !s.isHotNow(c, t, hash) {
		return
	}
	k := leased
	if m.Consistency == store.Synced {
		k = synced
	}
	sh := s.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.draining.Load() {
		return
	}
	if t.Op != store.Hit || t.Hits <= 0 {
		// The store knows better. What it says of a known bucket is kept.
		if st.b = sh.find(hash, t.Key); st.b != nil {
			st.sh = sh
		}
		return
	}
	if !s.worthwhile(t, k) {
		return
	}
	b := s.bucketOf(sh, hash, t, k, c.now)
	if b == nil {
		return
	}
	st.b, st.sh = b, sh
	if k == synced {
		st.outcome = s.decideSynced(sh, t, st, c.now, d, final)
		if st.outcome == served {
			st.view = t.Hits
		}
		return
	}
	s.decideLeased(c, t, st, d, final)
}

// followed says that l counts hits. Slots of concurrency and bans are decided in
// the store, or in Options.Local, whatever the mode: nobody can hold in advance
// what belongs to a request, and there are no hits to lease or to sum up.
func followed(l *limit.Limit) bool {
	return l.Algorithm != limit.Concurrency && l.Algorithm != limit.Ban
}

// worthwhile says that t can be decided here at all: its algorithm allows it, and
// the limit is not so small that no lease on it could ever be granted.
func (s *Store) worthwhile(t *store.Take, k kind) bool {
	l := t.Limit
	if k == synced {
		return l.Algorithm != limit.LeakyQueue
	}
	if !l.Leasable() {
		return false
	}
	capacity := l.Quota
	if l.Algorithm.IsBucket() {
		capacity = l.Burst
	}
	return capacity >= 2*shareFactor*s.liveNodes()
}

// decideLeased answers a hit from what is leased.
func (s *Store) decideLeased(c *call, t *store.Take, st *step, d *limit.Decision, final bool) {
	b, sh, now := st.b, st.sh, c.now
	if !c.again {
		b.demand.Note(t.Hits, now)
	}
	b.usedAt = now
	b.expire(now, &sh.stats)
	if b.left() >= t.Hits {
		st.spent = b.spend(t.Hits, &sh.stats)
		st.outcome, st.basis = served, store.OnAdvance
		sh.stats.Decided++
		b.describe(d, now)
		d.Allowed = true
		if b.renewable(now) && b.low(now) && b.want(now) > 0 {
			s.startRenewal(b, now)
		}
		return
	}
	if now < b.quiet && t.Hits <= b.traits.capacity && !b.limit.CountDenied {
		st.outcome, st.basis = denied, store.OnAdvance
		sh.stats.Decided++
		sh.stats.Paused++
		b.describe(d, now)
		d.Remaining = b.left()
		d.RetryAfter = max(roundUp(b.roomAt(t.Hits)-now), time.Microsecond)
		return
	}
	if final {
		return
	}
	switch {
	case b.flight == nil:
		if !b.renewable(now) || b.want(now) == 0 || b.hopeless(t.Hits, s.liveNodes(), now) {
			return
		}
		s.startRenewal(b, now)
	case now >= b.flight.late:
		return
	}
	b.pending = min(b.pending+t.Hits, limit.MaxQuota/8)
	st.outcome, st.flight = wait, b.flight
}

// keepExact ends the leases of b, which is only leased because it is hot, and asks for
// none for a while: the store cannot tell hits that are refunded from those that are
// leased, so that each refund beside a lease could let as many hits pass again. Where
// refunds are the rule, every hit is decided in the store.
func (s *Store) keepExact(sh *shard, b *bucket, now time.Duration) {
	b.exactTo = now + exactAfterRefund
	b.direct, b.pressed, b.quiet, b.pauses = false, false, 0, 0
	s.release(sh, b, now)
}

func (s *Store) startRenewal(b *bucket, now time.Duration) {
	b.flight = &flight{done: make(chan struct{}), late: now + b.impatience()}
	s.courier.add(&errand{what: renew, b: b, hash: b.hash, flight: b.flight})
}

// describe fills in what a decision says of the bucket: what may pass here at
// once and what the store had left when it was last asked.
func (b *bucket) describe(d *limit.Decision, now time.Duration) {
	*d = limit.Decision{
		Limit:      b.view.limit,
		Remaining:  b.left() + b.view.remaining,
		ResetAfter: roundUp(b.view.resetAt - now),
	}
}

// putBack undoes a served take, and makes d the answer of a peek.
func (s *Store) putBack(st *step, d *limit.Decision, now time.Duration) {
	st.sh.mu.Lock()
	defer st.sh.mu.Unlock()
	b := st.b
	if b.kind == synced {
		if !b.gone {
			b.delta -= st.view
			st.sh.markDirty(b)
		}
		d.Remaining += st.view
		return
	}
	st.sh.stats.Decided--
	b.putBack(st.spent, &st.sh.stats)
	b.describe(d, now)
	d.Allowed = true
}

// learned keeps what the store said of the bucket of st.
func (s *Store) learned(c *call, t *store.Take, st *step, r *store.Result) {
	st.sh.mu.Lock()
	defer st.sh.mu.Unlock()
	b, sh := st.b, st.sh
	sh.stats.Direct++
	if r.Err != nil || r.Skipped || b.gone {
		return
	}
	if t.Op != store.Reset && !sameLimit(b.limit, t.Limit) {
		return // asked before the limit changed
	}
	if t.Op == store.Reset {
		b.forget(&sh.stats)
		return
	}
	if t.Op == store.Refund && t.Hits > 0 && b.auto {
		s.keepExact(sh, b, c.now)
	}
	if b.kind == synced {
		if c.sent >= b.view.at && b.flight == nil {
			b.learn(&r.Decision, c.sent, c.now)
			b.exchange = c.sent + syncInterval(b.mode)
		}
		return
	}
	if c.sent < b.view.at {
		return // asked before what is known by now
	}
	b.learn(&r.Decision, c.sent, c.now)
	nodes := s.liveNodes()
	if r.Remaining == 0 && !r.Allowed && t.Op == store.Hit && t.Hits > 0 && c.now >= b.exactTo {
		b.press(c.now, nodes)
		return
	}
	b.recover(nodes)
}
