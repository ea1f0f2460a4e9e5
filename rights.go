package headgate

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// Rights say what callers may do beyond asking whether a request may pass. The zero
// value lets them do nothing beyond that: they are limited by the rules alone.
//
// To charge (store.Charge), to reserve, to settle a reservation of one's own, and to
// renew and release slots by their Hold takes no right.
type Rights struct {
	// NameLimits lets callers bring limits of their own (Descriptor.Limit). Whoever may
	// do that is not limited.
	NameLimits bool
	// GiveBack lets callers give back what was used (store.Refund) and forget it
	// (store.Reset), whoever has used it. Without it a refund still frees slots of
	// limits on concurrency, since Envoy has no other way to say that a request has
	// ended; one that would give back anything else is refused.
	GiveBack bool
}

// everyRight is that of the program which made the Limiter.
var everyRight = Rights{NameLimits: true, GiveBack: true}

// Names of rights, as RightsError.Right has them.
const (
	RightNameLimits = "name_limits"
	RightGiveBack   = "give_back"
)

// RightsError refuses what who asks has no right to. Nothing was decided or charged.
type RightsError struct {
	// Request and Descriptor are the indexes of what is refused.
	Request, Descriptor int
	// Right is the one that is missing: RightNameLimits or RightGiveBack.
	Right string
	// What is refused, and a Hint what to do about it.
	What, Hint string
}

// Error implements error.
func (e *RightsError) Error() string {
	return fmt.Sprintf("request %d: descriptor %d: %s; hint: %s", e.Request, e.Descriptor, e.What, e.Hint)
}

func mayNotName(request, descriptor int) *RightsError {
	return &RightsError{
		Request: request, Descriptor: descriptor, Right: RightNameLimits,
		What: "limits named by the caller are not served here",
		Hint: "leave the limit out, so that the rules decide; only who runs this server can allow it (--caller-limits)",
	}
}

func mayNotGiveBack(request, descriptor int) *RightsError {
	return &RightsError{
		Request: request, Descriptor: descriptor, Right: RightGiveBack,
		What: "refunds and resets are not served here",
		Hint: "reserve and cancel what may be given back; slots of requests in flight are renewed and released by their hold; only who runs this server can allow it (--caller-limits)",
	}
}

// permit refuses what can be seen to take a right that r lacks before the rules are
// asked.
func (r *Rights) permit(requests []Request) *RightsError {
	if *r == everyRight {
		return nil
	}
	for i := range requests {
		for j := range requests[i].Descriptors {
			switch d := &requests[i].Descriptors[j]; {
			case d.Limit != nil && !r.NameLimits:
				return mayNotName(i, j)
			case d.Op == store.Reset && !r.GiveBack:
				return mayNotGiveBack(i, j)
			}
		}
	}
	return nil
}

// permitPlanned refuses refunds of what counts hits, where r does not let give back:
// all that are planned but those of slots. Time in flight is not given back either, but
// it goes with slots in one rule, so that a refund of it is made none.
func (r *Rights) permitPlanned(p *plan, responses []Response) *RightsError {
	if r.GiveBack {
		return nil
	}
	for i, s := range p.spans {
		for j := s.verdicts.from; j < s.verdicts.to; j++ {
			v, t := &responses[i].Verdicts[j-s.verdicts.from], p.verdictTake[j]
			if t >= 0 && v.Role == rules.Sustained && p.takes[t].Op == store.Refund {
				p.takes[t].Hits, v.Hits = 0, 0
			}
		}
		for t := s.takes.from; t < s.takes.to; t++ {
			if take := &p.takes[t]; take.Op == store.Refund && take.Hold == 0 && take.Hits > 0 {
				return mayNotGiveBack(i, p.descriptorOf(&responses[i], s.verdicts, t))
			}
		}
	}
	return nil
}

// permits plans requests, and asks nobody.
func (l *Limiter) permits(requests []Request, rights *Rights) *RightsError {
	p, responses := l.begin(l.switches.Load()), make([]Response, len(requests))
	defer l.finish(p, responses)
	for i := range requests {
		p.addRequest(&requests[i], &responses[i])
	}
	return rights.permitPlanned(p, responses)
}

// forget empties responses that were not decided.
func forget(responses []Response) {
	for i := range responses {
		responses[i] = Response{Verdicts: responses[i].Verdicts[:0]}
	}
}

// descriptorOf returns the descriptor that asks for a take of a response with the
// verdicts s.
func (p *plan) descriptorOf(resp *Response, s span, take int) int {
	for j := s.from; j < s.to; j++ {
		if p.verdictTake[j] == take {
			return resp.Verdicts[j-s.from].Descriptor
		}
	}
	return 0
}

// Door is the way to a Limiter for callers who have the same rights, such as all that
// reach one listener. Whoever answers callers over a network asks through a Door. It is
// safe for concurrent use. Make one with Limiter.Door.
type Door struct {
	limiter *Limiter
	options DoorOptions
}

// DoorOptions configures a Door. The zero value is a Door without a name whose callers
// have no rights.
type DoorOptions struct {
	// Name is the Origin.Front of all requests.
	Name string
	// Rights are those of the callers.
	Rights Rights
	// OnRefused, when not nil, is told of every request that was refused for want of a
	// right. It must not block, and must not keep the strings of the request.
	OnRefused func(req *Request, refused *RightsError)
}

// Door returns a Door to l.
func (l *Limiter) Door(o DoorOptions) *Door { return &Door{l, o} }

// Rules returns the rules in force, nil if there are none.
func (d *Door) Rules() *rules.Set { return d.limiter.Rules() }

// Permit returns a *RightsError where Check would refuse requests by the rules in force
// now, and charges nothing. It is for who has to know before it does something else that
// cannot be undone. requests have to be well formed.
func (d *Door) Permit(requests []Request) error {
	refused := d.options.Rights.permit(requests)
	if refused == nil && d.options.Rights != everyRight {
		refused = d.limiter.permits(requests, &d.options.Rights)
	}
	if refused != nil {
		return d.refused(requests, refused)
	}
	return nil
}

// Check is Limiter.Check for the callers of d. It sets Origin.Front of the requests. Its
// error may be a *RightsError.
func (d *Door) Check(ctx context.Context, requests []Request, responses []Response) error {
	for i := range requests {
		requests[i].Origin.Front = d.options.Name
	}
	refused, err := d.limiter.check(ctx, requests, responses, &d.options.Rights)
	if refused != nil {
		return d.refused(requests, refused)
	}
	return err
}

func (d *Door) refused(requests []Request, refused *RightsError) error {
	if d.options.OnRefused != nil {
		d.options.OnRefused(&requests[refused.Request], refused)
	}
	return fmt.Errorf("check: %w", refused)
}

// Reserve is Limiter.Reserve; it takes no right. It sets Origin.Front of req.
func (d *Door) Reserve(ctx context.Context, req *Request, o reservation.Options, resp *Response) (reservation.Reservation, error) {
	req.Origin.Front = d.options.Name
	return d.limiter.Reserve(ctx, req, o, resp)
}

// Commit is Limiter.Commit; it takes no right.
func (d *Door) Commit(ctx context.Context, r reservation.Reservation, a reservation.Actual, resp *Response) (reservation.Outcome, error) {
	return d.limiter.Commit(ctx, r, a, resp)
}

// Cancel is Limiter.Cancel; it takes no right.
func (d *Door) Cancel(ctx context.Context, r reservation.Reservation, resp *Response) (reservation.Outcome, error) {
	return d.limiter.Cancel(ctx, r, resp)
}
