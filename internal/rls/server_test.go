package rls

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen soon on any machine.
const patience = 30 * time.Second

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestServeOverTCP(t *testing.T) { overEach(t, testServeOverTCP) }

func testServeOverTCP(t *testing.T, own bool) {
	client := rlsv3.NewRateLimitServiceClient(serve(t, Options{Own: own, Checker: says(false, denied())}))
	got, err := client.ShouldRateLimit(soon(t), benchRequest())
	if err != nil {
		t.Fatal(err)
	}
	if got.OverallCode != over || got.Statuses[0].CurrentLimit.GetRequestsPerUnit() != 5 {
		t.Errorf("answer %v", got)
	}
	if _, err := client.ShouldRateLimit(soon(t), request("")); status.Code(err) != codes.InvalidArgument {
		t.Errorf("empty domain: %v", err)
	}
}

func TestServeOverUnixSocketAndTCPAtOnce(t *testing.T) {
	overEach(t, testServeOverUnixSocketAndTCPAtOnce)
}

func testServeOverUnixSocketAndTCPAtOnce(t *testing.T, own bool) {
	socket := filepath.Join(t.TempDir(), "rls.sock")
	unix, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- NewServer(Options{Own: own, Checker: allow}).Serve(ctx, unix, tcp) }()
	for _, target := range []string{"unix://" + socket, tcp.Addr().String()} {
		conn := dial(t, target)
		got, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(soon(t), benchRequest(), grpc.WaitForReady(true))
		if err != nil || got.OverallCode != ok {
			t.Errorf("%s: %v, %v", target, got, err)
		}
		conn.Close()
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	// To dial would ask whoever has the port by now.
	if err := tcp.(*net.TCPListener).SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Error("the listener is still open")
	}
}

func TestServeWithoutListenerOrOnAClosedOne(t *testing.T) {
	overEach(t, testServeWithoutListenerOrOnAClosedOne)
}

func testServeWithoutListenerOrOnAClosedOne(t *testing.T, own bool) {
	if err := NewServer(Options{Own: own, Checker: allow}).Serve(t.Context()); err == nil {
		t.Error("no listener: no error")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	err = NewServer(Options{Own: own, Checker: allow}).Serve(t.Context(), l)
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("closed listener: %v", err)
	}
}

// A process may be told to end while it starts; that is no failure.
func TestServeWhenAllIsOver(t *testing.T) { overEach(t, testServeWhenAllIsOver) }

func testServeWhenAllIsOver(t *testing.T, own bool) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 { // whether the end or the beginning comes first is chance
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := NewServer(Options{Own: own, Checker: allow}).Serve(ctx, l); err != nil {
			t.Fatalf("ended with %v", err)
		}
		if err := l.(*net.TCPListener).SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Fatal("still listening")
		}
	}
}

func TestHealth(t *testing.T) { overEach(t, testHealth) }

