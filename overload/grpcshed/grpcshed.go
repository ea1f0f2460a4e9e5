// Package grpcshed sheds the calls of a gRPC server when there are too many:
// interceptors for unary calls and streams over a gate of package overload.
//
//	shed, err := grpcshed.New(grpcshed.Options{Gate: overload.NewGate(nil, worker)})
//	...
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limits.Unary, shed.Unary),
//		grpc.ChainStreamInterceptor(limits.Stream, shed.Stream),
//	)
//
// It stands behind the limits and right before the work.
//
// # What callers are told
//
// UNAVAILABLE with google.rpc.RetryInfo, in trailers-only form and with
// grpc-retry-pushback-ms, so that clients with a retry policy come back when they
// are told to. It is never RESOURCE_EXHAUSTED: the caller did nothing wrong.
//
// # How calls end
//
// UNAVAILABLE and DEADLINE_EXCEEDED count as overloaded (see overload.Outcome).
// CANCELED, RESOURCE_EXHAUSTED, INTERNAL, UNKNOWN, UNIMPLEMENTED and a handler
// that panics are ignored, and so is every call that was cancelled or has met the
// deadline of its caller: callers choose it, and a short one says nothing of the
// server. All other codes count as served. A stream is admitted or shed when it
// opens and leaves the count at once: its length says nothing of the server.
// Bound streams by a concurrency limit.
package grpcshed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate/overload"
)

// Options configures Interceptors.
type Options struct {
	// Gate decides, and counts; required. Several fronts may share one.
	Gate *overload.Gate
	// Classifier gives calls their priority by their full method as a path, such
	// as /shop.Orders/Create; without a pattern all are P1, as POST is. nil has the
	// defaults.
	Classifier *overload.Classifier
	// Header is the name of the metadata that carries a priority; "" is none. When
	// it is given several times it must say the same each time, or it is not
	// trusted.
	Header string
	// Trusted says that the metadata was set by one of ours, so that it may raise
	// the priority too; nil trusts nobody.
	Trusted func(context.Context) bool
	// Rule returns the word of the rule that matches a call, "" for none; nil:
	// there are no rules.
	Rule func(ctx context.Context, fullMethod string) string
	// Now is the clock; nil means time.Now. It should be monotonic.
	Now func() time.Time
}

// Interceptors shed the calls of a server. They are safe for concurrent use. Make
// them with New.
type Interceptors struct{ options Options }

var (
	_ grpc.UnaryServerInterceptor  = (*Interceptors)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Interceptors)(nil).Stream
)

// New returns Interceptors, or says which option cannot be.
func New(o Options) (*Interceptors, error) {
	if o.Gate == nil {
		return nil, errors.New("new shedding interceptors: no Gate; hint: overload.NewGate")
	}
	o.Header = strings.ToLower(o.Header)
	if strings.HasPrefix(o.Header, "grpc-") || strings.HasSuffix(o.Header, "-bin") {
		return nil, fmt.Errorf("new shedding interceptors: metadata %.80q is not text of callers; hint: x-priority", o.Header)
	}
	if o.Classifier == nil {
		o.Classifier = new(overload.Classifier)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Interceptors{o}, nil
}

// Unary is a grpc.UnaryServerInterceptor.
func (i *Interceptors) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ticket, d := i.options.Gate.Admit(i.priority(ctx, info.FullMethod), i.options.Now())
	if !d.Admitted() {
		trailers, err := refusal(d)
		_ = grpc.SetTrailer(ctx, trailers)
		return nil, err
	}
	outcome := overload.Ignored // also after a panic, which goes on
	defer func() { i.options.Gate.Done(ticket, outcome, i.options.Now()) }()
	reply, err := handler(ctx, req)
	outcome = outcomeOf(status.Code(err), ctx.Err())
	return reply, err
}

// Stream is a grpc.StreamServerInterceptor.
func (i *Interceptors) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ticket, d := i.options.Gate.Admit(i.priority(stream.Context(), info.FullMethod), i.options.Now())
	if !d.Admitted() {
		trailers, err := refusal(d)
		stream.SetTrailer(trailers)
		return err
	}
	i.options.Gate.Done(ticket, overload.Ignored, i.options.Now())
	return handler(srv, stream)
}

// priority returns that of a call. Every call of gRPC is a POST.
func (i *Interceptors) priority(ctx context.Context, fullMethod string) overload.Priority {
	asked := overload.Asked{Method: "POST", Path: fullMethod}
	if i.options.Header != "" {
		values := metadata.ValueFromIncomingContext(ctx, i.options.Header)
		if len(values) > 0 {
			asked.Header = values[0]
			asked.Trusted = same(values) && i.options.Trusted != nil && i.options.Trusted(ctx)
		}
	}
	if i.options.Rule != nil {
		asked.Rule = i.options.Rule(ctx, fullMethod)
	}
	return i.options.Classifier.Priority(asked)
}

func same(values []string) bool {
	return !slices.ContainsFunc(values, func(v string) bool { return v != values[0] })
}

// pushbackKey is the trailer by which a server tells the retry policy of a client
// how long to wait, in milliseconds.
const pushbackKey = "grpc-retry-pushback-ms"

// refusal is what the caller of a call that is shed is told.
func refusal(d overload.Decision) (metadata.MD, error) {
	st := status.New(codes.Unavailable, "the service is overloaded")
	// The error of WithDetails is that of the code OK.
	if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}); err == nil {
		st = detailed
	}
	millis := (d.RetryAfter + time.Millisecond - 1) / time.Millisecond
	return metadata.MD{pushbackKey: {strconv.FormatInt(int64(millis), 10)}}, st.Err()
}

// outcomeOf says how a call ended whose handler returned code, and err that of its
// context.
func outcomeOf(code codes.Code, err error) overload.Outcome {
	if err != nil { // the caller has gone
		return overload.Ignored
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded:
		return overload.Overloaded
	case codes.Canceled, codes.ResourceExhausted, codes.Internal, codes.Unknown, codes.Unimplemented:
		return overload.Ignored
	}
	return overload.Served
}
