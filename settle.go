package headgate

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// Commit settles a reservation by what was really used: what is more than was reserved
// is charged whether it fits or not, as a debt up to the ceiling of each limit, and
// what is less is given back. The first Commit or Cancel counts, on whatever node;
// others change nothing.
//
// Where the burst pool or a top-up of a tenant has paid in place of a quota, it is given
// back to; and where the quota has no room for what is more, one that has pays that.
//
// It goes by the rules in force now. A limit that has not been charged for the
// reservation, as it is new or the store was away, is charged the whole; one that is
// gone keeps what it has. Resp says what is left, and is Allowed.
//
// A reservation that the store does not remember, because it was away then, has lost it, or
// never heard of it, is charged the whole; where nothing was used, the outcome is
// reservation.Unknown, and later calls change nothing either.
//
// An error says that r or actual is malformed or r has expired (reservation.ErrExpired), and
// means that nothing was done.
func (l *Limiter) Commit(ctx context.Context, r reservation.Reservation, actual reservation.Actual, resp *Response) (reservation.Outcome, error) {
	outcome, err := l.settle(ctx, r, &actual, resp)
	if err != nil {
		return reservation.Undecided, fmt.Errorf("commit: %w", err)
	}
	l.reserved.commits[outcome].Add(1)
	return outcome, nil
}

// nothing is what is used of a reservation that is cancelled.
var nothing = []int64{0}

// Cancel settles a reservation of which nothing was used; see Commit.
func (l *Limiter) Cancel(ctx context.Context, r reservation.Reservation, resp *Response) (reservation.Outcome, error) {
	outcome, err := l.settle(ctx, r, &reservation.Actual{Hits: nothing}, resp)
	if err != nil {
		return reservation.Undecided, fmt.Errorf("cancel: %w", err)
	}
	l.reserved.cancels[outcome].Add(1)
	return outcome, nil
}

func (l *Limiter) settle(ctx context.Context, r reservation.Reservation, actual *reservation.Actual, resp *Response) (outcome reservation.Outcome, err error) {
	p, b := l.begin(l.switches.Load()), l.bookings.Get().(*booking)
	responses := [1]Response{{Verdicts: resp.Verdicts[:0]}}
	defer func() { *resp = responses[0] }()
	defer l.finish(p, responses[:])
	defer l.unbook(b)
	if err := b.read(r); err != nil {
		return reservation.Undecided, err
	}
	if err := validateActual(actual, len(b.descriptors)); err != nil {
		return reservation.Undecided, err
	}
	if end := r.Expires(); !end.IsZero() && !l.now().Before(end) {
		return reservation.Undecided, reservation.ErrExpired
	}
	b.text, b.mark = append(b.text, r.Claims()...), l.marks.Limit(b.claims.TTL)
	b.estimate(p, &responses[0])
	b.use(actual, p.domain(b.request.Domain))
	p.batch.empty()
	responses[0] = Response{Verdicts: responses[0].Verdicts[:0]}
	p.addRequest(&b.request, &responses[0])
	if len(p.takes) == 0 {
		responses[0].merge()
		if r.IsCharged() {
			return reservation.Unknown, nil // no limit in force counts what it was charged for
		}
		return reservation.Settled, nil
	}
	return l.takeSettled(ctx, p, b, r, &responses[0]), nil
}

// validateActual refuses numbers that are no costs of so many descriptors.
func validateActual(a *reservation.Actual, descriptors int) error {
	if n := len(a.Hits); n > 1 && n != descriptors {
		return fmt.Errorf("%w: %d for %d descriptors; hint: one for each, or one for all", ErrHits, n, descriptors)
	}
	for _, hits := range a.Hits {
		if hits < 0 || hits > limit.MaxQuota {
			return fmt.Errorf("%w: %d; hint: 0 to %d", ErrHits, hits, int64(limit.MaxQuota))
		}
	}
	return nil
}

// use puts what was used in the place of the estimate. Entries are changed only where
// they are a cost and so name no bucket.
func (b *booking) use(a *reservation.Actual, domain *rules.Domain) {
	for i := range b.descriptors {
		switch len(a.Hits) {
		case 0:
		case 1:
			b.descriptors[i].Hits = a.Hits[0]
		default:
			b.descriptors[i].Hits = a.Hits[i]
		}
	}
	if len(a.Attributes) == 0 || domain == nil {
		return
	}
	b.request.Attributes = slices.Concat(a.Attributes, b.claims.Attributes)
	for i := range b.descriptors {
		for j := range b.descriptors[i].Entries {
			e := &b.descriptors[i].Entries[j]
			if used := slices.IndexFunc(a.Attributes, func(one descriptor.Entry) bool { return one.Key == e.Key }); used >= 0 && domain.Aside(e.Key) {
				e.Value = a.Attributes[used].Value
			}
		}
	}
}

// estimate is what a take of a reservation, by its rules now, would be charged.
type estimate struct {
	take int
	reservation.Charge
}

