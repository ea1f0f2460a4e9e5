// Package admission lets calls in or not, for fronts that stand before a handler
// and then run it: it asks a Checker, answers in its place when it fails, waits
// out the delay of limits that shape, keeps the slots of calls in flight and frees
// them at the end, and gives hits back. What the caller is told is a matter of the
// front.
package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// Checker decides requests[i] into responses[i]. An error means that nothing
// was decided: a request is malformed (headgate.ErrDescriptor and its kin), or
// the checker could not be reached. Neither slice may be kept after it returns,
// nor what they refer to but for the strings.
type Checker interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

var _ Checker = (*headgate.Limiter)(nil)

// Defaults of Options.
const (
	// defaultMaxWaiting bounds the goroutines held back: at some 8 KiB of stack
	// and buffers each, 80 MiB.
	defaultMaxWaiting = 10_000
	// defaultMaxRefunds bounds the refunds under way, and the releases, so that a
	// store that hangs holds back so many finished calls at most.
	defaultMaxRefunds = 1_000
	// defaultRefundTimeout bounds one refund or release, and so how much later an
	// answer ends because of it.
	defaultRefundTimeout = 100 * time.Millisecond
)

// failureRetryAfter is what callers are told to wait when the checker failed:
// the same as the engine tells for a store that did.
const failureRetryAfter = time.Second

// Options configures a Gate.
type Options struct {
	// Checker decides; required.
	Checker Checker
	// FailClosed denies when the Checker returns an error for another reason
	// than a malformed request; else such calls pass, marked degraded.
	FailClosed bool
	// MaxWait bounds the delay of limits that shape which is waited out: a call
	// that would wait longer is given its hits back and denied. 0 means any
	// delay that the limits ask for; negative none.
	MaxWait time.Duration
	// MaxWaiting bounds the calls that wait at a time; 0 means
	// defaultMaxWaiting. One more is given its hits back and denied.
	MaxWaiting int
	// MaxRefunds bounds the refunds under way at a time, and the releases; 0 means
	// defaultMaxRefunds. One more refund is dropped and counted: what was charged
	// stays charged. One more release waits.
	MaxRefunds int
	// RefundTimeout bounds one refund or release; 0 means defaultRefundTimeout.
	RefundTimeout time.Duration
}

// Gate lets calls in. It is safe for concurrent use. Make one with New.
type Gate struct {
	options  Options
	ruled    ruled // nil: the Checker does not tell its rules
	waiting  chan struct{}
	refunds  chan struct{}
	releases chan struct{}
	keeper   keeper
	mayHold  holdFacts
	counts   counts
}

// New returns a Gate.
func New(o Options) (*Gate, error) {
	if o.Checker == nil {
		return nil, errors.New("no Checker; hint: pass a headgate.Limiter")
	}
	switch {
	case o.MaxWaiting < 0:
		return nil, fmt.Errorf("MaxWaiting %d; hint: 0 is the default, %d", o.MaxWaiting, defaultMaxWaiting)
	case o.MaxRefunds < 0:
		return nil, fmt.Errorf("MaxRefunds %d; hint: 0 is the default, %d", o.MaxRefunds, defaultMaxRefunds)
	case o.RefundTimeout < 0:
		return nil, fmt.Errorf("RefundTimeout %v; hint: 0 is the default, %v", o.RefundTimeout, defaultRefundTimeout)
	}
	o.MaxWaiting = cmp.Or(o.MaxWaiting, defaultMaxWaiting)
	o.MaxRefunds = cmp.Or(o.MaxRefunds, defaultMaxRefunds)
	o.RefundTimeout = cmp.Or(o.RefundTimeout, defaultRefundTimeout)
	g := &Gate{
		options:  o,
		waiting:  make(chan struct{}, o.MaxWaiting),
		refunds:  make(chan struct{}, o.MaxRefunds),
		releases: make(chan struct{}, o.MaxRefunds),
	}
	g.ruled, _ = o.Checker.(ruled)
	g.keeper.open(o.Checker, &g.counts)
	return g, nil
}

