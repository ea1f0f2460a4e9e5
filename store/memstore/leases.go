package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// maxLeases bounds the leases that a Store remembers, over all buckets; each
	// takes 24 bytes, and a bucket with leases some hundred more. They come on
	// top of Options.MaxBytes.
	maxLeases = 1 << 16
	// leaseSweep is how many buckets are looked at for ended leases whenever one
	// gets its first lease.
	leaseSweep = 4
)

// lease is hits in the hands of a holder.
type lease struct {
	id    store.LeaseID
	hits  int64
	until limit.Micros
}

// register holds the leases on one bucket, in the order of their grants.
type register struct {
	leases []lease
	latest limit.Micros // end of any lease since the register was empty
	noted  limit.Micros // when a lease was last granted or returned
	hits   int64        // of all leases
}

// follow moves the ends back with a clock that shows now and has stepped back behind
// what was noted last.
func (r *register) follow(now limit.Micros) {
	back := r.noted - now
	if back <= 0 {
		return
	}
	for i := range r.leases {
		r.leases[i].until -= back
	}
	r.latest -= back
	r.noted = now
}

// leaseBook holds the registers of all buckets. Take does not look at it. Its lock
// is taken before those of the shards.
type leaseBook struct {
	mu      sync.Mutex
	buckets map[ident]*register
	count   int    // leases in all registers
	swept   uint32 // the unit of the last sweep of all

	granted, returned, ended int64 // hits, ever
}

// prune drops the leases at the front that have ended.
func (b *leaseBook) prune(r *register, now limit.Micros) {
	n := 0
	for n < len(r.leases) && r.leases[n].until <= now {
		r.hits -= r.leases[n].hits
		b.ended += r.leases[n].hits
		n++
	}
	b.count -= n
	r.leases = r.leases[n:]
	r.forgetLatest()
}

// forgetLatest forgets the latest end with the last lease.
func (r *register) forgetLatest() {
	if len(r.leases) == 0 {
		*r = register{}
	}
}

// find returns the index of a lease that is in the register, or -1.
func (r *register) find(id store.LeaseID) int {
	for i := range r.leases {
		if r.leases[i].id == id {
			return i
		}
	}
	return -1
}

// remove takes out the lease at index i.
func (b *leaseBook) remove(r *register, i int) {
	r.hits -= r.leases[i].hits
	b.count--
	r.leases = append(r.leases[:i], r.leases[i+1:]...)
	r.forgetLatest()
}

// add enters a lease.
func (b *leaseBook) add(r *register, l lease) {
	if len(r.leases) == cap(r.leases) {
		// Pruning moves the front on: start over with what is left.
		r.leases = append(make([]lease, 0, 2*len(r.leases)+1), r.leases...)
	}
	r.leases = append(r.leases, l)
	r.latest = max(r.latest, l.until)
	r.hits += l.hits
	b.count++
	b.granted += l.hits
}

// of returns the register of k without the ended leases at its front. It may be
// new and empty; keep decides whether it stays.
func (b *leaseBook) of(k ident, now limit.Micros) *register {
	r := b.buckets[k]
	if r == nil {
		return new(register)
	}
	r.follow(now)
	b.prune(r, now)
	return r
}

// keep enters r as the register of k, or drops it when it is empty.
func (b *leaseBook) keep(k ident, r *register, now limit.Micros) {
	if len(r.leases) == 0 {
		delete(b.buckets, k)
		return
	}
	if b.buckets == nil {
		b.buckets = make(map[ident]*register)
	}
	if _, ok := b.buckets[k]; !ok {
		b.sweep(leaseSweep, now)
		b.buckets[k] = r
	}
}

// sweep drops what has ended in up to n registers; which ones is left to the map.
func (b *leaseBook) sweep(n int, now limit.Micros) {
	for k, r := range b.buckets {
		if n--; n < 0 {
			return
		}
		if b.prune(r, now); len(r.leases) == 0 {
			delete(b.buckets, k)
		}
	}
}

// full reports whether there is no room for one more lease. It looks through all
// registers for ended ones first, but at most once in a unit of time.
func (b *leaseBook) full(now limit.Micros) bool {
	if unit := unitOf(now); b.count >= maxLeases && b.swept != unit {
		b.swept = unit
		b.sweep(len(b.buckets), now)
	}
	return b.count >= maxLeases
}

var _ store.Leaser = (*Store)(nil)

