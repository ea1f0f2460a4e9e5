package rls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// Entries that say what to do with the hits of their descriptor, for proxies that can
// send entries and nothing else. They take no part in matching nor in any key, whatever
// the rules are; those after the first mean something beside that one alone.
const (
	// opEntry is "charge", "reserve", "commit" or "cancel".
	opEntry = "headgate_op"
	// idEntry names the reservation.
	idEntry = "headgate_id"
	// estimateEntry is what is reserved; a commit and a cancellation repeat it.
	estimateEntry = "headgate_estimate"
	// ttlEntry is how long it may be settled, such as 30m; they repeat that too.
	ttlEntry = "headgate_ttl"
)

// maxBookings bounds the descriptors of one call that reserve or settle: each is a
// call of its own to the store, and Envoy waits 20 ms for all.
const maxBookings = 8

// Reserver is a Checker that also reserves. Without one, calls that want to are
// refused.
type Reserver interface {
	Reserve(context.Context, *headgate.Request, reservation.Options, *headgate.Response) (reservation.Reservation, error)
	Commit(context.Context, reservation.Reservation, reservation.Actual, *headgate.Response) (reservation.Outcome, error)
	Cancel(context.Context, reservation.Reservation, *headgate.Response) (reservation.Outcome, error)
}

var _ Reserver = (*headgate.Limiter)(nil)

// bookingOp is what a booking does.
type bookingOp uint8

const (
	reserve bookingOp = iota
	commit
	cancel
)

// booking is a descriptor that makes a reservation, or settles one.
type booking struct {
	descriptor int // its index in the message
	op         bookingOp
	options    reservation.Options
	// request has the descriptor alone, with the estimate as its hits.
	request headgate.Request
	// actual is what was used.
	actual int64
	// made is the reservation, once there is one.
	made reservation.Reservation
}

// operate takes the entries out of d that say what to do with it, and does as they
// say: d is then a charge, or one more booking of c.
func (c *call) operate(i int, d *headgate.Descriptor) error {
	op := descriptor.ValueOf(d.Entries, opEntry)
	if err := onlyOne(d.Entries, opEntry); op == "" || err != nil {
		return err
	}
	for _, key := range [...]string{idEntry, estimateEntry, ttlEntry} {
		if err := onlyOne(d.Entries, key); err != nil {
			return err
		}
	}
	b := booking{descriptor: i, actual: d.Hits}
	switch op {
	case "charge":
		c.stripOperation(i, d)
		if d.Op != store.Hit {
			return fmt.Errorf("%s is %q, and the hits are negative; hint: one of them", opEntry, op)
		}
		d.Op = store.Charge
		return nil
	case "reserve":
	case "commit":
		b.op = commit
	case "cancel":
		b.op = cancel
	default:
		return fmt.Errorf("%s is %q; hint: charge, reserve, commit or cancel", opEntry, op)
	}
	if err := b.describe(d); err != nil {
		return err
	}
	if len(c.bookings) == maxBookings {
		return fmt.Errorf("more than %d descriptors that reserve or settle; hint: send several calls", maxBookings)
	}
	c.stripOperation(i, d)
	b.request = headgate.Request{
		Domain:      c.message.domain,
		Descriptors: []headgate.Descriptor{{Entries: d.Entries, Hits: b.request.Descriptors[0].Hits}},
	}
	if b.op != reserve {
		d.Op = store.Charge // whatever is left, it is not over
	}
	c.bookings = append(c.bookings, b)
	return nil
}

// describe reads what d says of a reservation.
func (b *booking) describe(d *headgate.Descriptor) error {
	estimate, err := strconv.ParseUint(descriptor.ValueOf(d.Entries, estimateEntry), 10, 64)
	if err != nil || estimate > limit.MaxQuota {
		return fmt.Errorf("%s is %q; hint: the hits to reserve, 0 to %d, the same when they are settled", estimateEntry, descriptor.ValueOf(d.Entries, estimateEntry), int64(limit.MaxQuota))
	}
	if b.options.ID = descriptor.ValueOf(d.Entries, idEntry); b.options.ID == "" {
		return fmt.Errorf("no %s; hint: what names the request, such as its x-request-id", idEntry)
	}
	if ttl := descriptor.ValueOf(d.Entries, ttlEntry); ttl != "" {
		if b.options.TTL, err = time.ParseDuration(ttl); err != nil {
			return fmt.Errorf("%s is %q; hint: a time such as 30m", ttlEntry, ttl)
		}
	}
	if d.Limit != nil || d.Op != store.Hit {
		return errors.New("a limit override or negative hits in a reservation; hint: leave them out")
	}
	b.request.Descriptors = []headgate.Descriptor{{Hits: int64(estimate)}}
	return nil
}

// onlyOne refuses two values of a key: which one is meant cannot be known.
func onlyOne(entries []descriptor.Entry, key string) error {
	one := descriptor.ValueOf(entries, key)
	for i := range entries {
		if e := &entries[i]; e.Key == key && e.Value != one {
			return fmt.Errorf("two values of %s; hint: a descriptor has one", key)
		}
	}
	return nil
}

