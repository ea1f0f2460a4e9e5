package grpclimit_test

import (
	"context"
	"io"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/store/memstore"
)

// ruled decides by one rule, which all share.
func ruled(t *testing.T, rule string) *headgate.Limiter {
	t.Helper()
	set := testrules.Load(t, "domain: api\ndescriptors:\n  - {key: all, name: each, "+rule+"}\n")
	buckets, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// all is an Identify by which all calls are of one.
func all(context.Context, grpclimit.Call) ([][]descriptor.Entry, error) {
	return [][]descriptor.Entry{{{Key: "all", Value: "1"}}}, nil
}

// oneSlot has a slot that no machine is too slow to renew.
const oneSlot = "concurrency: {limit: 1, timeout: 10m}"

// open opens a stream and hears one echo, so that the server has it.
func open(ctx context.Context, t *testing.T, cc *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := cc.NewStream(ctx, chatDesc, "/test.Echo/Chat")
	if err != nil {
		t.Fatal(err)
	}
	echo(t, stream)
	return stream
}

func echo(t *testing.T, stream grpc.ClientStream) {
	t.Helper()
	if err := stream.SendMsg(wrapperspb.String("x")); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); err != nil {
		t.Fatal(err)
	}
}

// finish ends a stream and hears its end.
func finish(t *testing.T, stream grpc.ClientStream) {
	t.Helper()
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); err != io.EOF {
		t.Fatalf("the end of a stream: %v", err)
	}
}

// TestStreamHoldsItsSlot until its handler returns, and its messages need none.
func TestStreamHoldsItsSlot(t *testing.T) {
	limits := newServer(t, ruled(t, oneSlot), grpclimit.Options{Domain: "api", Identify: all, Messages: true, Jitter: grpclimit.ExactRetry})
	cc := serve(t, limits)
	stream := open(t.Context(), t, cc)
	err := say(t, cc, "x")
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beside a stream: %v", err)
	}
	if got := detail[*errdetails.ErrorInfo](t, err).GetReason(); got != "CONCURRENCY_LIMITED" {
		t.Errorf("reason %s", got)
	}
	if got := detail[*errdetails.RetryInfo](t, err).GetRetryDelay().AsDuration(); got != time.Second {
		t.Errorf("retry delay %v, want 1 s", got)
	}
	if got := detail[*errdetails.QuotaFailure](t, err).GetViolations(); len(got) != 1 || got[0].Description != "at most 1 calls in flight" {
		t.Errorf("violations %v", got)
	}
	echo(t, stream)
	finish(t, stream)
	eventually.True(t, "the slot of a stream that ended is free", func() bool { return limits.Stats().Released == 1 })
	for n := range uint64(3) {
		if err := say(t, cc, "x"); err != nil {
			t.Errorf("after it: %v; %+v", err, limits.Stats())
		}
		eventually.True(t, "the slot of a call that ended is free", func() bool { return limits.Stats().Released == n+2 })
	}
	ctx, cancel := context.WithCancel(t.Context())
	open(ctx, t, cc)
	cancel()
	eventually.True(t, "the slot of a stream that was cancelled is free", func() bool { return limits.Stats().Released == 5 })
	if s := limits.Stats(); s.Released != 5 || s.ReleasesDropped != 0 {
		t.Errorf("stats %+v, want two streams and three calls released", s)
	}
}

// TestPanicFreesTheSlot of a server that recovers.
func TestPanicFreesTheSlot(t *testing.T) {
	limits := newServer(t, ruled(t, oneSlot), grpclimit.Options{Domain: "api", Identify: all})
	for range 3 {
		func() {
			defer func() {
				if cause := recover(); cause != "mine" {
					t.Errorf("recovered %v", cause)
				}
			}()
			_, err := limits.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { panic("mine") })
			t.Errorf("returned %v", err)
		}()
	}
	if s := limits.Stats(); s.Allowed != 3 || s.Released != 3 || s.Held != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestClientHoldsItsSlot until the call ends, however it does.
