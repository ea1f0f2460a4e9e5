package headgate

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/ledger"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
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
// reservation, because it is new or the store was away, is charged the whole; one that is
// gone keeps what it has. resp says what is left, and is Allowed; it may be nil.
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
	if resp == nil { // who settles when a stream has ended has nobody to tell what is left
		resp = new(Response)
	}
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
	b.notes = ledger.Notes{Domain: b.claims.Domain, Claims: append(b.notes.Claims, r.Claims()...), Limit: l.marks.Limit(b.claims.TTL)}
	b.estimate(p, &responses[0])
	b.use(actual, p.domain(b.request.Domain))
	p.batch.empty()
	responses[0].empty()
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
	b.collect(p, &b.request, resp)
}

// addCharged fills in what is known to be charged for r: what its claims cost by the
// rules in force, but no more than r says of each bucket. So nobody is given back
// what was never asked for.
func (b *booking) addCharged(r reservation.Reservation) {
	for _, e := range b.estimates {
		if b.ledger.IsCovered(e.take) {
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
	g.Use(p.takes)
	made, forgotten := l.look(ctx, p, b, g.MayPay(r)), false
	switch {
	case made.Err != nil:
		for i := range p.results {
			p.results[i] = store.Result{Err: made.Err}
		}
		p.answer(resp, p.spans[0].verdicts)
		return reservation.Undecided
	case ledger.IsMarked(&made):
		if b.partly {
			l.lookUncharged(ctx, p, b)
		}
		b.addCharged(r)
	case r.Expires().IsZero():
		*resp = Response{Allowed: true, DomainKnown: resp.DomainKnown, Verdicts: resp.Verdicts[:0]}
		return reservation.Unknown
	default:
		forgotten = true
		g.Forget()
	}
	now := limit.MicrosOf(l.now())
	old := ledger.Age{Charged: l.marks.MadeAt(b.claims.TTL, made.ResetAfter, now), Now: now}
	b.settleCharges(p.takes, old)
	g.Settle(r, p.takes, old, p.addTakeOn)
	idle := !slices.ContainsFunc(p.takes, func(t store.Take) bool { return t.Hits > 0 })
	mark := p.addMark(b, reservation.MarkSettled)
	p.bindKeys()
	l.take(ctx, l.store, p.takes, p.results)
	b.answer(p, resp, p.results)
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
func (b *booking) settleCharges(takes []store.Take, old ledger.Age) {
	for i := range takes {
		t := &takes[i]
		if !b.ledger.IsCovered(i) {
			old.SetCharge(t, t.Hits-b.takeCharge(reservation.Bucket(t.Key)))
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
