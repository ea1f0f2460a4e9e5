package headgate

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/trial"
	"github.com/headgate/headgate/verdict"
)

// defaultMaxWaiting bounds the goroutines that Wait parks: at 4 KiB of stack
// each, 40 MiB.
const defaultMaxWaiting = 10_000

// Limiter decides requests by a set of rules and a store. It is safe for
// concurrent use. Make one with New.
type Limiter struct {
	store    store.Store
	fallback store.Store // nil: none
	inForce  atomic.Pointer[ruleset]
	tenants  atomic.Pointer[tenant.Snapshot]
	switches atomic.Pointer[switches.Set]
	shadow   bool
	observer Observer
	now      func() time.Time
	// onRollBack may be nil.
	onRollBack func(trial.Report)
	plans      sync.Pool // of *plan
	waiting    chan struct{}

	leftovers leftovers
	// heldLocally says that the fallback may have given slots.
	heldLocally atomic.Bool
	reserved    reservationCounters
}

// New returns a Limiter. The caller keeps the store and closes it.
func New(o Options) (*Limiter, error) {
	if o.Store == nil {
		return nil, errors.New("new limiter: no store; hint: memstore.New keeps the buckets in this process")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = defaultMaxWaiting
	}
	l := &Limiter{
		store:      o.Store,
		fallback:   o.Fallback,
		shadow:     o.Shadow,
		observer:   o.Observer,
		now:        o.Now,
		onRollBack: o.OnRollBack,
		waiting:    make(chan struct{}, o.MaxWaiting),
	}
	l.plans.New = func() any { return new(plan) }
	l.SetRules(o.Rules)
	l.SetTenants(nil)
	return l, nil
}

// SetRules swaps the rules in whole; requests under way finish with the old.
// Buckets keep their state: it does not belong to a rule. What is known of candidates
// is kept for rules that try out the same.
func (l *Limiter) SetRules(s *rules.Set) { l.inForce.Store(newRuleset(s, l.inForce.Load())) }

// Rules returns the rules in force, nil if there are none.
func (l *Limiter) Rules() *rules.Set { return l.inForce.Load().set }

// LacksFallback reports whether a rule in force fails locally though there is no
// Options.Fallback: it lets requests pass while the store cannot decide.
func (l *Limiter) LacksFallback() bool {
	return l.fallback == nil && l.inForce.Load().failsLocally
}

// Check decides requests[i] into responses[i]; the slices have the same length.
// The verdict slices of the responses are reused. All requests go to the store
// in one batch, in order: a later one sees what an earlier one was charged. A
// second batch, for which Check waits 5 ms at most, follows where a request was
// denied after all that had taken a slot or hits, where a denial counts towards a
// ban, and where a call before could not release slots of who was denied.
// Where quotas of a tenant deny that has a burst pool or top-ups, up to 8 batches come
// before that.
//
// An error names a malformed request (see ErrNoDomain and its kin) and means
// that nothing was decided or charged. A store that fails is never an error:
// the rule's failure mode answers, and the verdicts say Degraded. The same goes
// for a panic inside the decision.
func (l *Limiter) Check(ctx context.Context, requests []Request, responses []Response) error {
	_, err := l.check(ctx, requests, responses, &everyRight)
	return err
}

// check is Check for callers who have rights.
func (l *Limiter) check(ctx context.Context, requests []Request, responses []Response, rights *Rights) (*RightsError, error) {
	if len(requests) != len(responses) {
		return nil, fmt.Errorf("check: %d requests but %d responses", len(requests), len(responses))
	}
	for i := range requests {
		if err := requests[i].validate(); err != nil {
			return nil, fmt.Errorf("check: request %d: %w", i, err)
		}
	}
	if refused := rights.permit(requests); refused != nil {
		return refused, nil
	}
	took, refused := l.decide(ctx, requests, responses, l.switches.Load(), rights)
	if refused != nil {
		return refused, nil
	}
	if l.observer != nil {
		for i := range requests {
			l.observer.Decided(&requests[i], &responses[i], took)
		}
	}
	return nil, nil
}

// decide plans the takes of all requests, asks the store once, and turns its
// results into responses. It returns how long that took, for the observer. What rights
// do not allow is refused before the store is asked.
func (l *Limiter) decide(ctx context.Context, requests []Request, responses []Response, switched *switches.Set, rights *Rights) (took time.Duration, refused *RightsError) {
	took = NotTimed
	p := l.plans.Get().(*plan)
	defer func() {
		if cause := recover(); cause != nil {
			// A plan that panicked is not returned to the pool: nothing is
			// known about its state.
			l.answerPanic(responses, cause)
			return
		}
		p.reset()
		l.plans.Put(p)
	}()
	p.limiter = l
	p.rules, p.tenants, p.switches = l.inForce.Load(), l.tenants.Load(), switched
	if l.observer != nil {
		p.stopwatch.start(p.stopwatch.skip > 0 && traced(requests))
	}
	for i := range requests {
		responses[i] = Response{Verdicts: responses[i].Verdicts[:0]}
		p.addRequest(&requests[i], &responses[i])
	}
	if refused = rights.permitPlanned(p, responses); refused != nil {
		p.stopwatch.stop()
		forget(responses)
		return NotTimed, refused
	}
	p.bindKeys()
	l.leftovers.forget(p.takes)
	l.take(ctx, l.store, p.takes, p.results)
	l.fallBack(ctx, p)
	for i := range responses {
		p.answer(&responses[i], p.spans[i].verdicts)
	}
	l.coverDenials(ctx, p, requests, responses)
	l.followUp(ctx, p, responses)
	if p.mayTry {
		for i := range responses {
			p.compare(&responses[i], p.spans[i].verdicts)
		}
	}
	return p.stopwatch.stop(), nil
}

// take asks s, turning a panic of it into errors of the takes.
func (l *Limiter) take(ctx context.Context, s store.Store, takes []store.Take, results []store.Result) {
	if len(takes) == 0 {
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			err := l.panicked(cause)
			for i := range results {
				results[i] = store.Result{Err: err}
			}
		}
	}()
	s.Take(ctx, takes, results)
}

// answerPanic allows every request, marked degraded: which rules would have
// spoken, and how they fail, is unknown.
func (l *Limiter) answerPanic(responses []Response, cause any) {
	err := l.panicked(cause)
	for i := range responses {
		responses[i].Hold, responses[i].HoldFor = 0, 0
		responses[i].Verdicts = append(responses[i].Verdicts[:0], Verdict{
			By:       verdict.ByFailureMode,
			Degraded: store.ReasonOf(err),
		})
		responses[i].Verdicts[0].Decision.Allowed = true
		responses[i].settle()
	}
}

// panicked turns a recovered panic into an error and tells the observer.
func (l *Limiter) panicked(cause any) error {
	err := &store.Error{
		Op: "decide", Store: "limiter", Reason: store.Internal,
		Hint: "this is a bug; please report it with the stack",
		Err:  fmt.Errorf("panic: %v\n%s", cause, debug.Stack()),
	}
	if o, ok := l.observer.(PanicObserver); ok {
		o.Panicked(err)
	}
	return err
}
