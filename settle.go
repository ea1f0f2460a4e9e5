package headgate

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// Actual is what was used of a reservation.
type Actual struct {
	// Hits is the cost of each descriptor, in their order, from 0 to limit.MaxQuota;
	// one number is that of all of them, and none leaves them as estimated.
	Hits []int64
	// Attributes are for rules that take their cost from elsewhere than the hits, as
	// Request.Attributes; a cost from a descriptor entry stands here under the key of
	// that. What is not here stays as it was reserved; where the hits are 0, the cost is
	// 0 too.
	Attributes []descriptor.Entry
}

// Outcome is what became of a Commit or a Cancel.
type Outcome uint8

const (
	// Undecided: the store did not answer. Whether the reservation is settled is not
	// known; to try again is safe.
	Undecided Outcome = iota
	// Settled: this call has settled the reservation.
	Settled
	// SettledBefore: another call had, or this one when its answer got lost. Nothing
	// was charged or given back.
	SettledBefore
	// Unknown: the store does not remember a reservation of ReservationOf. It was
	// denied, or not made, or is long over. Nothing was charged or given back.
	Unknown
)

// String returns the word used in JSON and metrics.
func (o Outcome) String() string {
	return [...]string{"undecided", "settled", "settled_before", "unknown"}[o]
}

// Commit settles a reservation by what was really used: what is more than was reserved
// is charged whether it fits or not, as a debt up to the ceiling of each limit, and
// what is less is given back. The first Commit or Cancel counts, on whatever node;
// others change nothing.
//
// It goes by the rules in force now. A limit that has not been charged for the
// reservation, as it is new or the store was away, is charged the whole; one that is
// gone keeps what it has. Resp says what is left, and is Allowed.
//
// An error says that r or actual is malformed or r has expired (ErrExpired), and means
// that nothing was done.
func (l *Limiter) Commit(ctx context.Context, r Reservation, actual Actual, resp *Response) (Outcome, error) {
	outcome, err := l.settle(ctx, r, &actual, resp)
	if err != nil {
		return Undecided, fmt.Errorf("commit: %w", err)
	}
	l.reserved.commits[outcome].Add(1)
	return outcome, nil
}

// nothing is what is used of a reservation that is cancelled.
var nothing = []int64{0}

// Cancel settles a reservation of which nothing was used; see Commit.
func (l *Limiter) Cancel(ctx context.Context, r Reservation, resp *Response) (Outcome, error) {
	outcome, err := l.settle(ctx, r, &Actual{Hits: nothing}, resp)
	if err != nil {
		return Undecided, fmt.Errorf("cancel: %w", err)
	}
	l.reserved.cancels[outcome].Add(1)
	return outcome, nil
}

func (l *Limiter) settle(ctx context.Context, r Reservation, actual *Actual, resp *Response) (outcome Outcome, err error) {
	p := l.begin()
	responses := [1]Response{{Verdicts: resp.Verdicts[:0]}}
	defer func() { *resp = responses[0] }()
	defer l.finish(p, responses[:])
	p.settles = true
	c := &p.claims
	if err := c.read(r.claims); err != nil {
		return Undecided, err
	}
	if err := actual.validate(len(c.descriptors)); err != nil {
		return Undecided, err
	}
	if r.expires != 0 && l.now().UnixMilli() >= r.expires {
		return Undecided, ErrExpired
	}
	p.addCharged(r, &responses[0])
	c.use(actual, p.domain(c.request.Domain))
	p.replan(&c.request, &responses[0])
	if len(p.takes) == 0 {
		responses[0].settle()
		return Settled, nil
	}
	return l.takeSettled(ctx, p, r, &responses[0]), nil
}

