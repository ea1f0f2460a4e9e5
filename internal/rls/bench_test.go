package rls

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

var perMinute = limit.Must(limit.PerMinute(100))

// allowedVerdict is what one limit says of a request that passes.
func allowedVerdict() headgate.Verdict {
	return headgate.Verdict{
		Limit: perMinute, Name: "per-tenant", Hits: 1,
		Decision: limit.Decision{Allowed: true, Limit: 100, Remaining: 99, ResetAfter: time.Minute},
	}
}

func benchRequest() *rlsv3.RateLimitRequest {
	return request("edge", entries("tenant", "acme", "op", "write"))
}

// cycle returns a function that takes one call through decoding, the service and
// encoding, as the transport does.
func cycle(tb testing.TB, s *service) func() {
	b, err := proto.Marshal(benchRequest())
	if err != nil {
		tb.Fatal(err)
	}
	c := newCodec()
	in := mem.BufferSlice{mem.SliceBuffer(b)}
	decode := func(v any) error { return c.Unmarshal(in, v) }
	return func() {
		answered, err := handle(s, context.Background(), decode, nil)
		if err != nil {
			tb.Fatal(err)
		}
		out, err := c.Marshal(answered)
		if err != nil {
			tb.Fatal(err)
		}
		out.Free()
	}
}

// What a call allocates: the text of its strings, and the list of buffers that
// the transport's interface asks for.
func TestCallHardlyAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	run := cycle(t, newService(Options{Checker: says(true, allowedVerdict())}))
	if n := alloctest.PerRun(1000, run); n > 2 {
		t.Errorf("%v allocations per call, want at most 2", n)
	}
}

func BenchmarkCall(b *testing.B) {
	run := cycle(b, newService(Options{Checker: says(true, allowedVerdict())}))
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

// BenchmarkCallDecided is BenchmarkCall with a real limiter in memory.
func BenchmarkCallDecided(b *testing.B) {
	run := cycle(b, newService(Options{Checker: benchLimiter(b)}))
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

func benchLimiter(b testing.TB) Checker {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { buckets.Close() })
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(`
domain: edge
descriptors:
- key: tenant
  descriptors:
  - {key: op, rate_limit: {unit: hour, requests_per_unit: 4000000000}}
`)}}, rulefile.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkCallGenerated is BenchmarkCall's message part with the generated
// types, for comparison.
func BenchmarkCallGenerated(b *testing.B) {
	in, err := proto.Marshal(benchRequest())
	if err != nil {
		b.Fatal(err)
	}
	c := newCodec()
	b.ReportAllocs()
	for b.Loop() {
		var req rlsv3.RateLimitRequest
		if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(in)}, &req); err != nil {
			b.Fatal(err)
		}
		out, err := c.Marshal(constantAnswer())
		if err != nil {
			b.Fatal(err)
		}
		out.Free()
	}
}

func constantAnswer() *rlsv3.RateLimitResponse {
	return &rlsv3.RateLimitResponse{
		OverallCode: rlsv3.RateLimitResponse_OK,
		Statuses:    []*rlsv3.RateLimitResponse_DescriptorStatus{{Code: rlsv3.RateLimitResponse_OK, LimitRemaining: 99}},
	}
}

// constantServer answers a constant with the generated types.
type constantServer struct {
	rlsv3.UnimplementedRateLimitServiceServer
}

func (constantServer) ShouldRateLimit(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return constantAnswer(), nil
}

// BenchmarkShouldRateLimit asks over one loopback connection from 64 callers.
// cpu-ns/op is the processor time of the whole process: client and server.
func BenchmarkShouldRateLimit(b *testing.B) {
	b.Run("constant", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		server := grpc.NewServer()
		rlsv3.RegisterRateLimitServiceServer(server, constantServer{})
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		b.Cleanup(func() {
			server.Stop()
			<-served
		})
		conn := dial(b, l.Addr().String())
		b.Cleanup(func() { conn.Close() })
		benchmarkCalls(b, conn)
	})
	b.Run("scripted", func(b *testing.B) {
		benchmarkCalls(b, serve(b, Options{Checker: says(true, allowedVerdict())}))
	})
	b.Run("memory", func(b *testing.B) {
		benchmarkCalls(b, serve(b, Options{Checker: benchLimiter(b)}))
	})
	b.Run("memory over h2", func(b *testing.B) {
		benchmarkCalls(b, serve(b, Options{Checker: benchLimiter(b), Own: true}))
	})
}

func benchmarkCalls(b *testing.B, conn *grpc.ClientConn) {
	client := rlsv3.NewRateLimitServiceClient(conn)
	req := benchRequest()
	if _, err := client.ShouldRateLimit(b.Context(), req, grpc.WaitForReady(true)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(32)
	before := processorTime(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.ShouldRateLimit(context.Background(), req); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
