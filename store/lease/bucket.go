package lease

import (
	"math"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/demand"
)

const (
	// firstSize is the most hits of the first lease on a bucket.
	firstSize = 10
	// minBucketLease is the least lease on a bucket that drains: of smaller ones
	// too much would be lost when they end, a second after they began.
	minBucketLease = 8
	// minImpatience bounds impatience from below.
	minImpatience = 10 * time.Millisecond
	// minLead is how long before it is needed a lease is asked for at least; the
	// round trips of the past count on top.
	minLead = 2 * time.Millisecond
	// exactAfterRefund is for how long a bucket that is leased because it is hot is not,
	// when hits of it were refunded.
	exactAfterRefund = time.Minute
	// minBackoff and maxBackoff bound how long a bucket leaves a store alone
	// that has failed it.
	minBackoff, maxBackoff = 50 * time.Millisecond, time.Second
)

type kind uint8

const (
	leased kind = iota
	synced
)

// lot is what is left of one lease. The zero value is none.
type lot struct {
	id            store.LeaseID
	serial        uint64 // never reused, unlike what the slot holds
	granted, left int64
	ends          time.Duration
}

// spentLease is a lease that is used up. The zero value is none.
type spentLease struct {
	id   store.LeaseID
	ends time.Duration
}

// view is what the store last said of a bucket, in the time of this node.
type view struct {
	at        time.Duration // before the question was sent; 0 is never
	limit     int64
	remaining int64
	resetAt   time.Duration
	retryAt   time.Duration // 0 unless it was a denial
}

// bucket is what this node knows of one bucket, and holds of it. All fields
// belong to the lock of the shard that it is in.
type bucket struct {
	key    []byte
	hash   uint64
	kind   kind
	auto   bool // leased because it is hot
	gone   bool // no longer in the table
	limit  *limit.Limit
	mode   *store.Mode
	traits traits
	view   view
	usedAt time.Duration
	demand demand.Demand
	// flight is the question under way, nil when there is none.
	flight *flight
	// roundTrip is about the time that a question takes.
	roundTrip time.Duration
	backoff   time.Duration
	retryAt   time.Duration // no question in the background before
	exactTo   time.Duration // no lease before: hits were refunded

	// Of leased buckets.
	lots [2]lot
	// spent is used up, and the store does not know yet that it may forget it.
	// The next question that is asked anyway will say so.
	spent   spentLease
	size    int64 // how many hits a lease should have
	pending int64 // hits that wait for the flight
	// direct says that what is left is too little to be leased.
	direct bool
	// pressed says that the bucket was found empty and has not recovered, quiet
	// until when nothing is asked of it, pauses how often in a row it was empty.
	pressed bool
	quiet   time.Duration
	pauses  uint
	// edge is where a lease on the window ended or will, blur how much later it
	// may be in the store.
	edge, blur time.Duration

	// Of synced buckets.
	delta    int64 // hits that passed and are not sent yet; below 0: given back
	sent     int64 // hits in the exchange that is under way
	exchange time.Duration
	listed   bool // among the shard's dirty
}

// left is how many hits may pass at now.
func (b *bucket) left() int64 { return b.lots[0].left + b.lots[1].left }

// expire drops the leases that have ended at now, and learns from them.
func (b *bucket) expire(now time.Duration, st *Stats) {
	if b.lots[0].serial != 0 && now >= b.lots[0].ends {
		b.drop(&b.lots[0], st)
	}
	if b.lots[1].serial != 0 && now >= b.lots[1].ends {
		b.drop(&b.lots[1], st)
	}
	b.shift()
}

// shift moves the newer lease up when the older is used up.
func (b *bucket) shift() {
	if b.lots[0].left == 0 && b.lots[1].serial != 0 {
		b.retire(&b.lots[0])
		b.lots[0], b.lots[1] = b.lots[1], lot{}
	}
}

// retire notes that a lease is used up. There is one at a time as a rule: between
// two questions, each of which takes one along, one lease is used up.
func (b *bucket) retire(l *lot) {
	if l.serial != 0 {
		b.spent = spentLease{l.id, l.ends}
	}
	*l = lot{}
}

