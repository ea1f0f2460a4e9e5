package grpcshed_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/grpcshed"
)

func newGate(t *testing.T, o overload.Options) (*overload.Gate, *overload.Shedder) {
	t.Helper()
	worker, err := overload.New(o, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return overload.NewGate(nil, worker), worker
}

func newInterceptors(t *testing.T, o grpcshed.Options) *grpcshed.Interceptors {
	t.Helper()
	i, err := grpcshed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// dial serves the health service behind i and returns a client of it.
func dial(t *testing.T, i *grpcshed.Interceptors) healthgrpc.HealthClient {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.UnaryInterceptor(i.Unary), grpc.StreamInterceptor(i.Stream))
	healthgrpc.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return healthgrpc.NewHealthClient(conn)
}

// TestRefusal (J4): calls and streams that are shed are UNAVAILABLE with a time
// to come back, twice told, in trailers alone.
func TestRefusal(t *testing.T) {
	gate, worker := newGate(t, overload.Options{MaxInFlight: 1, MaxCritical: 1})
	if _, d := worker.Admit(overload.P0, time.Now()); !d.Admitted() {
		t.Fatal("the first request is shed")
	}
	client := dial(t, newInterceptors(t, grpcshed.Options{Gate: gate}))
	var header, trailer metadata.MD
	_, err := client.Check(t.Context(), &healthgrpc.HealthCheckRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	checkRefusal(t, "unary", err, trailer)
	if len(header) > 0 {
		t.Errorf("header %v before the trailers", header)
	}
	stream, err := client.Watch(t.Context(), &healthgrpc.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
		trailer = stream.Trailer()
	}
	checkRefusal(t, "stream", err, trailer)
	if s := gate.Stats(); s.Shed[overload.P1][overload.HardCap-1] != 2 || gate.TotalAdmitted() != 0 {
		t.Errorf("%+v", s)
	}
}

func checkRefusal(t *testing.T, what string, err error, trailer metadata.MD) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.Unavailable || !strings.Contains(st.Message(), "overloaded") {
		t.Errorf("%s: %v", what, st)
	}
	var delay time.Duration
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			delay = info.RetryDelay.AsDuration()
		}
	}
	pushback := trailer.Get("grpc-retry-pushback-ms")
	if len(pushback) != 1 || delay < 500*time.Millisecond || delay > 1500*time.Millisecond {
		t.Fatalf("%s: delay %v, trailers %v", what, delay, trailer)
	}
	if millis, err := strconv.Atoi(pushback[0]); err != nil || time.Duration(millis)*time.Millisecond < delay || millis > 1500 {
		t.Errorf("%s: pushback %v for a delay of %v", what, pushback, delay)
	}
}

// TestAdmitted: a call that is admitted is in flight until it ends; a stream is
// not while it is open.
func TestAdmitted(t *testing.T) {
	gate, worker := newGate(t, overload.Options{})
	client := dial(t, newInterceptors(t, grpcshed.Options{Gate: gate}))
	if _, err := client.Check(t.Context(), &healthgrpc.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.Watch(ctx, &healthgrpc.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if s := gate.Stats(); worker.Stats().InFlight != 0 || s.Served != 1 || s.Ignored != 1 || s.Admitted[overload.P1] != 2 {
		t.Errorf("%d in flight while a stream is open, %+v", worker.Stats().InFlight, s)
	}
}

// TestOutcomes: how a call ends is told to the shedder.
func TestOutcomes(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	for _, c := range []struct {
		name string
		ctx  context.Context
		code codes.Code
		want string
	}{
		{"ok", t.Context(), codes.OK, "served"},
		{"not found", t.Context(), codes.NotFound, "served"},
		{"unavailable", t.Context(), codes.Unavailable, "overloaded"},
		{"a deadline behind", t.Context(), codes.DeadlineExceeded, "overloaded"},
		{"limited", t.Context(), codes.ResourceExhausted, "ignored"},
		{"internal", t.Context(), codes.Internal, "ignored"},
		{"caller gone", cancelled, codes.Unavailable, "ignored"},
		{"the caller's deadline", late, codes.DeadlineExceeded, "ignored"},
		{"panic", t.Context(), codes.OK, "ignored"},
	} {
		gate, worker := newGate(t, overload.Options{})
		i := newInterceptors(t, grpcshed.Options{Gate: gate})
		handler := func(context.Context, any) (any, error) {
			if c.name == "panic" {
				panic("mine")
			}
			return nil, status.Error(c.code, "")
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = i.Unary(c.ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, handler)
		}()
		s := gate.Stats()
		got := map[string]uint64{"served": s.Served, "ignored": s.Ignored, "overloaded": s.Overloaded}
		if got[c.want] != 1 || s.Served+s.Ignored+s.Overloaded != 1 || worker.Stats().InFlight != 0 {
			t.Errorf("%s: %v, %d in flight; want %s", c.name, got, worker.Stats().InFlight, c.want)
		}
	}
}

// TestPriorities (J5): from method, metadata and rule, and who may raise.
func TestPriorities(t *testing.T) {
	classifier, err := overload.NewClassifier(overload.ClassifierOptions{Paths: []overload.PathPriority{
		{Pattern: "/shop.Charges/", Priority: overload.P0},
		{Pattern: "/shop.Orders/List", Priority: overload.P2},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method string
		header       []string
		trusted      bool
		rule         string
		want         overload.Priority
	}{
		{"default", "/shop.Orders/Create", nil, false, "", overload.P1},
		{"service", "/shop.Charges/Create", nil, false, "", overload.P0},
		{"method", "/shop.Orders/List", nil, false, "", overload.P2},
		{"a caller lowers", "/shop.Charges/Create", []string{"test"}, false, "", overload.P3},
		{"a caller cannot raise", "/shop.Orders/List", []string{"p0"}, false, "", overload.P2},
		{"a trusted one raises", "/shop.Orders/List", []string{"p0"}, true, "", overload.P0},
		{"two words are not trusted", "/shop.Orders/List", []string{"p0", "p3"}, true, "", overload.P2},
		{"rule", "/shop.Orders/List", nil, false, "critical", overload.P0},
	} {
		gate, _ := newGate(t, overload.Options{})
		i := newInterceptors(t, grpcshed.Options{
			Gate: gate, Classifier: classifier, Header: "X-Priority",
			Trusted: func(context.Context) bool { return c.trusted },
			Rule:    func(context.Context, string) string { return c.rule },
		})
		md := metadata.MD{}
		md.Append("x-priority", c.header...)
		_, err := i.Unary(metadata.NewIncomingContext(t.Context(), md), nil, &grpc.UnaryServerInfo{FullMethod: c.method},
			func(context.Context, any) (any, error) { return nil, nil })
		if err != nil || gate.Stats().Admitted[c.want] != 1 {
			t.Errorf("%s: %+v, %v; want %v", c.name, gate.Stats().Admitted, err, c.want)
		}
	}
}

func TestOptionsAreRefused(t *testing.T) {
	gate := overload.NewGate(nil, nil)
	for want, o := range map[string]grpcshed.Options{
		"no Gate":     {},
		"grpc-status": {Gate: gate, Header: "grpc-status"},
		"token-bin":   {Gate: gate, Header: "token-bin"},
	} {
		if _, err := grpcshed.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one of %q", err, want)
		}
	}
}
