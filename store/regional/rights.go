package regional

import (
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/demand"
)

const (
	// shareFactor: one lease takes at most 1/(shareFactor nodes) of what remains at home.
	shareFactor = 2
	// firstSize is the most hits of a first lease, unless more are asked for at once.
	firstSize = 10
	// leastLease is the least that a home lends.
	leastLease = 2
	// horizon is for how long a lease should last by the demand, if round trips are short, and
	// horizonTrips how many of them it should last otherwise. So when a region is cut off or
	// idle, not much is in its hands.
	horizon      = 2 * time.Second
	horizonTrips = 10
	// bucketTerm is how long a lease on a bucket that drains lasts unless its Mode says more:
	// what is not used by then has been kept from others.
	bucketTerm = 5 * time.Second
	// maxTerm is how long any lease lasts at most, however long its window is: the home remembers
	// store.MaxLeases of a bucket, and grants no more while those last whose holders have died, or
	// have never heard of them.
	maxTerm = time.Minute
	// renewAhead is how long before its end, beside what a question takes, a lease that ends before
	// its window does is replaced; giveUpAhead is how long before its end what is left of it goes back.
	renewAhead, giveUpAhead = 2 * idleAfter, 2 * sweepEvery
	// idleAfter is how long after its last use a bucket gives back what it holds, if it is asked
	// for often. One that is not keeps it for gapFactor times the time between its uses, because it
	// would have nothing at the next one; and one whose last hits were denied for deniedKeep,
	// because they may be asked for again at the time that the denial has named. maxKeep bounds both.
	idleAfter  = time.Second
	gapFactor  = 2
	deniedKeep = 5 * time.Second
	maxKeep    = 30 * time.Second
	// pausePart is the part of its period for which an empty home is not asked, within the
	// bounds that follow.
	pausePart          = 100
	minPause, maxPause = 200 * time.Millisecond, 5 * time.Second
	// driftPart is by which part of its length a lease ends sooner here, in case that this
	// clock is slower than that of the home: 500 µs in a second, the most by which clocks are
	// slewed.
	driftPart = 2000
)

// lot is what is left of one lease. The zero value is none.
type lot struct {
	id            store.LeaseID
	granted, left int64
	ends          time.Duration
	// renew says that its window goes on when it ends.
	renew bool
}

// Rights is what one node holds of the home's part of one limit, and what it knows of it. It
// asks nobody and reads no clock: instants are of a monotonic clock of the node, because any
// one before the first. Make one with NewRights.
//
// Its invariant: hits pass only from a lot, a lot has at most what was granted, and none
// passes once the lot has ended.
type Rights struct {
	limit *limit.Limit
	// term is how long a lease is asked for.
	term time.Duration
	// lots are held, the one to be used first in front.
	lots [2]lot
	// spent is a lease that is used up, of which the home has not been told.
	spent lot
	// asking says that a question is under way.
	asking    bool
	demand    demand.Demand
	size      int64 // how many hits the next lease should have, if they are expected
	noted     int64 // takes, ever
	starved   int64 // hits of the largest take that was denied since the last question
	view      view
	tripTime  time.Duration // about how long a question takes
	quiet     time.Duration // nothing is asked before
	usedAt    time.Duration
	gap       time.Duration // about how long it was not used, of late
	largest   int64         // about the most hits of one take, of late
	denied    bool          // the last hits that were asked for
	dry       bool          // the reserve has denied hits
	exhausted bool          // the home had nothing left when it was asked last
	lost      int64         // hits that nobody could use any more
}

// view is what the home last said. at 0 is never.
type view struct {
	at                 time.Duration
	remaining          int64
	resetAt, retryFrom time.Duration
}

// NewRights returns what a node holds before it has asked for anything: nothing. home is the
// home's part of the limit, and longest bounds a lease on a bucket that drains; 0 is
// the default of five seconds.
func NewRights(home *limit.Limit, longest, now time.Duration) *Rights {
	return &Rights{limit: home, term: termOf(home, longest), size: firstSize, usedAt: now}
}