// takeSpent returns the lease that is used up, if it still lasts at now.
func (b *bucket) takeSpent(now time.Duration) (id store.LeaseID) {
	if b.spent.ends > now {
		id = b.spent.id
	}
	b.spent = spentLease{}
	return id
}

// drop forgets a lease that has ended.
func (b *bucket) drop(l *lot, st *Stats) {
	if l.left >= l.granted/2 {
		b.size = max(l.granted/2, firstSize)
	}
	st.Expired += l.left
	*l = lot{}
}

// spend lets hits pass, of the older lease first; left() must be enough. It says
// what was taken of which.
func (b *bucket) spend(hits int64, st *Stats) (spent [2]portion) {
	for i := range b.lots {
		l := &b.lots[i]
		n := min(hits, l.left)
		if n == 0 {
			continue
		}
		l.left -= n
		hits -= n
		spent[i] = portion{l.serial, n}
		st.Used += n
		if l.left == 0 {
			b.size = max(b.size, min(2*l.granted, limit.MaxQuota))
		}
	}
	b.shift()
	return spent
}

// portion is a part of a lease.
type portion struct {
	serial uint64
	hits   int64
}

// putBack undoes a spend. What belongs to a lease that is gone has expired.
func (b *bucket) putBack(spent [2]portion, st *Stats) {
	for _, p := range spent {
		if p.hits == 0 {
			continue
		}
		st.Used -= p.hits
		l := b.lotOf(p.serial)
		if l == nil {
			st.Expired += p.hits
			continue
		}
		l.left += p.hits
	}
}

func (b *bucket) lotOf(serial uint64) *lot {
	for i := range b.lots {
		if b.lots[i].serial == serial {
			return &b.lots[i]
		}
	}
	return nil
}

// learn keeps what the store said to a question sent at sent and answered at
// now.
func (b *bucket) learn(d *limit.Decision, sent, now time.Duration) {
	b.view = view{at: sent, limit: d.Limit, remaining: d.Remaining, resetAt: sent + d.ResetAfter}
	if !d.Allowed && d.Remaining == 0 {
		b.view.retryAt = now + d.RetryAfter
	}
	b.tookRoundTrip(now - sent)
	b.backoff, b.retryAt = 0, 0
}

func (b *bucket) tookRoundTrip(took time.Duration) {
	if b.roundTrip == 0 {
		b.roundTrip = took
		return
	}
	b.roundTrip += (took - b.roundTrip) / 4
}

// failed notes that a question in the background was not answered.
func (b *bucket) failed(now time.Duration) {
	b.backoff = min(max(2*b.backoff, minBackoff), maxBackoff)
	b.retryAt = now + b.backoff
}

// lead is how long before it is needed a lease should be asked for.
func (b *bucket) lead() time.Duration { return minLead + 2*b.roundTrip }

// roomAt is when hits that are denied now may pass: not before the store is asked
// again, and not before it can have as many, by what it said last. Of windows that
// give back a part at once the latter is not known.
func (b *bucket) roomAt(hits int64) time.Duration {
	at := max(b.quiet, b.view.retryAt)
	lacking, since := hits-b.left()-b.view.remaining, b.view.at
	if b.view.retryAt != 0 {
		lacking, since = hits-b.left()-1, b.view.retryAt // when there is one
	}
	if lacking <= 0 || b.traits.refill == 0 || b.limit.Algorithm == limit.SubWindows {
		return at
	}
	return max(at, since+time.Duration(float64(b.traits.refill)*(float64(lacking)/float64(b.traits.capacity))))
}

// gathers says that what comes back in a pause is worth a lease for each of nodes.
func (b *bucket) gathers(nodes int64) bool { return b.traits.gain >= 2*nodes }

// press notes that the store has nothing left, or too little to lease.
func (b *bucket) press(now time.Duration, nodes int64) {
	pause := b.traits.pause
	if b.gathers(nodes) {
		b.pressed, b.direct = true, false
		b.quiet = now + pause
		return
	}
	if b.traits.refill == 0 {
		// Nothing comes back before the window ends, except what others return.
		pause <<= min(b.pauses, 3)
		b.pauses++
		if b.auto {
			pause = min(pause, b.traits.longest)
		}
	}
	b.quiet = now + min(pause, max(b.view.retryAt-now, 0))
}