// validate refuses numbers that are no costs of so many descriptors.
func (a *Actual) validate(descriptors int) error {
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
func (c *claims) use(a *Actual, domain *rules.Domain) {
	for i := range c.descriptors {
		switch len(a.Hits) {
		case 0:
		case 1:
			c.descriptors[i].Hits = a.Hits[0]
		default:
			c.descriptors[i].Hits = a.Hits[i]
		}
	}
	if len(a.Attributes) == 0 || domain == nil {
		return
	}
	c.request.Attributes = slices.Concat(a.Attributes, c.attributes)
	for i := range c.descriptors {
		for j := range c.descriptors[i].Entries {
			e := &c.descriptors[i].Entries[j]
			if used := slices.IndexFunc(a.Attributes, func(one descriptor.Entry) bool { return one.Key == e.Key }); used >= 0 && domain.Aside(e.Key) {
				e.Value = a.Attributes[used].Value
			}
		}
	}
}

// addCharged fills in what is known to be charged for r: what its claims cost by the
// rules in force, but no more than r says of each bucket. So nobody is given back
// what was never asked for.
func (p *plan) addCharged(r Reservation, resp *Response) {
	p.addRequest(&p.claims.request, resp)
	p.bindKeys()
	p.addCharges(resp, true)
	if r.expires == 0 {
		return // see ReservationOf
	}
	for i := range p.charges {
		c := &p.charges[i]
		c.hits = min(c.hits, listed(r.charged, c.bucket, p.chargesBefore(i)))
	}
}

// chargesBefore returns how many charges before the one at i are of its bucket:
// descriptors that are equal are charged each.
func (p *plan) chargesBefore(i int) (n int) {
	for j := range i {
		if p.charges[j].bucket == p.charges[i].bucket {
			n++
		}
	}
	return n
}

// listed returns the hits of a charge of a bucket in text, after so many others of it.
func listed(text string, bucket [4]byte, after int) int64 {
	for text != "" {
		c, rest, err := cutCharge(text)
		if err != nil {
			return 0
		}
		if c.bucket == bucket {
			if after == 0 {
				return c.hits
			}
			after--
		}
		text = rest
	}
	return 0
}

// replan plans req in the place of what was planned.
func (p *plan) replan(req *Request, resp *Response) {
	clear(p.takes)
	p.takes, p.locally, p.keys, p.ends = p.takes[:0], p.locally[:0], p.keys[:0], p.ends[:0]
	p.verdictTake, p.spans = p.verdictTake[:0], p.spans[:0]
	*resp = Response{Verdicts: resp.Verdicts[:0]}
	p.addRequest(req, resp)
}

// takeSettled turns the takes of p, which are what was used, into what settles them,
// and does it together with the mark that it is done: the mark decides, once.
func (l *Limiter) takeSettled(ctx context.Context, p *plan, r Reservation, resp *Response) Outcome {
	var room [128]byte
	text, ttl, domain := []byte(r.claims), p.claims.ttl, p.claims.request.Domain
	made := l.peek(ctx, &store.Take{Key: appendMarkKey(room[:0], domain, text, markMade), Limit: markLimit(ttl)})
	mark := p.addMark(domain, text, ttl, markSettled)
	p.bindKeys()
	clear(p.locally) // the fallback has no reservations
	switch {
	case made.Err != nil:
		for i := range p.results {
			p.results[i] = store.Result{Err: made.Err}
		}
	case isMarked(&made):
		p.settleCharges(mark)
		l.take(ctx, l.store, p.takes, p.results)
	case r.expires == 0:
		*resp = Response{Allowed: true, DomainKnown: resp.DomainKnown, Verdicts: resp.Verdicts[:0]}
		return Unknown
	default:
		p.charges = p.charges[:0]
		p.settleCharges(mark)
		l.take(ctx, l.store, p.takes, p.results)
	}
	p.answer(resp, p.spans[0].verdicts)
	switch done := &p.results[mark]; {
	case done.Err != nil:
		return Undecided
	case done.Allowed && !done.Skipped:
		if l.accuracy != nil {
			l.mirror(ctx, p, resp)
		}
		return Settled
	}
	return SettledBefore
}

// settleCharges makes the takes before mark what is missing to, or too much in, what was
// charged.
func (p *plan) settleCharges(mark int) {
	for i := range p.takes[:mark] {
		t := &p.takes[i]
		t.Op, t.Hold = store.Charge, 0
		if t.Hits -= p.takeCharge(bucketMark(t.Key)); t.Hits < 0 {
			t.Op, t.Hits = store.Refund, -t.Hits
		}
	}
}

// takeCharge returns the hits of the first charge of a bucket, and takes it out.
func (p *plan) takeCharge(bucket [4]byte) int64 {
	for i := range p.charges {
		if c := &p.charges[i]; c.bucket == bucket {
			hits := c.hits
			p.charges = slices.Delete(p.charges, i, i+1)
			return hits
		}
	}
	return 0
}