// Malformed reports whether err says that the request itself is at fault, and
// so that another try would fail as well.
func Malformed(err error) bool {
	return errors.Is(err, headgate.ErrDescriptor) || errors.Is(err, headgate.ErrHits) ||
		errors.Is(err, headgate.ErrNoDescriptors) || errors.Is(err, headgate.ErrNoDomain) || errors.Is(err, headgate.ErrHold)
}

// Admit decides p.Request into p.Response and, when it is allowed, waits until
// it may go on. ctx ends the wait and not the decision, which takes as long as the
// Checker lets it. A checker that fails is answered by the failure mode and never an
// error. An error means that the request is malformed, or that ctx ended while it
// waited; nothing is charged then.
//
// What the call holds is renewed from then on, until Release.
func (g *Gate) Admit(ctx context.Context, p *Pass) error {
	p.request[0].Descriptors, p.failure = p.Descriptors, nil
	if p.request[0].Hold == 0 && g.holds(p) {
		p.request[0].Hold = limit.NewHold()
	}
	// Who has gone, or says so, is decided for as others are: else a client could have the failure
	// mode answer, by closing its side of the connection or resetting its stream at once.
	if err := g.options.Checker.Check(context.WithoutCancel(ctx), p.request[:], p.response[:]); err != nil {
		if Malformed(err) {
			g.counts.malformed.Add(1)
			return err
		}
		g.counts.failed.Add(1)
		p.failure = err
		g.answerFailure(p.Response(), err)
	}
	if len(p.Limits) > 0 {
		p.nameVerdicts()
	}
	if resp := p.Response(); resp.Hold != 0 && resp.Allowed && !p.Rides {
		p.held = g.keeper.keep(p, resp)
	}
	if delay := p.Response().Delay(); delay > 0 {
		if err := g.wait(ctx, p, delay); err != nil {
			g.counts.gaveUp.Add(1)
			return err
		}
	}
	g.count(p.Response())
	return nil
}

// AdmitWithin is Admit for a caller with patience: while p is denied and would
// pass before so much time is over and before ctx ends, it waits and tries again.
func (g *Gate) AdmitWithin(ctx context.Context, p *Pass, patience time.Duration) error {
	for {
		if err := g.Admit(ctx, p); err != nil || p.Response().Allowed {
			return err
		}
		v := p.Response().Speaker()
		if v == nil || v.Decision.Never {
			return nil
		}
		retry := max(v.Decision.RetryAfter, leastRetry)
		if patience -= retry; patience < 0 {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < retry {
			return nil
		}
		select {
		case g.waiting <- struct{}{}:
		default:
			return nil
		}
		g.counts.delayed.Add(1)
		err := sleep.For(ctx, retry)
		<-g.waiting
		if err != nil {
			g.counts.gaveUp.Add(1)
			return err
		}
	}
}

// leastRetry keeps a caller with patience from asking without a pause.
const leastRetry = time.Millisecond

// answerFailure answers in place of a Checker that could not.
func (g *Gate) answerFailure(resp *headgate.Response, err error) {
	reason := store.ReasonOf(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		reason = store.Timeout
	case reason == store.Internal:
		reason = store.Unavailable
	}
	deny(resp, reason)
	if !g.options.FailClosed {
		resp.Allowed = true
		resp.Verdicts[0].Decision = limit.Decision{Allowed: true}
	}
}

// deny makes resp a denial that is no count: 503 in HTTP.
func deny(resp *headgate.Response, reason store.Reason) {
	resp.Allowed, resp.Hold, resp.HoldFor = false, 0, 0
	resp.Verdicts = append(resp.Verdicts[:0], headgate.Verdict{
		By:       verdict.ByFailureMode,
		Degraded: reason,
		Decision: limit.Decision{RetryAfter: failureRetryAfter},
	})
}

// wait holds the call back. A call that may not wait is turned into a denial.
func (g *Gate) wait(ctx context.Context, p *Pass, delay time.Duration) error {
	if maxWait := g.options.MaxWait; maxWait < 0 || maxWait > 0 && delay > maxWait {
		g.giveBack(ctx, p)
		denyByDelay(p.Response())
		return nil
	}
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		g.giveBack(ctx, p)
		deny(p.Response(), store.Overloaded)
		return nil
	}
	g.counts.delayed.Add(1)
	if err := sleep.For(ctx, delay); err != nil {
		g.giveBack(ctx, p)
		return err
	}
	return nil
}