// recover ends the pressure when the bucket has more than the pauses gather.
func (b *bucket) recover(nodes int64) {
	if b.view.remaining > 0 {
		b.pauses = 0
	}
	if b.view.remaining >= 2*shareFactor*nodes {
		b.direct = false
	}
	if b.view.remaining > 4*b.traits.gain {
		b.pressed = false
	}
}

// share is by how many the remaining hits are divided for one lease.
func (b *bucket) share(nodes int64) int64 {
	if b.pressed {
		return nodes
	}
	return shareFactor * nodes
}

// horizon is for how long a lease that starts at now can be used.
func (b *bucket) horizon(now time.Duration) time.Duration {
	h := min(b.traits.ttl, maxHorizon)
	if b.edge != 0 && b.traits.width > 0 {
		h = min(h, b.traits.width-b.sinceEdge(now))
	}
	return h
}

// sinceEdge is the time since the last edge between two windows.
func (b *bucket) sinceEdge(now time.Duration) time.Duration {
	since := (now - b.edge) % b.traits.width
	if since < 0 {
		since += b.traits.width
	}
	return since
}

// atEdge says that the store may still be in the window that is over here: a
// lease could last for next to nothing.
func (b *bucket) atEdge(now time.Duration) bool {
	if b.edge == 0 || now < b.edge {
		return false
	}
	if b.traits.width == 0 {
		return now <= b.edge+b.blur
	}
	return b.sinceEdge(now) <= b.blur
}

// onWindow says that leases end with a window.
func (b *bucket) onWindow() bool { return !b.limit.Algorithm.IsBucket() }

// want is how many hits to ask for at now, 0 when a lease is not worth it. Leases
// on windows can be used for long, and get some more than expected; those on
// buckets a standard deviation of random arrivals less.
func (b *bucket) want(now time.Duration) int64 {
	expected, least := b.demand.HitsIn(b.horizon(now), now, limit.MaxQuota/8), int64(2)
	if b.onWindow() {
		expected += expected / 4
	} else {
		expected -= int64(math.Sqrt(float64(expected)))
		least = minBucketLease
	}
	want := max(min(b.size, expected), b.pending)
	if want < least {
		return 0
	}
	return want
}

// ending says that the older lease on a bucket that drains is so close to its end
// that what it has left should be given back: hardly a hit will come in time.
func (b *bucket) ending(now time.Duration) bool {
	next := time.Duration(2 / max(b.demand.PerSecond(now), 1) * float64(time.Second))
	return b.lots[0].ends-now <= b.lead()+min(next, b.traits.ttl/8)
}

// impatience is how long a take waits for a lease before it goes to the store
// itself: the answer may never come.
func (b *bucket) impatience() time.Duration { return max(minImpatience, 4*b.roundTrip) }

// renewable says that a lease may be asked for at now.
func (b *bucket) renewable(now time.Duration) bool {
	return b.flight == nil && b.lots[1].left == 0 && !b.direct && now >= b.retryAt && now >= b.quiet && now >= b.exactTo &&
		b.view.at != 0 && b.traits.leasable && !b.gone && !b.atEdge(now)
}

// hopeless says that a lease would be too small for hits, going by what the store
// said a moment ago.
func (b *bucket) hopeless(hits, nodes int64, now time.Duration) bool {
	return now-b.view.at < b.traits.pause && hits > b.view.remaining/b.share(nodes)
}

// low says that what is held will not last until an answer could be here.
func (b *bucket) low(now time.Duration) bool {
	l := &b.lots[0]
	if b.lots[1].serial != 0 {
		return false
	}
	lead := b.lead()
	if b.onWindow() {
		// What follows a lease that ends with its window belongs to the next.
		if l.ends-now <= lead {
			return false
		}
	} else if b.ending(now) {
		return true
	}
	return l.left <= b.demand.HitsIn(lead, now, l.granted/2+1)
}
