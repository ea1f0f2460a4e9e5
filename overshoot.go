package headgate

import (
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// reckon takes over from takes, which settle r as if quotas alone paid, what each quota
// would be charged, and from r what others have paid.
func (g *ledger) reckon(r reservation.Reservation, takes []store.Take) {
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
func (g *ledger) paidFor(i int, r reservation.Reservation) int64 {
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

// bucketOf returns by which name reservations tell of payer k.
func (g *ledger) bucketOf(k int) [4]byte { return reservation.Bucket([]byte(g.text(&g.payers[k]))) }

// each calls f for the purses of payer k.
func (g *ledger) each(k int, f func(*purse)) {
	p := &g.payers[k]
	f(&g.purses[p.main])
	if p.share >= 0 {
		f(&g.purses[p.share])
	}
}

// sum returns what a purse pays that has paid so much, when it pays all for one more
// quota, which is more than before by so much.
func (g *ledger) sum(before, more, all int64) int64 {
	if g.path {
		return max(before, all)
	}
	return before + more
}

// pay makes payer k pay all for a quota, and so much more than before, if it has that.
func (g *ledger) pay(k int, more, all int64) bool {
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
func (g *ledger) decide() {
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
func (g *ledger) owed(q *quotaTake) int64 {
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
func (g *ledger) lacks(q *quotaTake) bool { return g.looked && g.owed(q) > max(q.left, 0) }

// payerOf returns 1 + who pays for a quota, and how much; 0 where it does itself.
func (g *ledger) payerOf(q *quotaTake) (by int, hits int64) {
	o := &g.offers[q.offer]
	switch {
	case o.extra != 0 && g.lacks(q):
		return o.extra, o.need
	case q.by != 0 && o.settled:
		return q.by, o.used
	}
	return 0, 0
}

// apply makes takes of p that settle what was used of what was decided. Nothing of it is a
// hit, which alone are done before the mark of a group that falls apart: so all is done
// once, however often it is tried; and what others have taken of a purse since it was
// looked at, it owes.
func (g *ledger) apply(p *plan) {
	for i := range g.quotas {
		q := &g.quotas[i]
		hits := g.owed(q)
		if by, _ := g.payerOf(q); by != 0 {
			hits = 0
		}
		setCharge(&p.takes[q.take], hits)
	}
	for i := range g.purses {
		one := &g.purses[i]
		if one.at = -1; one.charged == 0 && one.used == 0 {
			continue
		}
		one.at = len(p.takes)
		take := store.Take{Limit: one.limit}
		setCharge(&take, one.used-one.charged)
		p.keys = append(p.keys, one.key...)
		p.ends = append(p.ends, len(p.keys))
		p.addTake(take, verdict.ByStore)
	}
}

// setCharge makes t charge so many hits, or give back as many if they are negative.
func setCharge(t *store.Take, hits int64) {
	t.Op, t.Hits = store.Charge, hits
	if hits < 0 {
		t.Op, t.Hits = store.Refund, -hits
	}
}

// speak makes those who have paid speak in place of quotas.
func (g *ledger) speak(p *plan, resp *Response, results []store.Result) {
	for i := range resp.Verdicts {
		t := p.verdictTake[i]
		if t < 0 {
			continue
		}
		q := g.quotaOf(t)
		if q == nil {
			continue
		}
		by, hits := g.payerOf(q)
		if by == 0 {
			continue
		}
		one := &g.payers[by-1]
		main := results[g.purses[one.main].at]
		var share *limit.Decision
		if one.share >= 0 {
			r := &results[g.purses[one.share].at]
			if share = &r.Decision; r.Err != nil {
				main.Err = r.Err
			}
		}
		if main.Err == nil {
			main.Decision = one.speak(&resp.Verdicts[i], hits, main.Decision, share, p.instant())
		}
		p.results[t] = main
	}
}
