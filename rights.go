package headgate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
)

// Rights say what callers may do. The zero value lets them do nothing.
type Rights struct {
	// Check lets callers ask whether requests may pass, charge them (store.Charge), and
	// renew and release slots by their Hold.
	Check bool
	// NameLimits lets callers bring limits of their own (Descriptor.Limit). Whoever may
	// do that is not limited.
	NameLimits bool
	// GiveBack lets callers give back what was used (store.Refund) and forget it
	// (store.Reset), whoever has used it. Without it a refund still frees slots of
	// limits on concurrency, because Envoy has no other way to say that a request has
	// ended; one that would give back anything else is refused.
	GiveBack bool
	// Reserve lets callers reserve, and settle reservations: they give back what their
	// own were charged, once, and nothing else.
	Reserve bool
	// Explain lets callers see how a request would be decided, with the counts that
	// others have used.
	Explain bool
}

// everyRight is that of the program which made the Limiter.
var everyRight = Rights{Check: true, NameLimits: true, GiveBack: true, Reserve: true, Explain: true}

// Names of rights, as RightsError.Right has them.
const (
	RightCheck      = "check"
	RightNameLimits = "name_limits"
	RightGiveBack   = "give_back"
	RightReserve    = "reserve"
	RightExplain    = "explain"
)

// RightsError refuses a request because its caller lacks a right. Nothing was decided or charged.
type RightsError struct {
	// Request and Descriptor are the indexes of what is refused. Descriptor is -1 where the whole
	// call is refused.
	Request, Descriptor int
	// Right is the one that is missing: RightCheck and so on.
	Right string
	// What is refused, and a Hint what to do about it.
	What, Hint string
}

// Error implements error.
func (e *RightsError) Error() string {
	if e.Descriptor < 0 {
		return fmt.Sprintf("%s; hint: %s", e.What, e.Hint)
	}
	return fmt.Sprintf("request %d: descriptor %d: %s; hint: %s", e.Request, e.Descriptor, e.What, e.Hint)
}

// refusedAt says in err, where that is a refusal, that it is of request i, and returns it.
func refusedAt(i int, err error) error {
	if refused, ok := err.(*RightsError); ok {
		refused.Request = i
	}
	return err
}

// hintRights ends the hints about rights that only who runs the server can give.
const hintRights = "only who runs this server can allow it (--callers, --caller-limits), and with --no-caller-limits nobody may"

// mayNot refuses a call as a whole.
func mayNot(right, what string) *RightsError {
	return &RightsError{
		Descriptor: -1, Right: right, What: what,
		Hint: "show a token or a certificate that has the right " + right + "; only who runs this server can give one (--callers)",
	}
}

func mayNotName(request, descriptor int) *RightsError {
	return &RightsError{
		Request: request, Descriptor: descriptor, Right: RightNameLimits,
		What: "limits named by the caller are not served here",
		Hint: "leave the limit out, so that the rules decide; " + hintRights,
	}
}

func mayNotGiveBack(request, descriptor int) *RightsError {
	return &RightsError{
		Request: request, Descriptor: descriptor, Right: RightGiveBack,
		What: "refunds and resets are not served here",
		Hint: "reserve and cancel what may be given back; slots of requests in flight are renewed and released by their hold; " + hintRights,
	}
}