func testHealth(t *testing.T, own bool) {
	client := healthpb.NewHealthClient(serve(t, Options{Own: own, Checker: allow}))
	for _, service := range []string{"", "ratelimit"} {
		got, err := client.Check(soon(t), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("service %q: %v, %v", service, got, err)
		}
	}
	_, err := client.Check(soon(t), &healthpb.HealthCheckRequest{Service: "other"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("unknown service: %v", err)
	}
}

// TestOtherServices: a service that is registered beside is served over each transport, streams
// both ways included.
func TestOtherServices(t *testing.T) { overEach(t, testOtherServices) }

func testOtherServices(t *testing.T, own bool) {
	stream, err := reflectionpb.NewServerReflectionClient(serve(t, Options{Own: own, Checker: allow, Register: func(r grpc.ServiceRegistrar) { reflection.Register(r.(reflection.GRPCServer)) }})).ServerReflectionInfo(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: serviceName},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil || len(got.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("no descriptor of the service: %v, %v", got, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// holder is a Checker that holds every call until its context ends or it is let
// go.
type holder struct {
	entered chan context.Context
	letGo   chan struct{}
}

func newHolder() *holder {
	return &holder{entered: make(chan context.Context, 16), letGo: make(chan struct{})}
}

func (h *holder) Check(ctx context.Context, _ []headgate.Request, responses []headgate.Response) error {
	h.entered <- ctx
	select {
	case <-ctx.Done():
	case <-h.letGo:
	}
	responses[0].Allowed = true
	return nil
}

func TestDeadlineAndCancellationReachTheChecker(t *testing.T) {
	h := newHolder()
	client := rlsv3.NewRateLimitServiceClient(serve(t, Options{Checker: h}))

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	failed := make(chan error, 1)
	go func() {
		_, err := client.ShouldRateLimit(ctx, benchRequest())
		failed <- err
	}()
	inside := <-h.entered
	if _, has := inside.Deadline(); !has {
		t.Error("the caller's deadline did not arrive")
	}
	cancel()
	if err := <-failed; status.Code(err) != codes.Canceled {
		t.Errorf("cancelled call: %v", err)
	}
	select {
	case <-inside.Done():
	case <-soon(t).Done():
		t.Error("the cancellation did not arrive")
	}
}

// A call past its deadline fails for the caller though nothing else ends it.
func TestDeadlineOfAStuckCall(t *testing.T) { overEach(t, testDeadlineOfAStuckCall) }

func testDeadlineOfAStuckCall(t *testing.T, own bool) {
	letGo := make(chan struct{})
	client := rlsv3.NewRateLimitServiceClient(serve(t, Options{
		Own: own,
		Checker: script(func(_ context.Context, _ *headgate.Request, resp *headgate.Response) error {
			<-letGo
			resp.Allowed = true
			return nil
		}),
	}))
	t.Cleanup(func() { close(letGo) })
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := client.ShouldRateLimit(ctx, benchRequest()); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v", err)
	}
}

// start serves h and returns a client, how to stop, and where the end of Serve
// is told.
func start(t *testing.T, o Options) (*Server, *grpc.ClientConn, context.CancelFunc, chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	s := NewServer(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	conn := dial(t, l.Addr().String())
	t.Cleanup(func() { conn.Close() })
	return s, conn, stop, served
}

// F61: a call under way is answered though the server was told to stop, and
// health says so first.
func TestGracefulStopAnswersCallsUnderWay(t *testing.T) {
	overEach(t, testGracefulStopAnswersCallsUnderWay)
}

func testGracefulStopAnswersCallsUnderWay(t *testing.T, own bool) {
	h := newHolder()
	_, conn, stop, served := start(t, Options{Own: own, Checker: h, DrainTimeout: patience})
	watch, err := healthpb.NewHealthClient(conn).Watch(soon(t), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health before: %v, %v", first, err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(soon(t), benchRequest())
		answered <- err
	}()
	<-h.entered
	stop()
	if next, err := watch.Recv(); err != nil || next.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health while stopping: %v, %v", next, err)
	}
	close(h.letGo)
	if err := <-answered; err != nil {
		t.Errorf("the call under way failed: %v", err)
	}
	conn.Close() // ends the watch, a call under way as well
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestStopIsBounded(t *testing.T) { overEach(t, testStopIsBounded) }

func testStopIsBounded(t *testing.T, own bool) {
	h := newHolder()
	_, conn, stop, served := start(t, Options{Own: own, Checker: h, DrainTimeout: -1})
	answered := make(chan error, 1)
	go func() {
		_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(soon(t), benchRequest())
		answered <- err
	}()
	<-h.entered
	stop() // the call is never let go
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := <-answered; status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("the call that was cut off: %v", err)
	}
}

func TestSetServing(t *testing.T) { overEach(t, testSetServing) }

func testSetServing(t *testing.T, own bool) {
	s, conn, stop, served := start(t, Options{Own: own, Checker: allow})
	s.SetServing(false)
	client := healthpb.NewHealthClient(conn)
	got, err := client.Check(soon(t), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("not ready: %v, %v", got, err)
	}
	// Calls are answered all the same: who asks already knows better.
	if _, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(soon(t), benchRequest()); err != nil {
		t.Error(err)
	}
	conn.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// octets is a codec of a client that sends what it likes.
type octets struct{}

func (octets) Name() string { return "proto" }
func (octets) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (octets) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = octets{}

func TestHostileMessages(t *testing.T) { overEach(t, testHostileMessages) }

func testHostileMessages(t *testing.T, own bool) {
	conn := serve(t, Options{Own: own, Checker: allow})
	send := func(b []byte) error {
		var answer []byte
		return conn.Invoke(soon(t), fullMethod, b, &answer, grpc.ForceCodecV2(octets{}))
	}
	tests := []struct {
		name string
		b    []byte
		want codes.Code
	}{
		{"nothing", nil, codes.InvalidArgument},
		{"noise", []byte("\xff\xff\xff\xff"), codes.Internal},
		{"invalid UTF-8", []byte{0x0a, 0x01, 0xff}, codes.Internal},
		{"larger than the bound", make([]byte, maxMessage+1), codes.ResourceExhausted},
		{"a million empty descriptors", []byte("\x0a\x01e" + strings.Repeat("\x12\x00", 1_000_000)), codes.InvalidArgument},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := send(test.b); status.Code(err) != test.want {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
	// The server lives on.
	if _, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(soon(t), benchRequest()); err != nil {
		t.Error(err)
	}
}

// F76: the headers of a call are bounded.
func TestHugeHeadersAreRefused(t *testing.T) { overEach(t, testHugeHeadersAreRefused) }

func testHugeHeadersAreRefused(t *testing.T, own bool) {
	client := rlsv3.NewRateLimitServiceClient(serve(t, Options{Own: own, Checker: allow}))
	ctx := metadata.AppendToOutgoingContext(soon(t), "x", strings.Repeat("a", maxHeaders))
	if _, err := client.ShouldRateLimit(ctx, benchRequest()); err == nil {
		t.Error("a call with huge headers was answered")
	}
	if _, err := client.ShouldRateLimit(soon(t), benchRequest()); err != nil {
		t.Error(err)
	}
}

// F61: connections are sent away one after the other, and no call is lost by it.
func TestConnectionAgeLosesNoCall(t *testing.T) { overEach(t, testConnectionAgeLosesNoCall) }

func testConnectionAgeLosesNoCall(t *testing.T, own bool) {
	callers := make(chan string, 64)
	checker := script(func(ctx context.Context, _ *headgate.Request, resp *headgate.Response) error {
		caller, _ := peer.FromContext(ctx)
		callers <- caller.Addr.String()
		resp.Allowed = true
		return nil
	})
	peers := map[string]bool{}
	client := rlsv3.NewRateLimitServiceClient(serve(t, Options{Own: own, Checker: checker, MaxConnectionAge: 5 * time.Millisecond}))
	limit := soon(t)
	for len(peers) < 5 && limit.Err() == nil {
		if _, err := client.ShouldRateLimit(limit, benchRequest()); err != nil {
			t.Fatalf("call on connection %d: %v", len(peers), err)
		}
		peers[<-callers] = true
	}
	if len(peers) < 5 {
		t.Errorf("only %d connections in %v", len(peers), patience)
	}
}

func TestUnknownMethod(t *testing.T) { overEach(t, testUnknownMethod) }

func testUnknownMethod(t *testing.T, own bool) {
	conn := serve(t, Options{Own: own, Checker: allow})
	err := conn.Invoke(soon(t), "/"+serviceName+"/Other", benchRequest(), new(rlsv3.RateLimitResponse))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("error %v", err)
	}
}

func TestNewServerNeedsAChecker(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewServer(Options{})
}

// An interceptor sees the call and may refuse it.
func TestInterceptor(t *testing.T) {
	s := newService(Options{Checker: allow})
	refusal := errors.New("refused")
	decode := func(any) error { return nil }
	_, err := handle(s, t.Context(), decode, func(_ context.Context, _ any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if info.FullMethod != fullMethod {
			t.Errorf("method %s", info.FullMethod)
		}
		return nil, refusal
	})
	if !errors.Is(err, refusal) {
		t.Errorf("error %v", err)
	}
}
