package headgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/once"
	"github.com/headgate/headgate/internal/orphans"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/stopwatch"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/trial"
)

// defaultMaxWaiting bounds the goroutines that Wait parks: at 4 KiB of stack
// each, 40 MiB.
const defaultMaxWaiting = 10_000

// Limiter decides requests by a set of rules and a store. It is safe for
// concurrent use. Make one with New.
type Limiter struct {
	store    store.Store
	fallback store.Store // nil: none
	// onPassed may be nil.
	onPassed func(*store.Take, error)
	inForce  atomic.Pointer[ruleset]
	tenants  atomic.Pointer[tenant.Snapshot]
	switches atomic.Pointer[switches.Set]
	// keyRaises may be nil.
	keyRaises KeyRaises
	shadow    bool
	recorder  Recorder // nil: none
	observer  Observer // nil: none
	now       func() time.Time
	// onRollBack may be nil.
	onRollBack func(trial.Report)
	plans      sync.Pool // of *plan
	coverages  sync.Pool // of *coverage
	bookings   sync.Pool // of *booking
	marks      reservation.Marks
	waiting    chan struct{}

	orphans orphans.Slots
	// heldLocally says that the fallback may have given slots.
	heldLocally atomic.Bool
	reserved    reservationCounters
	answers     once.Memory
}

// New returns a Limiter. The caller keeps the store and closes it.
func New(o Options) (*Limiter, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxWaiting = cmp.Or(o.MaxWaiting, defaultMaxWaiting)
	l := &Limiter{
		store:      o.Store,
		fallback:   o.Fallback,
		onPassed:   o.OnPassed,
		keyRaises:  o.KeyRaises,
		shadow:     o.Shadow,
		recorder:   o.Recorder,
		observer:   o.Observer,
		now:        o.Now,
		onRollBack: o.OnRollBack,
		waiting:    make(chan struct{}, o.MaxWaiting),
	}
	l.marks = reservation.MarksOf(func(one *limit.Limit) error { return store.Supports(o.Store, one) })
	l.plans.New = func() any {
		return &plan{matcher: matcher{clock: l.now, shadow: l.shadow, keyRaises: l.keyRaises}}
	}
	l.coverages.New = func() any { return new(coverage) }
	l.bookings.New = func() any { return new(booking) }
	l.answers = once.Memory{
		Store: o.Answers, Patience: cmp.Or(o.AnswersAwaited, once.Patience),
		Waiting: l.waiting, Panicked: l.panicked,
	}
	if l.answers.Store == nil {
		l.answers.Store, _ = o.Store.(store.Swapper)
	}
	l.SetRules(o.Rules)
	l.SetTenants(nil)
	return l, nil
}

// validate says what New cannot work with.
func (o *Options) validate() error {
	switch {
	case o.Store == nil:
		return errors.New("no store; hint: memstore.New keeps the buckets in this process")
	case o.MaxWaiting < 0:
		return fmt.Errorf("MaxWaiting %d; hint: 0 is the default, %d", o.MaxWaiting, defaultMaxWaiting)
	case o.AnswersAwaited < 0:
		return fmt.Errorf("AnswersAwaited %v; hint: 0 is the default, %v", o.AnswersAwaited, once.Patience)
	}
	return nil
}

// Check decides requests[i] into responses[i]; the slices have the same length.
// The verdict slices of the responses are reused. All requests go to the store
// in one batch, in order: a later one sees what an earlier one was charged.
//
// A second batch follows, for which Check waits 5 ms at most, when a denied request had
// taken slots or hits, when a denial counts towards a ban, and when an earlier call could
// not release the slots of a denied request. When quotas of a tenant deny that has a burst
// pool or top-ups, up to 8 batches come before that one.
//
// An error names a malformed request (see ErrNoDomain and its kin) and means
// that nothing was decided or charged; no response is Allowed then. A store that fails is never an error:
// the rule's failure mode answers, and the verdicts say Degraded. The same goes
// for a panic inside the decision, and for a ctx that ends first. A client can end the context of
// an http.Request, and would so choose who answers: pass context.WithoutCancel of such a context.
func (l *Limiter) Check(ctx context.Context, requests []Request, responses []Response) error {
	return l.check(ctx, requests, responses, &everyRight)
}

// check is Check for callers who have rights. Its error may be a *RightsError.
func (l *Limiter) check(ctx context.Context, requests []Request, responses []Response, rights *Rights) error {
	if err := admit(requests, responses, rights); err != nil {
		return refused(responses, err)
	}
	took, err := l.decide(ctx, requests, responses, l.switches.Load(), rights)
	if err != nil {
		return refused(responses, err)
	}
	for i := range requests {
		l.tell(&requests[i], &responses[i], took)
	}
	return nil
}

// admit refuses what is malformed, and what can be seen to lack a right.
func admit(requests []Request, responses []Response, rights *Rights) error {
	if err := oneForEach("check", requests, responses); err != nil {
		return err
	}
	for i := range requests {
		if err := requests[i].validate(); err != nil {
			return fmt.Errorf("check: request %d: %w", i, err)
		}
	}
	return rights.permit(requests)
}

// oneForEach refuses slices of different lengths.
func oneForEach(what string, requests []Request, responses []Response) error {
	if len(requests) != len(responses) {
		return fmt.Errorf("%s: %d requests but %d responses; hint: give one response for each request", what, len(requests), len(responses))
	}
	return nil
}

// refused empties the responses of a call that ends with err, which it returns: they may be those
// of a call before, and whoever overlooks the error shall not let a request pass by them.
func refused(responses []Response, err error) error {
	for i := range responses {
		responses[i].empty()
	}
	return err
}