// permit refuses what can be seen to take a right that r lacks before the rules are
// asked.
func (r *Rights) permit(requests []Request) error {
	switch {
	case !r.Check:
		return mayNot(RightCheck, "checks are not served to this caller")
	case r.NameLimits && r.GiveBack:
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

// permitPlanned refuses planned refunds of callers who may not give back, except those of slots.
// Nor is time in flight given back. But one rule may limit both slots and time in flight, so
// refunds of time are not refused: they become refunds of 0 hits.
func (r *Rights) permitPlanned(p *plan, responses []Response) error {
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

// permitRefunds refuses what permitPlanned would, for requests that may be answered without
// being planned because they repeat others.
func (l *Limiter) permitRefunds(requests []Request, rights *Rights) error {
	if rights.GiveBack {
		return nil
	}
	for i := range requests {
		for j := range requests[i].Descriptors {
			if requests[i].Descriptors[j].Op == store.Refund {
				return l.permits(requests, rights)
			}
		}
	}
	return nil
}

// permits plans requests, and asks nobody.
func (l *Limiter) permits(requests []Request, rights *Rights) error {
	p, responses := l.begin(l.switches.Load()), make([]Response, len(requests))
	defer l.finish(p, responses)
	p.addRequests(requests, responses)
	return rights.permitPlanned(p, responses)
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
	// AnswersLast is for how long the answers to checks with an id are remembered, from
	// repeat.MinLifetime to repeat.MaxLifetime; 0 means a minute.
	AnswersLast time.Duration
}

// Door returns a Door to l.
func (l *Limiter) Door(o DoorOptions) *Door { return &Door{l, o} }

// Rules returns the rules in force, nil if there are none.
func (d *Door) Rules() *rules.Set { return d.limiter.Rules() }

// Permit returns the *RightsError by which Check would refuse requests now, under the rules in
// force, and nil if it would not refuse them. It charges nothing. It is for callers who are about
// to do something that cannot be undone. The requests must be well formed.
func (d *Door) Permit(requests []Request) error {
	err := d.options.Rights.permit(requests)
	if err == nil && !d.options.Rights.GiveBack {
		err = d.limiter.permits(requests, &d.options.Rights)
	}
	return d.checked(requests, err)
}

// Check is Limiter.Check for the callers of d. It sets Origin.Front of the requests. Its
// error may be a *RightsError.
func (d *Door) Check(ctx context.Context, requests []Request, responses []Response) error {
	d.name(requests)
	return d.checked(requests, d.limiter.check(ctx, requests, responses, &d.options.Rights))
}

// name says in requests by which way they came.
func (d *Door) name(requests []Request) {
	for i := range requests {
		requests[i].Origin.Front = d.options.Name
	}
}

// checked returns err, the error of a check of requests. A refusal is told of.
func (d *Door) checked(requests []Request, err error) error {
	refused, ok := err.(*RightsError)
	if !ok {
		return err
	}
	if refused.Request < len(requests) {
		d.refuse(&requests[refused.Request], refused)
	}
	return fmt.Errorf("check: %w", refused)
}

// refuse tells of a refusal, and returns it.
func (d *Door) refuse(req *Request, refused *RightsError) error {
	if d.options.OnRefused != nil {
		d.options.OnRefused(req, refused)
	}
	return refused
}

// DryRun is Limiter.DryRun; it takes the right to explain.
func (d *Door) DryRun(ctx context.Context, req *Request, before, after *Response) error {
	if !d.options.Rights.Explain {
		return d.refuse(req, mayNot(RightExplain, "nothing is explained to this caller"))
	}
	return d.limiter.DryRun(ctx, req, before, after)
}

// Switches is Limiter.Switches.
func (d *Door) Switches() *switches.Set { return d.limiter.Switches() }

// mayReserve returns an error for callers who may not reserve. req is what they want to
// reserve, nil where they settle.
func (d *Door) mayReserve(req *Request) error {
	if d.options.Rights.Reserve {
		return nil
	}
	return d.refuse(cmp.Or(req, new(Request)), mayNot(RightReserve, "reservations are not made for this caller"))
}

// Reserve is Limiter.Reserve; it takes the right to. It sets Origin.Front of req.
func (d *Door) Reserve(ctx context.Context, req *Request, o reservation.Options, resp *Response) (reservation.Reservation, error) {
	req.Origin.Front = d.options.Name
	if err := d.mayReserve(req); err != nil {
		resp.empty()
		return reservation.Reservation{}, err
	}
	return d.limiter.Reserve(ctx, req, o, resp)
}

// Commit is Limiter.Commit; it takes the right to reserve.
func (d *Door) Commit(ctx context.Context, r reservation.Reservation, a reservation.Actual, resp *Response) (reservation.Outcome, error) {
	if err := d.mayReserve(nil); err != nil {
		return reservation.Undecided, err
	}
	return d.limiter.Commit(ctx, r, a, resp)
}

// Cancel is Limiter.Cancel; it takes the right to reserve.
func (d *Door) Cancel(ctx context.Context, r reservation.Reservation, resp *Response) (reservation.Outcome, error) {
	if err := d.mayReserve(nil); err != nil {
		return reservation.Undecided, err
	}
	return d.limiter.Cancel(ctx, r, resp)
}
