package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/limit"
)

// guard is what a Server and a Client have in common.
type guard struct {
	options Options
	gate    *admission.Gate
	encoder *httpanswer.Encoder
	passes  sync.Pool // of *admission.Pass
	ruled   bool      // by the rules of a domain

	upstream httpanswer.UpstreamNames
	// originOf tells observers who sent a call; nil where it is this process.
	originOf func(context.Context) headgate.Origin

	skipped, refused atomic.Uint64
}

func newGuard(checker Checker, o Options) (*guard, error) {
	gate, err := admission.New(admission.Options{
		Checker: checker, FailClosed: o.FailClosed, MaxWait: o.MaxWait, MaxWaiting: o.MaxWaiting,
		MaxRefunds: o.MaxRefunds, RefundTimeout: o.RefundTimeout,
	})
	if err != nil {
		return nil, err
	}
	encoder, err := httpanswer.New(httpanswer.Options{Generation: o.Generation, OmitX: o.OmitX, Jitter: httpanswer.Jitter{Share: httpanswer.ShareOf(o.Jitter)}})
	if err != nil {
		return nil, err
	}
	limits, err := admission.NewLimits(o.Limits)
	if err != nil {
		return nil, err
	}
	if o.Domain, err = admission.DomainOf(o.Domain, limits); err != nil {
		return nil, err
	}
	if o.Patience < 0 {
		return nil, fmt.Errorf("patience of %v; hint: 0 fails at once", o.Patience)
	}
	if err := checkSkip(o.Skip); err != nil {
		return nil, err
	}
	if o.Skip == nil {
		o.Skip = defaultSkip
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &guard{options: o, gate: gate, encoder: encoder, ruled: len(limits) == 0}
	g.upstream.Spell = strings.ToLower
	g.passes.New = func() any { return &admission.Pass{Limits: limits} }
	return g, nil
}

func (g *guard) stats() Stats {
	s := g.gate.Stats()
	return Stats{
		Allowed: s.Allowed, Denied: s.Denied, Unavailable: s.Unavailable,
		Skipped: g.skipped.Load(), Refused: g.refused.Load(), GaveUp: s.GaveUp,
		Failed: s.Failed, Delayed: s.Delayed, Waiting: s.Waiting,
		Refunded: s.Refunded, RefundsDropped: s.RefundsDropped,
		Held: s.Held, Renewed: s.Renewed, RenewalsFailed: s.RenewalsFailed,
		Released: s.Released, ReleasesDropped: s.ReleasesDropped,
	}
}

// admit decides a call, or a message of the stream that has a hold. The pass is nil
// when it is not limited; else the caller ends it. An error is a status.
func (g *guard) admit(ctx context.Context, c Call, of limit.Hold) (*admission.Pass, error) {
	if skipped(g.options.Skip, c.FullMethod) {
		g.skipped.Add(1)
		return nil, nil
	}
	pass := g.passes.Get().(*admission.Pass)
	pass.Request().Hold, pass.Rides = of, of != 0
	if err := g.describe(ctx, c, pass); err != nil {
		g.refused.Add(1)
		g.release(pass)
		g.tell(ctx, c, err)
		return nil, refusal(err)
	}
	if len(pass.Descriptors) == 0 {
		g.skipped.Add(1)
		g.release(pass)
		return nil, nil
	}
	if err := g.gate.AdmitWithin(ctx, pass, g.options.Patience); err != nil {
		g.release(pass)
		if admission.Malformed(err) {
			g.refused.Add(1)
			g.tell(ctx, c, err)
			return nil, status.Error(codes.InvalidArgument, "the call cannot be limited: "+err.Error())
		}
		return nil, ended(ctx, err)
	}
	if err := pass.Failure(); err != nil {
		g.tell(ctx, c, err)
	}
	return pass, nil
}

// tell tells Options.OnError.
func (g *guard) tell(ctx context.Context, c Call, err error) {
	if g.options.OnError != nil {
		g.options.OnError(ctx, c, err)
	}
}

func (g *guard) describe(ctx context.Context, c Call, pass *admission.Pass) error {
	list, err := g.options.Identify(ctx, c)
	if err != nil {
		return err
	}
	pass.Request().Domain = g.options.Domain
	for _, entries := range list {
		pass.Add(entries...)
	}
	if g.originOf != nil {
		pass.Request().Origin = g.originOf(ctx)
	}
	if g.options.Hits != nil {
		hits := min(max(g.options.Hits(ctx, c), 0), limit.MaxQuota)
		for i := range pass.Descriptors {
			pass.Descriptors[i].Hits = hits
		}
	}
	return nil
}

// admitted is admit for those who are told of a denial by nothing but a status.
func (g *guard) admitted(ctx context.Context, c Call, of limit.Hold) (*admission.Pass, error) {
	pass, err := g.admit(ctx, c, of)
	if err != nil || pass == nil {
		return nil, err
	}
	if d := g.denialOf(pass); d != nil {
		g.release(pass)
		return nil, d.err
	}
	return pass, nil
}

// admitMessage decides one message of a stream that has a hold. The fields stay out
// of it: the headers may be gone, and they are no trailers.
func (g *guard) admitMessage(ctx context.Context, c Call, of limit.Hold) error {
	pass, err := g.admitted(ctx, c, of)
	if pass != nil {
		g.end(ctx, pass)
	}
	return err
}

// holdOf returns the hold of a call in flight, 0 if it holds nothing.
func holdOf(pass *admission.Pass) limit.Hold {
	if !pass.Holds() {
		return 0
	}
	return pass.Request().Hold
}

// end frees what a call holds that has ended, and its pass.
func (g *guard) end(ctx context.Context, pass *admission.Pass) {
	g.gate.Release(ctx, pass)
	g.release(pass)
}

func (g *guard) release(pass *admission.Pass) {
	if pass.Reset() {
		g.passes.Put(pass)
	}
}

// refusal is the status of a call that cannot be identified. It does not show
// the error, which may hold what the client sent, but for one that is a status.
func refusal(err error) error {
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	if errors.Is(err, ErrUnidentified) {
		return status.Error(codes.Unauthenticated, ErrUnidentified.Error())
	}
	return status.Error(codes.InvalidArgument, "the call does not say clearly who asks")
}

// ended is the status of a call whose context ended while it was held back.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.FromContextError(err).Err()
}