// Lease implements store.Leaser. Like Take it never waits, and its grants carry no
// errors. It grants nothing while so many leases are out that the Store cannot
// remember another, nor to a key for which there is no room.
func (s *Store) Lease(_ context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	now := s.micros()
	for i := range requests {
		grants[i] = s.lease(&requests[i], now)
	}
}

func (s *Store) lease(q *store.LeaseRequest, now limit.Micros) store.Grant {
	a := &ask{key: s.identBytes(q.Key), limit: q.Limit, now: now}
	book, sh := s.leases, s.shardOf(a.key)
	book.mu.Lock()
	defer book.mu.Unlock()
	sh.mu.lock()
	defer sh.mu.unlock()
	buffer := buffers.Get().(*[]int64)
	defer buffers.Put(buffer)

	if !q.Limit.Leasable() {
		_, d := limit.Decide(q.Limit, sh.leaseBase(a, buffer), now, 0)
		return store.Grant{Decision: d}
	}
	r := book.of(a.key, now)
	g := store.Grant{Returned: book.takeBack(sh, a, r, q, buffer)}
	g.Hits, g.TTL = book.grant(sh, a, r, q, buffer)
	book.keep(a.key, r, now)
	g.Decision = limit.PeekOne(q.Limit, sh.leaseBase(a, buffer), now)
	return g
}

// leaseBase is the state that a lease meets, with its Wide in buffer so that it
// may be changed without changing what is stored.
func (s *shard) leaseBase(a *ask, buffer *[]int64) limit.State {
	c := classOf(a.limit)
	state := s.base(s.locate(a.key, c), c, a)
	if c == wide {
		state.Wide = copyInto(buffer, state.Wide, len(state.Wide)+room(a))
	}
	return state
}

// takeBack ends an earlier lease, if it is one that lasts, and gives hits of it
// back.
func (b *leaseBook) takeBack(sh *shard, a *ask, r *register, q *store.LeaseRequest, buffer *[]int64) bool {
	if q.Return == (store.LeaseID{}) {
		return false
	}
	i := r.find(q.Return)
	if i < 0 || r.leases[i].until <= a.now {
		return false
	}
	hits := min(max(q.ReturnHits, 0), r.leases[i].hits)
	b.returned += hits
	b.ended += r.leases[i].hits - hits
	b.remove(r, i)
	r.noted = a.now
	if hits == 0 {
		return true
	}
	where := sh.locate(a.key, classOf(a.limit))
	if !where.found || !countsHits(sh.state(where).Kind, a.limit) {
		// Used from a shared bucket, where it stays, or forgotten.
		return true
	}
	next := limit.Return(a.limit, sh.leaseBase(a, buffer), a.now, hits, limit.Held{Hits: r.hits, Until: r.latest})
	// What another limit has charged may last for longer than what a.limit sees of it.
	expiry := max(expiryOf(a.now, limit.Lifetime(a.limit, next, a.now)), metaExpiry(sh.tables[where.class].words[where.at+slotMeta]))
	sh.put(where, a, next, expiry)
	return true
}

// countsHits reports whether the hits of a lease by l may be in a state of a kind.
func countsHits(kind uint8, l *limit.Limit) bool {
	return kind == 1+uint8(l.Algorithm) || kind == limit.KindTallies
}

// grant hands out hits, if there is room for the lease and for the state.
func (b *leaseBook) grant(sh *shard, a *ask, r *register, q *store.LeaseRequest, buffer *[]int64) (hits int64, lasts time.Duration) {
	if q.Want <= 0 || len(r.leases) >= store.MaxLeases || r.find(q.ID) >= 0 || b.full(a.now) {
		return 0, 0
	}
	next, hits, lasts := limit.Lease(a.limit, sh.leaseBase(a, buffer), a.now, q.Want, q.Share, q.TTL)
	where := sh.locate(a.key, classOf(a.limit))
	if hits == 0 && (!where.found || !rewritten(where, sh.state(where), next)) {
		return 0, 0
	}
	expiry := expiryOf(a.now, limit.Lifetime(a.limit, next, a.now))
	if hits == 0 {
		// As after a denial: what another limit has charged may last for longer.
		expiry = max(expiry, metaExpiry(sh.tables[where.class].words[where.at+slotMeta]))
	}
	if !sh.keep(where, a, next, expiry) || hits == 0 {
		return 0, 0
	}
	b.add(r, lease{id: q.ID, hits: hits, until: a.now + limit.Micros(lasts/time.Microsecond)})
	r.noted = a.now
	return hits, lasts
}