func TestClientHoldsItsSlot(t *testing.T) {
	client, err := grpclimit.NewClient(ruled(t, oneSlot), grpclimit.Options{Domain: "api", Identify: all, Messages: true})
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(1000)})
	cc := serve(t, server, grpc.WithUnaryInterceptor(client.Unary), grpc.WithStreamInterceptor(client.Stream))
	released := uint64(0)
	free := func(after string) {
		t.Helper()
		eventually.True(t, "the slot is free after "+after, func() bool { return client.Stats().Released == released+1 })
		if err := say(t, cc, "x"); err != nil {
			t.Errorf("after %s: %v; %+v", after, err, client.Stats())
		}
		released = client.Stats().Released
	}
	stream := open(t.Context(), t, cc)
	if err := say(t, cc, "x"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beside a stream: %v", err)
	}
	echo(t, stream)
	finish(t, stream)
	free("a stream that ended")
	ctx, cancel := context.WithCancel(t.Context())
	open(ctx, t, cc)
	cancel()
	free("a stream that was cancelled")
	if err := say(t, cc, "fail"); status.Code(err) != codes.Internal {
		t.Errorf("%v, want the handler's", err)
	}
	free("a call that failed")
	_, err = client.Stream(t.Context(), chatDesc, cc, "/test.Echo/Chat", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, status.Error(codes.Aborted, "another interceptor")
	})
	if status.Code(err) != codes.Aborted {
		t.Errorf("%v, want that of another interceptor", err)
	}
	free("a stream that another interceptor refused")
	if s := client.Stats(); s.ReleasesDropped != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestSoftActions: what the handler is told above a soft limit, and that a client
// cannot tell it for us.
func TestSoftActions(t *testing.T) {
	limiter := ruled(t, "rate_limit: {unit: hour, requests_per_unit: 4}, soft_limit: {at: 50%, action: degrade, header: X-Degraded, value: lean}")
	limits := newServer(t, limiter, grpclimit.Options{Domain: "api", Identify: all})
	var seen []string
	note := func(ctx context.Context) { seen = metadata.ValueFromIncomingContext(ctx, "x-degraded") }
	forged := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-degraded", "forged", "x-other", "stays"))
	unary := func() error {
		_, err := limits.Unary(forged, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(ctx context.Context, _ any) (any, error) {
			note(ctx)
			if got := metadata.ValueFromIncomingContext(ctx, "x-other"); len(got) != 1 {
				t.Errorf("other metadata is lost: %q", got)
			}
			return nil, nil
		})
		return err
	}
	if err := unary(); err != nil || len(seen) != 0 {
		t.Errorf("below the threshold the handler sees %q, %v", seen, err)
	}
	if err := unary(); err != nil || len(seen) != 1 || seen[0] != "lean" {
		t.Errorf("above it the handler sees %q, %v", seen, err)
	}
	seen = nil
	err := limits.Stream(nil, &bareStream{ctx: forged}, &grpc.StreamServerInfo{FullMethod: "/a/c"}, func(_ any, s grpc.ServerStream) error {
		note(s.Context())
		return nil
	})
	if err != nil || len(seen) != 1 || seen[0] != "lean" {
		t.Errorf("the handler of a stream sees %q, %v", seen, err)
	}
	client, err := grpclimit.NewClient(limiter, grpclimit.Options{Domain: "api", Identify: all})
	if err != nil {
		t.Fatal(err)
	}
	var sent metadata.MD
	server := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(1000)})
	cc := serve(t, server)
	err = client.Unary(t.Context(), "/a/b", nil, nil, cc, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		sent, _ = metadata.FromOutgoingContext(ctx)
		return nil
	})
	if got := sent["x-degraded"]; err != nil || len(got) != 1 || got[0] != "lean" {
		t.Errorf("a client sends %v, %v", sent, err)
	}
}

// bareStream is a stream without a connection.
type bareStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *bareStream) Context() context.Context     { return s.ctx }
func (s *bareStream) SetHeader(metadata.MD) error  { return nil }
func (s *bareStream) SetTrailer(metadata.MD)       {}
func (s *bareStream) SendHeader(metadata.MD) error { return nil }