// Held is how many hits may pass at now.
func (r *Rights) Held(now time.Duration) int64 {
	r.expire(now)
	return r.lots[0].left + r.lots[1].left
}

// expire drops the lots that have ended, and moves the others up.
func (r *Rights) expire(now time.Duration) {
	for i := range r.lots {
		if l := &r.lots[i]; l.granted > 0 && now >= l.ends {
			if l.left > l.granted/2 {
				r.size = max(l.granted/2, firstSize)
			}
			r.lost += l.left
			*l = lot{}
		}
	}
	if r.lots[0].left == 0 {
		if r.lots[0].granted > 0 {
			r.spent = r.lots[0]
		}
		r.lots[0], r.lots[1] = r.lots[1], lot{}
	}
}

// Note tells of hits that are asked for at now, whether they pass or not.
func (r *Rights) Note(hits int64, now time.Duration) {
	r.demand.Note(hits, now)
	if r.noted > 0 {
		r.gap = max(now-r.usedAt, r.gap-r.gap/4)
	}
	r.largest = max(hits, r.largest-r.largest/4)
	r.noted++
	r.usedAt, r.denied = now, false
}

// Starve tells that the hits of the last Note were denied, by the reserve too.
func (r *Rights) Starve(hits int64) {
	r.starved = max(r.starved, hits)
	r.denied, r.dry = true, true
}

// Spent is of which leases hits have passed.
type Spent [2]struct {
	lease store.LeaseID
	hits  int64
}

// Spend lets hits pass at now and reports true if so many are held, else it changes nothing.
func (r *Rights) Spend(hits int64, now time.Duration) (spent Spent, ok bool) {
	if r.Held(now) < hits {
		return Spent{}, false
	}
	for i := range r.lots {
		l := &r.lots[i]
		n := min(hits, l.left)
		l.left -= n
		hits -= n
		spent[i].lease, spent[i].hits = l.id, n
		if n > 0 && l.left == 0 {
			r.size = max(r.size, min(2*l.granted, limit.MaxQuota))
		}
	}
	r.expire(now)
	return spent, true
}

// PutBack undoes a Spend of hits that did not pass after all, and returns how many it could
// put back. What belongs to a lease that is used up or has ended is lost: another one may be of
// another window.
func (r *Rights) PutBack(spent Spent, now time.Duration) (taken int64) {
	r.expire(now)
	for _, s := range spent {
		for i := range r.lots {
			if l := &r.lots[i]; s.hits > 0 && l.granted > 0 && l.id == s.lease {
				l.left += s.hits
				taken += s.hits
			}
		}
	}
	return taken
}

// GiveBack takes up to hits back that have passed by lots that are still held, and returns
// how many. So no lot ever lets pass more than it was granted, but for those given back.
func (r *Rights) GiveBack(hits int64, now time.Duration) (taken int64) {
	r.expire(now)
	for i := range r.lots {
		l := &r.lots[i]
		n := min(hits-taken, l.granted-l.left)
		l.left += n
		taken += n
	}
	return taken
}

// Charge counts hits that have passed already, as far as so many are held, and returns how
// many it has counted.
func (r *Rights) Charge(hits int64, now time.Duration) (charged int64) {
	charged = min(hits, r.Held(now))
	r.Spend(charged, now)
	return charged
}

// Ask returns what to ask the home for at now, if anything; the caller asks and calls Answer
// in any case. nodes is how many nodes lease from the home.
func (r *Rights) Ask(nodes int64, now time.Duration) (q store.LeaseRequest, ok bool) {
	r.expire(now)
	q = store.LeaseRequest{Limit: r.limit, Share: 1, TTL: r.term}
	switch {
	case r.asking:
		return q, false
	case r.Idle(now):
		ok = r.handBack(&q, now)
	case now < r.quiet:
	case r.wants(now):
		q.Want, q.Share = r.want(now), r.share(nodes, now)
		r.tellSpent(&q, now)
		ok = true
	}
	if ok {
		r.asking, r.starved = true, 0
	}
	return q, ok
}

