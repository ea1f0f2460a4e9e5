package loadgen

import (
	"context"
	"net"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
)

// answers is a server of Envoy's protocol that answers anything.
type answers struct {
	rlsv3.UnimplementedRateLimitServiceServer
	answer *rlsv3.RateLimitResponse
	err    error
}

// ShouldRateLimit implements rlsv3.RateLimitServiceServer.
func (a *answers) ShouldRateLimit(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return a.answer, a.err
}

// Only OK and OVER_LIMIT decide, and codes that no server has a reason to send are one, because they are counted.
func TestAnswersOverGRPC(t *testing.T) {
	for name, test := range map[string]struct {
		answers answers
		want    Answer
		err     string
	}{
		"allowed":          {answers{answer: &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}}, Answer{Code: "OK", Decided: true, Allowed: true}, ""},
		"denied":           {answers{answer: &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OVER_LIMIT}}, Answer{Code: "OVER_LIMIT", Decided: true}, ""},
		"an empty answer":  {answers{answer: &rlsv3.RateLimitResponse{}}, Answer{Code: "UNKNOWN"}, ""},
		"a code of nobody": {answers{answer: &rlsv3.RateLimitResponse{OverallCode: 77}}, Answer{Code: "UNKNOWN"}, ""},
		"an error":         {answers{err: status.Error(codes.PermissionDenied, "no")}, Answer{Code: "PermissionDenied"}, "no"},
		"an unknown error": {answers{err: status.Error(123456, "no")}, Answer{Code: "Unknown"}, "no"},
		"a long answer":    {answers{answer: &rlsv3.RateLimitResponse{OverallCode: 1, RawBody: make([]byte, maxAnswer)}}, Answer{Code: "ResourceExhausted"}, "larger than max"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		rlsv3.RegisterRateLimitServiceServer(server, &test.answers)
		go func() { _ = server.Serve(l) }()
		g, err := NewOverGRPC(l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		g.Request = func(int) headgate.Request { return headgate.Request{Domain: "d"} }
		got := g.Send(t.Context(), 0)
		if (got.Err == nil) != (test.err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), test.err) {
			t.Errorf("%s: %v", name, got.Err)
		}
		if got.Err = nil; got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		g.Close()
		server.Stop()
	}
}

// The text of an error is in the header of the answer, which has a bound as well.
func TestLongErrorsOverGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	defer server.Stop()
	rlsv3.RegisterRateLimitServiceServer(server, &answers{err: status.Error(codes.Internal, strings.Repeat("x", MaxHeader+1))})
	go func() { _ = server.Serve(l) }()
	g, err := NewOverGRPC(l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Request = func(int) headgate.Request { return headgate.Request{Domain: "d"} }
	if a := g.Send(t.Context(), 0); a.Decided || a.Err == nil || len(a.Err.Error()) > MaxHeader {
		t.Errorf("%.200v", a)
	}
}
