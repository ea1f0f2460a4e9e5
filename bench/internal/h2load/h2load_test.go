package h2load

import (
	"context"
	"net"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// alternating answers OK and OVER_LIMIT by domain, and an error to others.
type alternating struct {
	pb.UnimplementedRateLimitServiceServer
}

func (alternating) ShouldRateLimit(_ context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	switch r.GetDomain() {
	case "ok":
		return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
	case "over":
		return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OVER_LIMIT}, nil
	}
	return nil, status.Error(codes.InvalidArgument, "unknown domain")
}

func serve(t *testing.T) net.Addr {
	t.Helper()
	return serveOn(t, alternating{})
}

func serveOn(t *testing.T, service pb.RateLimitServiceServer) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(s, service)
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr()
}

func messages(t *testing.T, domains ...string) [][]byte {
	t.Helper()
	var all [][]byte
	for _, d := range domains {
		m, err := proto.Marshal(&pb.RateLimitRequest{Domain: d})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func options(addr net.Addr, messages [][]byte) Options {
	return Options{
		Network: "tcp", Addr: addr.String(),
		Path:     "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
		Messages: messages, Connections: 2, Streams: 8,
		MaxWarmUp: time.Second, Measure: 200 * time.Millisecond,
	}
}

func TestRunAgainstGRPC(t *testing.T) {
	o := options(serve(t), messages(t, "ok", "over"))
	var calls string
	o.Begin = func() { calls += "begin " }
	o.End = func() { calls += "end" }
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if calls != "begin end" {
		t.Errorf("callbacks: %q", calls)
	}
	if r.Answers == 0 || r.Codes[1] == 0 || r.Codes[2] == 0 || r.Codes[0]+r.Codes[3] != 0 {
		t.Errorf("%d answers with codes %v, want both OK and OVER_LIMIT and no others", r.Answers, r.Codes)
	}
	if r.Latencies.Quantile(0.5) <= 0 || r.Latencies.Quantile(0.5) > r.Latencies.Quantile(1) {
		t.Errorf("p50 %v, slowest %v", r.Latencies.Quantile(0.5), r.Latencies.Quantile(1))
	}
}

// A warm-up of several passes ends when they are over: nothing else ends this one.
func TestSeveralPasses(t *testing.T) {
	o := options(serve(t), messages(t, "ok", "over"))
	o.Passes, o.MaxWarmUp = 50, time.Hour
	if r, err := Run(o); err != nil || r.Answers == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunReportsErrors(t *testing.T) {
	if r, err := Run(options(serve(t), messages(t, "nowhere"))); err == nil {
		t.Errorf("a server that answers with errors was measured: %+v", r.Answers)
	}
}

func TestQuantile(t *testing.T) {
	var l Latencies
	if got := l.Quantile(0.5); got != 0 {
		t.Errorf("median of nothing is %v, want 0", got)
	}
	for i := 100; i >= 1; i-- {
		l.Add(time.Duration(i) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{
		0: time.Microsecond, 0.5: 51 * time.Microsecond, 0.99: 100 * time.Microsecond, 1: 100 * time.Microsecond,
	} {
		if got := l.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