// Due reports whether Ask would return something, but for what is under way.
func (r *Rights) Due(now time.Duration) bool {
	return !r.asking && now >= r.quiet && r.wants(now)
}

// Idle reports whether nobody has asked for hits for so long that what is held should go back.
func (r *Rights) Idle(now time.Duration) bool { return now-r.usedAt >= r.keep() }

// keep is for how long after its last use what is held is kept.
func (r *Rights) keep() time.Duration {
	keep := max(idleAfter, gapFactor*r.gap)
	if r.denied {
		keep = max(keep, deniedKeep)
	}
	return min(keep, maxKeep)
}

// Ending reports whether a lease is about to end before its window does, so that what is left of it
// should go back: in the window nobody could use it afterwards.
func (r *Rights) Ending(now time.Duration) bool {
	r.expire(now)
	l := &r.lots[0]
	return l.renew && l.ends-now <= r.lead()+giveUpAhead
}

// HandBack ends one lease whatever it has left, and returns the question that tells the home
// so; false where none is held. Nobody need answer it.
func (r *Rights) HandBack(now time.Duration) (q store.LeaseRequest, ok bool) {
	r.expire(now)
	q = store.LeaseRequest{Limit: r.limit, Share: 1, TTL: r.term}
	return q, r.handBack(&q, now)
}

func (r *Rights) handBack(q *store.LeaseRequest, now time.Duration) bool {
	l := &r.lots[0]
	if l.granted == 0 {
		r.tellSpent(q, now)
		return q.Return != (store.LeaseID{})
	}
	q.Return, q.ReturnHits = l.id, l.left
	r.lots[0], r.lots[1] = r.lots[1], lot{}
	return true
}

// tellSpent has the home forget a lease that is used up.
func (r *Rights) tellSpent(q *store.LeaseRequest, now time.Duration) {
	if r.spent.granted > 0 && r.spent.ends > now {
		q.Return = r.spent.id
	}
	r.spent = lot{}
}

// lead is how long before it is needed a lease should be asked for.
func (r *Rights) lead() time.Duration { return 2*r.tripTime + 10*time.Millisecond }

// wants says that what is held will not last until an answer could be here.
func (r *Rights) wants(now time.Duration) bool {
	l := &r.lots[0]
	switch {
	case r.lots[1].granted > 0:
		return false
	case r.starved > 0:
		return true
	case l.granted == 0:
		// What is asked for now and then has the reserve, while that has something, and need not
		// go around the world.
		return r.dry || r.noted > 1 && r.demand.HitsIn(horizon, now, limit.MaxQuota/8) > leastLease
	case l.renew && l.ends-now <= r.lead()+renewAhead:
		return true
	case !r.limit.Algorithm.IsBucket() && l.ends-now <= r.lead():
		return false // what follows belongs to the next window
	case l.ends-now <= r.lead():
		return true
	}
	return l.left <= r.demand.HitsIn(r.lead(), now, l.granted/2+1)
}

// want is how many hits to ask for.
func (r *Rights) want(now time.Duration) int64 {
	span := min(max(horizon, horizonTrips*r.tripTime), r.term)
	expected := r.demand.HitsIn(span, now, limit.MaxQuota/8)
	return max(min(r.size, expected+expected/4), r.lacking(now), leastLease)
}

// remains is what the home has left to lend at now, as far as is known.
func (r *Rights) remains(now time.Duration) int64 {
	if r.view.at == 0 || now >= r.view.resetAt {
		return r.limit.Capacity()
	}
	return r.view.remaining
}

// lacking is how many hits of one take were or would be denied that the home could lend; 0 where it
// has not so many, because a part of them would be of no use here and missing elsewhere.
func (r *Rights) lacking(now time.Duration) int64 {
	hits := r.starved
	if r.dry {
		hits = max(hits, r.largest)
	}
	if hits > r.remains(now)+r.Held(now) {
		return 0
	}
	return hits
}

