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
)

// Commit settles a reservation by what was really used: what is more than was reserved
// is charged whether it fits or not, as a debt up to the ceiling of each limit, and
// what is less is given back. The first Commit or Cancel counts, on whatever node;
// others change nothing.
//
// It goes by the rules in force now. A limit that has not been charged for the
// reservation, as it is new or the store was away, is charged the whole; one that is
// gone keeps what it has. Resp says what is left, and is Allowed.
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
	b.addCharged(p, r, &responses[0])
	b.use(actual, p.domain(b.request.Domain))
	p.batch.empty()
	responses[0] = Response{Verdicts: responses[0].Verdicts[:0]}
	p.addRequest(&b.request, &responses[0])
	if len(p.takes) == 0 {
		responses[0].merge()
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

// addCharged fills in what is known to be charged for r: what its claims cost by the
// rules in force, but no more than r says of each bucket. So nobody is given back
// what was never asked for.
func (b *booking) addCharged(p *plan, r reservation.Reservation, resp *Response) {
	p.addRequest(&b.request, resp)
	p.bindKeys()
	b.addCharges(&p.batch, len(p.takes), resp, true)
	if r.Expires().IsZero() {
		return // see Request.Reservation
	}
	for i := range b.charges {
		c := &b.charges[i]
		c.Hits = min(c.Hits, r.Charged(c.Bucket, b.chargesBefore(i)))
	}
}

// chargesBefore returns how many charges before the one at i are of its bucket:
// descriptors that are equal are charged each.
func (b *booking) chargesBefore(i int) (n int) {
	for j := range i {
		if b.charges[j].Bucket == b.charges[i].Bucket {
			n++
		}
	}
	return n
}

// takeSettled turns the takes of p, which are what was used, into what settles them,
// and does it together with the mark that it is done: the mark decides, once.
func (l *Limiter) takeSettled(ctx context.Context, p *plan, b *booking, r reservation.Reservation, resp *Response) reservation.Outcome {
	var room [128]byte
	text, ttl, domain := []byte(r.Claims()), b.claims.TTL, b.claims.Domain
	made := l.peek(ctx, &store.Take{Key: reservation.MarkMade.AppendKey(room[:0], domain, text), Limit: reservation.MarkLimit(ttl)})
	mark := p.addMark(domain, text, ttl, reservation.MarkSettled)
	p.bindKeys()
	clear(p.locally) // the fallback has no reservations
	switch {
	case made.Err != nil:
		for i := range p.results {
			p.results[i] = store.Result{Err: made.Err}
		}
	case isMarked(&made):
		b.settleCharges(p.takes[:mark])
		l.take(ctx, l.store, p.takes, p.results)
	case r.Expires().IsZero():
		*resp = Response{Allowed: true, DomainKnown: resp.DomainKnown, Verdicts: resp.Verdicts[:0]}
		return reservation.Unknown
	default:
		b.charges = b.charges[:0]
		b.settleCharges(p.takes[:mark])
		l.take(ctx, l.store, p.takes, p.results)
	}
	p.answer(resp, p.spans[0].verdicts)
	switch done := &p.results[mark]; {
	case done.Err != nil:
		return reservation.Undecided
	case done.Allowed && !done.Skipped:
		return reservation.Settled
	}
	return reservation.SettledBefore
}

// settleCharges makes takes, which charge what was used, what is missing to, or too much
// in, what was charged.
func (b *booking) settleCharges(takes []store.Take) {
	for i := range takes {
		t := &takes[i]
		if t.Hits -= b.takeCharge(reservation.Bucket(t.Key)); t.Hits < 0 {
			t.Op, t.Hits = store.Refund, -t.Hits
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