// tell has a decision named, and then seen.
func (l *Limiter) tell(req *Request, resp *Response, took time.Duration) {
	if l.recorder != nil {
		resp.ID = l.recorder.Record(req, resp, took)
	}
	if l.observer != nil {
		l.observer.Decided(req, resp, took)
	}
}

// isWatched reports whether anybody wants to know how long decisions take.
func (l *Limiter) isWatched() bool { return l.observer != nil || l.recorder != nil }

// decide matches requests, asks the store once for all that they take, and answers; then
// comes what only the answers tell. It returns how long that took, for the observer. What
// rights do not allow is refused before the store is asked, by a *RightsError.
//
// Where it panics for several requests, each is decided once more alone, so that only the one
// at fault is answered in place of a decision. What was charged before the panic stays charged.
func (l *Limiter) decide(ctx context.Context, requests []Request, responses []Response, switched *switches.Set, rights *Rights) (took time.Duration, err error) {
	took, panicked, err := l.decideTogether(ctx, requests, responses, switched, rights)
	if !panicked || len(requests) == 1 {
		return took, err
	}
	for i := range requests {
		if took, _, err = l.decideTogether(ctx, requests[i:i+1], responses[i:i+1], switched, rights); err != nil {
			return NotTimed, refusedAt(i, err)
		}
	}
	return took, nil
}

// decideTogether is decide, but says when it has panicked.
func (l *Limiter) decideTogether(ctx context.Context, requests []Request, responses []Response, switched *switches.Set, rights *Rights) (took time.Duration, panicked bool, err error) {
	took = NotTimed
	p := l.begin(switched)
	defer func() { panicked = l.end(p, responses, recover()) }()
	if l.isWatched() {
		p.watch.Start(p.watch.Skips() && traced(requests))
	}
	p.addRequests(requests, responses)
	if err := rights.permitPlanned(p, responses); err != nil {
		p.watch.Stop()
		return NotTimed, false, refused(responses, err)
	}
	p.bindKeys()
	p.keepToReceipts(requests, responses)
	fellBack := l.exchange(ctx, l.store, &p.batch)
	p.fillReceipts(requests)
	p.answerAll(responses)
	l.coverDenials(ctx, p, requests, responses, nil)
	l.compensate(ctx, p, responses, fellBack, false)
	if p.hit.has(rules.Candidate) {
		for i := range responses {
			l.compare(p, &responses[i], p.spans[i].verdicts)
		}
	}
	return p.watch.Stop(), false, nil
}

// begin returns a plan for one call, by what is in force now and the switches that it is to
// obey; finish ends it.
func (l *Limiter) begin(switched *switches.Set) *plan {
	p := l.plans.Get().(*plan)
	if now := l.inForce.Load(); p.rules != now {
		p.rules = now
	}
	if now := l.tenants.Load(); p.tenants != now {
		p.tenants = now
	}
	if p.switches != switched {
		p.switches = switched
	}
	return p
}

// finish is deferred: it answers for a panic.
func (l *Limiter) finish(p *plan, responses []Response) { l.end(p, responses, recover()) }

// end ends the use of p, answers for a panic where cause is not nil, and reports whether there
// was one. A plan that panicked is not returned to the pool, because nothing is known about its
// state.
func (l *Limiter) end(p *plan, responses []Response, cause any) (panicked bool) {
	if cause != nil {
		l.answerPanic(responses, cause)
		return true
	}
	p.reset()
	l.plans.Put(p)
	return false
}

// Wait is Check for one request that also waits out its delay. What the request
// holds is not renewed meanwhile. It returns when the request may go on or is denied (see
// Response.Allowed). When ctx ends first, the request gives up its place: the
// hits are refunded and ctx's error is returned. At most Options.MaxWaiting
// calls wait at a time; one more is refunded and returns ErrQueueFull. resp must not
// be nil; with an error it is not Allowed.
func (l *Limiter) Wait(ctx context.Context, req *Request, resp *Response) error {
	responses := []Response{*resp}
	err := l.Check(ctx, []Request{*req}, responses)
	*resp = responses[0]
	if err != nil {
		return err
	}
	delay := resp.Delay()
	if delay == 0 {
		return nil
	}
	select {
	case l.waiting <- struct{}{}:
		defer func() { <-l.waiting }()
	default:
		l.giveUp(ctx, req, resp)
		return ErrQueueFull
	}
	if err := sleep.For(ctx, delay); err != nil {
		l.giveUp(ctx, req, resp)
		return err
	}
	return nil
}

// giveUp refunds what req was charged, though its context may have ended, and takes back resp,
// by which it was let in.
func (l *Limiter) giveUp(ctx context.Context, req *Request, resp *Response) {
	resp.empty()
	refund := *req
	refund.Receipt = nil // it has no hits, only charges
	refund.Descriptors = make([]Descriptor, len(req.Descriptors))
	for i, d := range req.Descriptors {
		d.Op = store.Refund
		refund.Descriptors[i] = d
	}
	// The only error of Check is a malformed request, and this one was not.
	_ = l.Check(context.WithoutCancel(ctx), []Request{refund}, make([]Response, 1))
}

// NotTimed is what observers are told of a call that was not timed. Any negative time is
// one.
const NotTimed = stopwatch.NotTimed

// traced reports whether a caller records a trace that one of the requests is part of.
func traced(requests []Request) bool {
	for i := range requests {
		if requests[i].Origin.Trace.Sampled {
			return true
		}
	}
	return false
}
