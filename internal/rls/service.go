package rls

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/store"
)

// serviceName and method are Envoy's.
const (
	serviceName = "envoy.service.ratelimit.v3.RateLimitService"
	method      = "ShouldRateLimit"
	fullMethod  = "/" + serviceName + "/" + method
)

// serviceDesc registers the one method. It stands in for the generated one,
// which would decode into the generated types.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*handler)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: method, Handler: handle}},
	Metadata:    "envoy/service/ratelimit/v3/rls.proto",
}

// handler is what serviceDesc serves.
type handler interface {
	shouldRateLimit(ctx context.Context, c *call) error
	// panicked returns the answer to a request of that many descriptors in
	// whose handling something panicked.
	panicked(descriptors int, cause any) *call
}

// handle decodes, answers and encodes one call. The answer stays in the call,
// which the codec takes apart and returns to the pool. A panic on the way is
// never the caller's trouble.
func handle(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (answered any, err error) {
	h := server.(handler)
	c := calls.Get().(*call)
	defer func() {
		if cause := recover(); cause != nil {
			// Nothing is known about c any more: it does not return to the pool.
			answered, err = h.panicked(len(c.message.descriptors), cause), nil
		}
	}()
	err = decode(c)
	switch {
	case err != nil:
	case interceptor == nil:
		err = h.shouldRateLimit(ctx, c)
	default:
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: fullMethod}
		_, err = interceptor(ctx, c, info, func(ctx context.Context, _ any) (any, error) {
			return c, h.shouldRateLimit(ctx, c)
		})
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// service answers calls by a Checker.
type service struct {
	options Options
	limits  *overrides
}

var _ handler = (*service)(nil)

func (s *service) shouldRateLimit(ctx context.Context, c *call) error {
	c.from = Caller{ctx: ctx}
	err := s.prepare(c)
	if err == nil {
		taking, end := s.options.Turns.Begin(ctx)
		defer end()
		err = s.decide(taking, c)
	}
	if err == nil {
		err = s.conclude(c)
	}
	if err != nil {
		return err
	}
	c.encode()
	return nil
}

// prepare finds out who asks, and what for. Nothing is decided yet.
func (s *service) prepare(c *call) error {
	var err error
	if c.checker, err = s.admit(c.from); err != nil {
		return KeptOut(err)
	}
	if err := s.ask(c); err != nil {
		if s.options.OnUnfit != nil {
			s.options.OnUnfit()
		}
		return err
	}
	c.setOrigin()
	return c.findID()
}

// ask makes the request of c, if calls are answered at all.
func (s *service) ask(c *call) error {
	if s.options.Unanswered != nil {
		if err := s.options.Unanswered(); err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
	}
	return c.build(s.limits)
}

// decide decides a call that is prepared.
func (s *service) decide(ctx context.Context, c *call) error {
	if len(c.bookings) > 0 {
		return s.checkBooked(ctx, c.checker, c)
	}
	if err := c.check(ctx); err != nil {
		return refused(err)
	}
	return nil
}

// conclude makes the answer to a call that is decided.
func (s *service) conclude(c *call) error {
	resp := &c.responses[0]
	if s.options.ClosedAsError && !resp.Allowed {
		if reason := deniedByFailure(resp); reason != store.NoReason {
			return status.Errorf(codes.Unavailable, "rate limit store did not decide: %s", reason)
		}
	}
	c.fillAnswer(s.options.Now)
	s.tellClient(&c.answer, &c.requests[0], resp)
	if resp.Allowed {
		c.answer.requestHeaders = appendFields(c.answer.requestHeaders[:0], httpanswer.AppendUpstream(nil, resp))
	}
	if s.options.DynamicMetadata {
		c.answer.metadata = dynamicMetadata(&c.message, &c.requests[0], c.answer.statuses, resp)
	}
	return nil
}

// admit returns what decides for a caller.
func (s *service) admit(from Caller) (Checker, error) {
	if s.options.Admit == nil {
		return s.options.Checker, nil
	}
	return s.options.Admit(from)
}

// panicked implements handler. Which rules would have spoken is unknown, so the
// default failure mode does: open.
func (s *service) panicked(descriptors int, cause any) *call {
	s.onPanic(cause)
	c := new(call)
	c.answer.allow(descriptors)
	c.encode()
	return c
}

// onPanic tells of a panic while a call is handled.
func (s *service) onPanic(cause any) { s.options.OnPanic(cause, debug.Stack()) }

func logPanic(cause any, stack []byte) {
	slog.Error("rate limit request allowed after a panic; please report this bug",
		"panic", cause, "stack", string(stack))
}

// deniedByFailure returns why the store did not decide, if failure mode closed
// alone is why the request was denied.
func deniedByFailure(resp *headgate.Response) store.Reason {
	reason := store.NoReason
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if !v.OverLimit() {
			continue
		}
		if !v.Guessed() {
			return store.NoReason
		}
		reason = v.Degraded
	}
	return reason
}