// denyByDelay denies by the limits that wanted to hold the call back, which
// would let it pass after the delay.
func denyByDelay(resp *headgate.Response) {
	resp.Allowed, resp.Hold, resp.HoldFor = false, 0, 0
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		d, delay := &v.Decision, v.Decision.Delay
		if soft := v.Soft(); soft != nil {
			delay = max(delay, soft.Delay)
		}
		if v.Enforced() && d.Allowed && delay > 0 {
			d.Allowed, d.RetryAfter, d.Delay = false, delay, 0
		}
	}
}

// Refund gives back the hits that p was charged by Admit. It ends within the
// RefundTimeout though ctx may have ended, and is dropped when too many are
// under way. It does nothing for a call that was denied or that the store did
// not decide: what was charged then is unknown, and giving back what was not
// taken would raise a limit.
func (g *Gate) Refund(ctx context.Context, p *Pass) {
	if resp := p.Response(); !resp.Allowed || resp.Degraded() != store.NoReason {
		return
	}
	select {
	case g.refunds <- struct{}{}:
		defer func() { <-g.refunds }()
	default:
		g.counts.refundsDropped.Add(1)
		return
	}
	if err := g.refund(ctx, p); err != nil {
		g.counts.refundsDropped.Add(1)
		return
	}
	g.counts.refunded.Add(1)
}

// Release frees the slots that p holds since Admit, and charges the time that it was
// in flight. Whoever has called Admit calls it when the call has ended, however that
// was: it does nothing where nothing is held. It ends within the RefundTimeout
// though ctx may have ended. When that is not enough, or too many are under way, it
// is tried again in the background for as long as the slots last.
func (g *Gate) Release(ctx context.Context, p *Pass) {
	h := p.held
	if h == nil {
		return
	}
	p.held = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.options.RefundTimeout)
	defer cancel()
	if released := g.keeper.letGo(h); released != nil {
		select {
		case <-released:
		case <-ctx.Done(): // the keeper goes on
		}
		return
	}
	select {
	case g.releases <- struct{}{}:
		defer func() { <-g.releases }()
		if g.keeper.release(ctx, h) {
			g.keeper.recycle(h)
			return
		}
	default:
	}
	g.keeper.releaseLater(h)
}

// giveBack refunds what a call was charged that gives up its place; a refund frees
// its slots too. It is not bounded as Refund is: MaxWaiting and the rate of requests
// bound it.
func (g *Gate) giveBack(ctx context.Context, p *Pass) {
	h := p.held
	if p.held = nil; h != nil && g.keeper.letGo(h) != nil {
		h = nil // the keeper releases it
	}
	err := g.refund(ctx, p)
	if err != nil {
		g.counts.refundsDropped.Add(1)
	}
	switch {
	case h == nil:
	case err != nil:
		g.keeper.releaseLater(h)
	default:
		g.keeper.recycle(h)
	}
}

func (g *Gate) refund(ctx context.Context, p *Pass) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.options.RefundTimeout)
	defer cancel()
	p.turn(store.Refund)
	defer p.turn(store.Hit) // who has patience asks again
	refund := [1]headgate.Request{p.request[0]}
	if p.Rides {
		refund[0].Hold = 0 // the slot is that of a call that goes on
	}
	var answer [1]headgate.Response
	if err := g.options.Checker.Check(ctx, refund[:], answer[:]); err != nil {
		return err
	}
	if reason := answer[0].Degraded(); reason != store.NoReason {
		return fmt.Errorf("refund: %s", reason)
	}
	return nil
}

func (g *Gate) count(resp *headgate.Response) {
	if resp.Allowed {
		g.counts.allowed.Add(1)
		return
	}
	if v := resp.Speaker(); v != nil && v.Guessed() {
		g.counts.unavailable.Add(1)
		return
	}
	g.counts.denied.Add(1)
}
