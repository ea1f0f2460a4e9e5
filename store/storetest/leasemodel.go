package storetest

import (
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// modelLease is a lease in the register of a bucket.
type modelLease struct {
	id    store.LeaseID
	hits  int64
	until limit.Micros
}

// modelRegister holds the leases on a bucket in the order of their grants.
type modelRegister struct {
	leases []modelLease
	latest limit.Micros
	noted  limit.Micros // when a lease was last granted or returned
}

// lease answers a request as every Leaser must.
func (m *model) lease(q *store.LeaseRequest) (g store.Grant) {
	key, l := string(q.Key), q.Limit
	if !l.Leasable() {
		_, g.Decision = limit.Decide(l, m.buckets[key].state, m.now, 0)
		return g
	}
	r := m.leases[key]
	if r == nil {
		r = &modelRegister{}
		m.leases[key] = r
	}
	if back := r.noted - m.now; back > 0 {
		for i := range r.leases {
			r.leases[i].until -= back
		}
		r.latest, r.noted = r.latest-back, m.now
	}
	for len(r.leases) > 0 && r.leases[0].until <= m.now {
		r.drop(0)
	}
	before := m.buckets[key].state
	at := slices.IndexFunc(r.leases, func(g modelLease) bool { return g.id == q.Return && g.until > m.now })
	if q.Return != (store.LeaseID{}) && at >= 0 {
		hits := min(max(q.ReturnHits, 0), r.leases[at].hits)
		r.drop(at)
		r.noted = m.now
		others := limit.Held{Until: r.latest}
		for _, other := range r.leases {
			others.Hits += other.hits
		}
		g.Returned = true
		if before.Kind != 0 && hits > 0 {
			m.save(key, l, before, limit.Return(l, copyState(before), m.now, hits, others))
		}
	}
	twice := slices.ContainsFunc(r.leases, func(g modelLease) bool { return g.id == q.ID })
	if q.Want > 0 && len(r.leases) < store.MaxLeases && !twice {
		before = m.buckets[key].state
		var after limit.State
		after, g.Hits, g.TTL = limit.Lease(l, copyState(before), m.now, q.Want, q.Share, q.TTL)
		m.save(key, l, before, after)
		if g.Hits > 0 {
			until := m.now + micros(g.TTL)
			r.leases = append(r.leases, modelLease{q.ID, g.Hits, until})
			r.latest, r.noted = max(r.latest, until), m.now
		}
	}
	g.Decision = limit.PeekOne(l, m.buckets[key].state, m.now)
	return g
}

// drop removes a lease.
func (r *modelRegister) drop(i int) {
	r.leases = slices.Delete(r.leases, i, i+1)
	if len(r.leases) == 0 {
		r.latest = 0
	}
}