// estimate fills in what the claims cost by the rules in force.
func (b *booking) estimate(p *plan, resp *Response) {
	p.addRequest(&b.request, resp)
	p.bindKeys()
	for t := range p.takes {
		if take := &p.takes[t]; take.Hits > 0 && p.countsCost(resp, t) {
			b.estimates = append(b.estimates, estimate{t, reservation.Charge{Bucket: reservation.Bucket(take.Key), Hits: take.Hits}})
		}
	}
	b.ledger.collect(p, &b.request, resp)
}

// addCharged fills in what is known to be charged for r: what its claims cost by the
// rules in force, but no more than r says of each bucket. So nobody is given back
// what was never asked for.
func (b *booking) addCharged(r reservation.Reservation) {
	for _, e := range b.estimates {
		if b.ledger.isCovered(e.take) {
			continue
		}
		if slices.Contains(b.uncharged, e.take) {
			e.Hits = 0
		} else if r.IsTold() {
			e.Hits = min(e.Hits, r.Charged(e.Bucket, b.chargesBefore(e.Bucket)))
		}
		b.charges = append(b.charges, e.Charge)
	}
}

// chargesBefore returns how many charges so far are of a bucket: descriptors that are equal
// are charged each.
func (b *booking) chargesBefore(bucket [4]byte) (n int) {
	for i := range b.charges {
		if b.charges[i].Bucket == bucket {
			n++
		}
	}
	return n
}

// takeSettled turns the takes of p, which are what was used, into what settles them,
// and does it together with the mark that it is done: the mark decides, once.
func (l *Limiter) takeSettled(ctx context.Context, p *plan, b *booking, r reservation.Reservation, resp *Response) reservation.Outcome {
	p.bindKeys()
	clear(p.locally) // the fallback has no reservations
	g := &b.ledger
	g.use(p.takes)
	made, forgotten := l.look(ctx, p, b, g.mayPay(r)), false
	switch {
	case made.Err != nil:
		for i := range p.results {
			p.results[i] = store.Result{Err: made.Err}
		}
		p.answer(resp, p.spans[0].verdicts)
		return reservation.Undecided
	case isMarked(&made):
		if b.partly {
			l.lookUncharged(ctx, p, b)
		}
		b.addCharged(r)
	case r.Expires().IsZero():
		*resp = Response{Allowed: true, DomainKnown: resp.DomainKnown, Verdicts: resp.Verdicts[:0]}
		return reservation.Unknown
	default:
		forgotten = true
		g.forget()
	}
	now := limit.MicrosOf(l.now())
	old := age{l.marks.MadeAt(b.claims.TTL, made.ResetAfter, now), now}
	b.settleCharges(p.takes, old)
	g.reckon(r, p.takes)
	g.decide()
	g.apply(p, old)
	idle := !slices.ContainsFunc(p.takes, func(t store.Take) bool { return t.Hits > 0 })
	mark := p.addMark(b, reservation.MarkSettled)
	p.bindKeys()
	l.take(ctx, l.store, p.takes, p.results)
	g.speak(p, resp, p.results)
	p.answer(resp, p.spans[0].verdicts)
	switch done := &p.results[mark]; {
	case done.Err != nil:
		return reservation.Undecided
	case done.Allowed && !done.Skipped:
		if forgotten && idle {
			return reservation.Unknown // nothing was held, and nothing is charged
		}
		return reservation.Settled
	}
	return reservation.SettledBefore
}

// settleCharges makes takes, which charge what was used, what is missing to, or too much
// in, what was charged.
func (b *booking) settleCharges(takes []store.Take, old age) {
	for i := range takes {
		t := &takes[i]
		if !b.ledger.isCovered(i) {
			old.setCharge(t, t.Hits-b.takeCharge(reservation.Bucket(t.Key)))
		}
	}
}

// takeCharge returns the hits of the first charge of a bucket, and takes it out.
func (b *booking) takeCharge(bucket [4]byte) int64 {
	for i := range b.charges {
		if c := &b.charges[i]; c.Bucket == bucket {
			hits := c.Hits
			b.charges = slices.Delete(b.charges, i, i+1)
			return hits
		}
	}
	return 0
}

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
func (g *ledger) apply(p *plan, old age) {
	for i := range g.quotas {
		q := &g.quotas[i]
		hits := g.owed(q)
		if by, _ := g.payerOf(q); by != 0 {
			hits = 0
		}
		old.setCharge(&p.takes[q.take], hits)
	}
	for i := range g.purses {
		one := &g.purses[i]
		if one.at = -1; one.charged == 0 && one.used == 0 {
			continue
		}
		one.at = len(p.takes)
		take := p.newTake()
		take.Limit = one.limit
		old.setCharge(take, one.used-one.charged)
		p.keys = append(p.keys, one.key...)
		p.ends = append(p.ends, len(p.keys))
		p.addTake(verdict.ByStore)
	}
}

// age is when a reservation was charged, and when it is settled.
type age struct{ charged, now limit.Micros }

// setCharge makes t charge so many hits, or, if they are negative, give back as many of them
// as can still be in the bucket: those that are over were others' since.
func (a age) setCharge(t *store.Take, hits int64) {
	t.Op, t.Hits = store.Charge, hits
	if hits < 0 {
		t.Op, t.Hits = store.Refund, t.Limit.Outstanding(a.charged, a.now, -hits)
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
