package rls

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
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
	panicked(c *call, cause any)
}

// handle decodes, answers and encodes one call. The answer stays in the call,
// which the codec takes apart and returns to the pool.
func handle(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	h := server.(handler)
	c := calls.Get().(*call)
	if err := decode(c); err != nil {
		c.release()
		return nil, err
	}
	var err error
	if interceptor == nil {
		err = guarded(ctx, h, c)
	} else {
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: fullMethod}
		_, err = interceptor(ctx, c, info, func(ctx context.Context, _ any) (any, error) {
			return c, guarded(ctx, h, c)
		})
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// guarded answers c, with OK for every descriptor should that panic.
func guarded(ctx context.Context, h handler, c *call) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			h.panicked(c, cause)
			err = nil
		}
	}()
	return h.shouldRateLimit(ctx, c)
}

// service answers calls by a Checker.
type service struct {
	options Options
	limits  *overrides
}

var _ handler = (*service)(nil)

func (s *service) shouldRateLimit(ctx context.Context, c *call) error {
	if err := c.build(s.limits); err != nil {
		return err
	}
	if err := s.options.Checker.Check(ctx, c.requests[:], c.responses[:]); err != nil {
		return malformed(err)
	}
	resp := &c.responses[0]
	if s.options.ClosedAsError && !resp.Allowed {
		if reason := deniedByFailure(resp); reason != store.NoReason {
			return status.Errorf(codes.Unavailable, "rate limit store did not decide: %s", reason)
		}
	}
	c.fillAnswer()
	c.answer.headers = s.appendHeaders(c.answer.headers[:0], resp, c.answer.overall == codeOverLimit)
	if s.options.DynamicMetadata {
		c.answer.metadata = dynamicMetadata(&c.message, &c.requests[0], c.answer.statuses, resp)
	}
	c.encode()
	return nil
}

// panicked answers in place of a handler that panicked: which rules would have
// spoken is unknown, so the default failure mode does, open.
func (s *service) panicked(c *call, cause any) {
	s.options.OnPanic(cause, debug.Stack())
	c.allowAll()
	c.encode()
}

func logPanic(cause any, stack []byte) {
	slog.Error("rate limit request allowed after a panic; please report this bug",
		"panic", cause, "stack", string(stack))
}

// deniedByFailure returns why the store did not decide, if that alone is why the
// request was denied.
func deniedByFailure(resp *headgate.Response) store.Reason {
	reason := store.NoReason
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if !v.OverLimit() {
			continue
		}
		if v.Degraded == store.NoReason {
			return store.NoReason
		}
		reason = v.Degraded
	}
	return reason
}