// stripOperation takes the entries that are not matched out of descriptor i.
func (c *call) stripOperation(i int, d *headgate.Descriptor) {
	kept := slices.DeleteFunc(d.Entries, func(e descriptor.Entry) bool {
		return e.Key == opEntry || e.Key == idEntry || e.Key == estimateEntry || e.Key == ttlEntry
	})
	w := &c.message.descriptors[i]
	w.to = w.from + len(kept)
	d.Entries = kept[:len(kept):len(kept)]
}

// isBooked reports whether descriptor i makes or settles a reservation.
func (c *call) isBooked(i int) bool {
	return slices.ContainsFunc(c.bookings, func(b booking) bool { return b.descriptor == i })
}

// checkBooked decides a call that has bookings: what is settled first, then what is
// reserved, then the rest in one check. When one of them is denied or malformed, nothing
// after it is asked, and what was reserved before it is cancelled.
func (s *service) checkBooked(ctx context.Context, checker Checker, c *call) error {
	reserver, ok := checker.(Reserver)
	if !ok {
		return status.Error(codes.Unimplemented, "reservations are not made here")
	}
	rest, at := c.rest()
	if err := permitRest(checker, rest); err != nil {
		return err
	}
	all := &c.responses[0]
	*all = headgate.Response{Allowed: true, Verdicts: all.Verdicts[:0]}
	slices.SortStableFunc(c.bookings, func(a, b booking) int { return int(b.op) - int(a.op) })
	for i := range c.bookings {
		if !all.Allowed {
			break
		}
		if err := c.bookings[i].book(ctx, reserver, all); err != nil {
			c.giveUp(ctx, reserver)
			return refused(fmt.Errorf("descriptor %d: %w", c.bookings[i].descriptor, err))
		}
	}
	if all.Allowed {
		if err := checkRest(ctx, checker, asked{rest, at}, all); err != nil {
			c.giveUp(ctx, reserver)
			return err
		}
	}
	if !all.Allowed {
		c.giveUp(ctx, reserver)
	}
	slices.SortStableFunc(all.Verdicts, func(a, b headgate.Verdict) int { return a.Descriptor - b.Descriptor })
	return nil
}

// book makes or settles the reservation, and adds what was said to all.
func (b *booking) book(ctx context.Context, reserver Reserver, all *headgate.Response) (err error) {
	var resp headgate.Response
	r := reservation.Reservation{}
	if b.op != reserve {
		if r, err = b.request.Reservation(b.options); err != nil {
			return err
		}
	}
	switch b.op {
	case reserve:
		b.made, err = reserver.Reserve(ctx, &b.request, b.options, &resp)
	case commit:
		_, err = reserver.Commit(ctx, r, reservation.Actual{Hits: []int64{b.actual}}, &resp)
	case cancel:
		_, err = reserver.Cancel(ctx, r, &resp)
	}
	if err != nil {
		return err
	}
	add(all, &resp, func(int) int { return b.descriptor })
	return nil
}

// permitter is a Checker that tells beforehand what it refuses: a headgate.Door.
type permitter interface {
	Permit(requests []headgate.Request) error
}

// permitRest refuses a call for what it asks beside its bookings before any of those is
// done, because what is settled cannot be taken back.
func permitRest(checker Checker, requests []headgate.Request) error {
	door, ok := checker.(permitter)
	if !ok || len(requests) == 0 {
		return nil
	}
	if err := door.Permit(requests); err != nil {
		return refused(err)
	}
	return nil
}

// asked are the descriptors of a call that are no bookings, and where they are in it.
type asked struct {
	requests []headgate.Request
	at       []int
}

// checkRest decides the descriptors that are no bookings.
func checkRest(ctx context.Context, checker Checker, rest asked, all *headgate.Response) error {
	if len(rest.requests) == 0 {
		return nil
	}
	responses := make([]headgate.Response, 1)
	if err := checker.Check(ctx, rest.requests, responses); err != nil {
		return refused(err)
	}
	add(all, &responses[0], func(i int) int { return rest.at[i] })
	return nil
}

// rest returns a request of the descriptors that are no bookings, and where they are in
// the call; none where there are no such.
func (c *call) rest() (requests []headgate.Request, at []int) {
	var rest []headgate.Descriptor
	for i := range c.descriptors {
		if !c.isBooked(i) {
			rest, at = append(rest, c.descriptors[i]), append(at, i)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	return []headgate.Request{{Domain: c.message.domain, Descriptors: rest, Origin: c.requests[0].Origin}}, at
}

// add adds one to all; of places its descriptors in the call.
func add(all, one *headgate.Response, of func(int) int) {
	all.Allowed = all.Allowed && one.Allowed
	all.DomainKnown = all.DomainKnown || one.DomainKnown
	if !one.ID.IsZero() {
		all.ID = one.ID // the last one, because nothing is asked after a denial
	}
	for _, v := range one.Verdicts {
		v.Descriptor = of(v.Descriptor)
		all.Verdicts = append(all.Verdicts, v)
	}
}

// giveUp cancels what was reserved for a call that is denied in the end.
func (c *call) giveUp(ctx context.Context, reserver Reserver) {
	for i := range c.bookings {
		if b := &c.bookings[i]; b.made != (reservation.Reservation{}) {
			var resp headgate.Response
			// It was made just now and is well formed: nothing but the store can
			// fail, and then it stays charged.
			_, _ = reserver.Cancel(context.WithoutCancel(ctx), b.made, &resp)
		}
	}
}