// share is by how much the home divides what remains: near the end, so that something is lent,
// and for hits that were denied, so that they are lent at once.
func (r *Rights) share(nodes int64, now time.Duration) int64 {
	share, least, remaining := shareFactor*max(nodes, 1), max(r.lacking(now), leastLease), r.remains(now)
	if remaining/share >= least {
		return share
	}
	return max(remaining/least, 1)
}

// Answer is what became of a question of a node.
type Answer struct {
	// Request is the question, Grant what the home said. A Grant with an Err, or one that the
	// node cannot be sure of, counts as lost.
	Request store.LeaseRequest
	Grant   store.Grant
	// Sure says that the home was in one epoch from before the question until after the answer.
	Sure bool
	// Sent is an instant before the question left, Now the present one.
	Sent, Now time.Duration
}

// Answer books what became of the question that Ask has returned.
func (r *Rights) Answer(a *Answer) {
	r.asking = false
	g := &a.Grant
	if g.Err != nil || !a.Sure {
		return
	}
	r.took(a.Now - a.Sent)
	r.view = view{at: a.Sent, remaining: g.Decision.Remaining, resetAt: a.Sent + g.Decision.ResetAfter}
	r.exhausted = g.Decision.Remaining < leastLease
	if r.exhausted {
		r.view.retryFrom = a.Sent + g.Decision.RetryAfter
	}
	if a.Request.Want == 0 {
		return
	}
	if g.Hits == 0 {
		if r.exhausted {
			r.quiet = a.Now + r.pause(g.Decision.RetryAfter)
		}
		return
	}
	r.expire(a.Now)
	fresh := lot{id: a.Request.ID, granted: g.Hits, left: g.Hits, ends: a.Sent + g.TTL - g.TTL/driftPart}
	fresh.renew = g.TTL == maxTerm && !r.limit.Algorithm.IsBucket()
	if r.lots[0].granted == 0 {
		r.lots[0] = fresh
	} else {
		r.lots[1] = fresh
	}
}

// pause is for how long an empty home is not asked: until it says that it has something, but
// not so long that what others give back lies there unused.
func (r *Rights) pause(retryAfter time.Duration) time.Duration {
	period := longestWindow(r.limit)
	if r.limit.Algorithm.IsBucket() {
		period = drainTime(r.limit)
	}
	return min(max(retryAfter, minPause), min(max(period/pausePart, minPause), maxPause))
}

func (r *Rights) took(trip time.Duration) {
	if r.tripTime == 0 {
		r.tripTime = trip
		return
	}
	r.tripTime += (trip - r.tripTime) / 4
}

// Drop forgets all that is held: nobody knows how old it is.
func (r *Rights) Drop() {
	for i := range r.lots {
		r.lost += r.lots[i].left
		r.lots[i] = lot{}
	}
	r.view, r.spent = view{}, lot{}
}

// UsedUp reports whether the home has said that it has nothing to lend at now.
func (r *Rights) UsedUp(now time.Duration) bool { return r.exhausted && now < r.view.retryFrom }

// Known is what a node can say of the home's part without asking.
type Known struct {
	// Remaining is what is held, and what the home had left when it was last asked.
	Remaining int64
	// RetryAfter is when hits that are denied now may be here, 0 where nobody knows;
	// ResetAfter as the home said it.
	RetryAfter, ResetAfter time.Duration
}

// Known returns what is known at now.
func (r *Rights) Known(now time.Duration) Known {
	k := Known{Remaining: r.Held(now)}
	if r.view.at == 0 {
		return k
	}
	k.Remaining += r.view.remaining
	k.ResetAfter = max(r.view.resetAt-now, 0)
	k.RetryAfter = max(r.lead(), r.quiet-now)
	if r.exhausted {
		k.RetryAfter = max(k.RetryAfter, r.view.retryFrom-now)
	}
	return k
}
