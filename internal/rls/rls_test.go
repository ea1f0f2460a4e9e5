package rls

import (
	"context"
	"net"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate"
)

// script is a Checker that answers every request with what it is told.
type script func(ctx context.Context, req *headgate.Request, resp *headgate.Response) error

func (s script) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	for i := range requests {
		if err := s(ctx, &requests[i], &responses[i]); err != nil {
			return err
		}
	}
	return nil
}

// allow is a Checker that no rule limits.
var allow = script(func(_ context.Context, _ *headgate.Request, resp *headgate.Response) error {
	resp.Allowed = true
	return nil
})

// says is a Checker that answers with these verdicts.
func says(allowed bool, verdicts ...headgate.Verdict) Checker {
	return script(func(_ context.Context, _ *headgate.Request, resp *headgate.Response) error {
		resp.Allowed, resp.DomainKnown = allowed, true
		resp.Verdicts = append(resp.Verdicts[:0], verdicts...)
		return nil
	})
}

// overEach runs a test over each transport.
func overEach(t *testing.T, test func(t *testing.T, own bool)) {
	t.Run("grpc-go", func(t *testing.T) { test(t, false) })
	t.Run("h2", func(t *testing.T) { test(t, true) })
}

// serve starts a Server on a free port until the test ends, and returns a
// connection to it.
func serve(t testing.TB, o Options) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- NewServer(o).Serve(ctx, l) }()
	conn := dial(t, l.Addr().String())
	t.Cleanup(func() {
		conn.Close()
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return conn
}

func dial(t testing.TB, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// ask calls the service in process, through the codec both ways.
func ask(t rapid.TB, s *service, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	return askIn(context.Background(), t, s, req)
}

// askIn is ask in a call with a context.
func askIn(ctx context.Context, t rapid.TB, s *service, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	b, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	return askBytesIn(ctx, t, s, b)
}

func askBytes(t rapid.TB, s *service, b []byte) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	return askBytesIn(context.Background(), t, s, b)
}

func askBytesIn(ctx context.Context, t rapid.TB, s *service, b []byte) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	c := newCodec()
	answered, err := handle(s, ctx, func(v any) error {
		return c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, v)
	}, nil)
	if err != nil {
		return nil, err
	}
	data, err := c.Marshal(answered)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Free()
	resp := new(rlsv3.RateLimitResponse)
	if err := proto.Unmarshal(data.Materialize(), resp); err != nil {
		t.Fatal(err)
	}
	return resp, nil
}

// request builds a request from descriptors.
func request(domain string, descriptors ...*ratelimitv3.RateLimitDescriptor) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: domain, Descriptors: descriptors}
}

// entries builds a descriptor from keys and values in turn.
func entries(pairs ...string) *ratelimitv3.RateLimitDescriptor {
	d := new(ratelimitv3.RateLimitDescriptor)
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func withHits(d *ratelimitv3.RateLimitDescriptor, hits uint64) *ratelimitv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

func headersOf(resp *rlsv3.RateLimitResponse) map[string]string {
	headers := map[string]string{}
	for _, h := range resp.ResponseHeadersToAdd {
		headers[h.Key] = h.Value
	}
	return headers
}
