package ledger

import (
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// Settle finds who pays what was used. takes settle r as if quotas alone paid, and are made
// to settle what is left to these. add adds a take, on the bucket with that key, for each
// purse that is charged or given back to, and returns which result is the answer to it.
//
// Nothing of it is a hit, which alone are done before the mark of a group that falls apart:
// so all is done once, however often it is tried; and what others have taken of a purse
// since it was looked at, it owes.
func (g *Ledger) Settle(r reservation.Reservation, takes []store.Take, old Age, add func(key []byte, t store.Take) (at int)) {
	g.reckon(r, takes)
	g.decide()
	for i := range g.quotas {
		q := &g.quotas[i]
		hits := g.owed(q)
		if by, _ := g.payerOf(q); by != 0 {
			hits = 0
		}
		old.SetCharge(&takes[q.take], hits)
	}
	for i := range g.purses {
		one := &g.purses[i]
		if one.at = -1; one.charged == 0 && one.used == 0 {
			continue
		}
		take := store.Take{Limit: one.limit}
		old.SetCharge(&take, one.used-one.charged)
		one.at = add(one.key, take)
	}
}

// reckon takes over from takes, which settle r as if quotas alone paid, what each quota
// would be charged, and from r what others have paid.
func (g *Ledger) reckon(r reservation.Reservation, takes []store.Take) {
	for i := range g.quotas {
		q := &g.quotas[i]
		if q.own = takes[q.take].Hits; takes[q.take].Op == store.Refund {
			q.own = -q.own
		}
		o := &g.offers[q.offer]
		switch {
		case q.by != 0:
			o.charged, o.used = max(o.charged, g.paidFor(i, r)), max(o.used, q.used)
		case q.covered: // who paid is gone, and keeps it
			q.own = max(0, q.used-q.reserved)
		}
	}
	for i := range g.offers {
		if o := &g.offers[i]; o.by != 0 {
			g.each(o.by-1, func(p *purse) { p.charged = g.sum(p.charged, o.charged, o.charged) })
		}
	}
}

// paidFor returns what was paid for the quota at i: what that costs by the rules in force,
// but no more than r says, if it does.
func (g *Ledger) paidFor(i int, r reservation.Reservation) int64 {
	q := &g.quotas[i]
	bucket, before := g.bucketOf(q.by-1), 0
	for j := range i {
		if other := &g.quotas[j]; other.by != 0 && g.bucketOf(other.by-1) == bucket {
			before++
		}
	}
	if told := r.Charged(bucket, before); told > 0 {
		return min(q.reserved, told)
	}
	return q.reserved
}

// each calls f for the purses of payer k.
func (g *Ledger) each(k int, f func(*purse)) {
	p := &g.payers[k]
	f(&g.purses[p.main])
	if p.share >= 0 {
		f(&g.purses[p.share])
	}
}

// sum returns what a purse pays that has paid so much, when it pays all for one more
// quota, which is more than before by so much.
func (g *Ledger) sum(before, more, all int64) int64 {
	if g.path {
		return max(before, all)
	}
	return before + more
}

// pay makes payer k pay all for a quota, and so much more than before, if it has that.
func (g *Ledger) pay(k int, more, all int64) bool {
	fits := true
	g.each(k, func(p *purse) { fits = fits && g.sum(p.used, more, all)-p.charged <= p.left })
	if fits {
		g.each(k, func(p *purse) { p.used = g.sum(p.used, more, all) })
	}
	return fits
}

// decide finds who pays what was used. Who has paid for a quota pays all of it, if that is
// not too much. What a quota is to be charged then and has no room for, the pool pays, or
// the first top-up that has all of it, as for a check; if there is none, it is a debt.
func (g *Ledger) decide() {
	for i := range g.purses {
		g.purses[i].used = 0
	}
	for i := range g.offers {
		if o := &g.offers[i]; o.by != 0 {
			least := min(o.charged, o.used)
			g.each(o.by-1, func(p *purse) { p.used = g.sum(p.used, least, least) })
		}
	}
	for i := range g.offers {
		o := &g.offers[i]
		o.settled = o.by != 0 && (o.used <= o.charged || g.pay(o.by-1, o.used-o.charged, o.used))
		o.need, o.extra = 0, 0
	}
	for i := range g.quotas {
		if q := &g.quotas[i]; g.lacks(q) {
			o := &g.offers[q.offer]
			o.need = max(o.need, g.owed(q))
		}
	}
	for i := range g.offers {
		o := &g.offers[i]
		for k := o.payers.from; o.need > 0 && o.extra == 0 && k < o.payers.to; k++ {
			if k+1 != o.by && g.pay(k, o.need, o.need) {
				o.extra = k + 1
			}
		}
	}
}

// owed returns what a quota is to be charged, or given back if that is negative.
func (g *Ledger) owed(q *quota) int64 {
	o := &g.offers[q.offer]
	switch {
	case q.by == 0:
		return q.own
	case o.settled:
		return 0
	}
	return max(0, q.used-o.charged)
}

// lacks reports whether a quota is owed more than it has room for.
func (g *Ledger) lacks(q *quota) bool { return g.looked && g.owed(q) > max(q.left, 0) }

// payerOf returns 1 + who pays for a quota, and how much; 0 where it does itself.
func (g *Ledger) payerOf(q *quota) (by int, hits int64) {
	o := &g.offers[q.offer]
	switch {
	case o.extra != 0 && g.lacks(q):
		return o.extra, o.need
	case q.by != 0 && o.settled:
		return q.by, o.used
	}
	return 0, 0
}

// Speaker returns what is said in place of the quota of take t, where something else has
// paid, and the answer of the store that says it, of those which are asked of it; it is not
// ok where the quota speaks. Where the answer is an error nothing is said.
func (g *Ledger) Speaker(t int, results []store.Result, now limit.Micros) (said Said, r store.Result, ok bool) {
	q := g.quotaOf(t)
	if q == nil {
		return said, r, false
	}
	by, hits := g.payerOf(q)
	if by == 0 {
		return said, r, false
	}
	one := &g.payers[by-1]
	r = results[g.purses[one.main].at]
	var share *limit.Decision
	if one.share >= 0 {
		other := &results[g.purses[one.share].at]
		if share = &other.Decision; other.Err != nil {
			r.Err = other.Err
		}
	}
	if r.Err == nil {
		said = one.Say(hits, r.Decision, share, now)
		r.Decision = said.Decision
	}
	return said, r, true
}
