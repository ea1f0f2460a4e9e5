package dualrun

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// old is an old service that does what the test says.
type old struct {
	rlsv3.UnimplementedRateLimitServiceServer
	answers func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)
}

func (o *old) ShouldRateLimit(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return o.answers(ctx, req)
}

// serve returns a connection to a service.
func serve(t *testing.T, s rlsv3.RateLimitServiceServer) *grpc.ClientConn {
	t.Helper()
	listener, server := bufconn.Listen(1<<16), grpc.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, s)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

type decision = func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)

// beside returns a Service before an old one, and a client of it.
func beside(t *testing.T, theirs, ours decision) (*Service, rlsv3.RateLimitServiceClient) {
	t.Helper()
	s := New(Options{
		Of: serve(t, &old{answers: theirs}), Name: "grpc://old:8081", Decide: ours, Hash: func(string, string) string { return "h" },
		OnPanic: func(cause any, stack []byte) { t.Errorf("%v\n%s", cause, stack) },
		Hidden:  func(name, _ string) bool { return name == "x-secret" },
	})
	return s, rlsv3.NewRateLimitServiceClient(serve(t, s))
}

func always(m *rlsv3.RateLimitResponse, err error) decision {
	return func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) { return m, err }
}

// The answer is that of the old service, with fields that nobody knows here and its metadata;
// the request and the metadata of the caller get there, but for secrets.
func TestAnswersAreThoseOfTheOldService(t *testing.T) {
	theirs := answer(of(over, 5, time.Minute))
	theirs.ResponseHeadersToAdd = nil
	theirs.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "unknown"))
	asked := request("d", "user", "ann")
	asked.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 98, protowire.BytesType), "unknown too"))
	s, client := beside(t, func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		if !proto.Equal(req, asked) {
			t.Errorf("it was asked %v", req)
		}
		md, _ := metadata.FromIncomingContext(ctx)
		if got := md.Get("traceparent"); len(got) != 1 || got[0] != "00-1-2-01" || len(md.Get("x-secret")) > 0 {
			t.Errorf("metadata %v", md)
		}
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", "h"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trail", "t"))
		return theirs, nil
	}, always(answer(of(ok, 5, time.Minute)), nil))
	var header, trailer metadata.MD
	got, err := client.ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-1-2-01", "x-secret", "s"), asked, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil || !proto.Equal(got, theirs) {
		t.Errorf("%v, %v", got, err)
	}
	if header.Get("x-head")[0] != "h" || trailer.Get("x-trail")[0] != "t" {
		t.Errorf("header %v, trailer %v", header, trailer)
	}
	s.Wait()
	if r := s.Report(); r.Compared != 1 || r.Different != 1 || r.Causes[Start] != 1 {
		t.Errorf("%+v", r)
	}
}

// An error of the old service is the caller's, by its code and message, and no difference.
func TestOldServiceFails(t *testing.T) {
	s, client := beside(t, always(nil, status.Error(codes.ResourceExhausted, "too much")), always(answer(), nil))
	var told []error
	s.options.OnFailed = func(err error) { told = append(told, err) }
	_, err := client.ShouldRateLimit(t.Context(), request("d", "user", "ann"))
	if status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "too much" {
		t.Errorf("%v", err)
	}
	s.Wait()
	if r := s.Report(); r.OldFailed != 1 || r.Compared != 0 || r.OwnFailed != 0 {
		t.Errorf("%+v", r)
	}
	if len(told) != 1 || status.Code(told[0]) != codes.ResourceExhausted {
		t.Errorf("told %v", told)
	}
}

// When the old service has gone, callers hear what they would hear of it.
func TestOldServiceHasGone(t *testing.T) {
	conn, _, err := Dial("grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := New(Options{Of: conn, Name: "old", Decide: always(answer(), nil), Hash: func(string, string) string { return "" }})
	if _, err := s.ShouldRateLimit(t.Context(), request("d", "user", "ann")); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	s.Wait()
}

// The caller waits no longer than it said, and an own decision that takes longer holds up
// nobody.
func TestNobodyWaits(t *testing.T) {
	release := make(chan struct{})
	_, slow := beside(t, func(ctx context.Context, _ *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		<-ctx.Done() // as slow as can be
		return nil, ctx.Err()
	}, always(answer(), nil))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	// Whether the call gets there before the caller has gone is open, so nothing waits for it.
	if _, err := slow.ShouldRateLimit(ctx, request("d", "user", "ann")); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a slow old service: %v", err)
	}

	s, client := beside(t, always(answer(of(ok, 5, 0)), nil), func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		<-release
		return answer(of(ok, 5, 0)), nil
	})
	for range maxUnderWay + 5 {
		if _, err := client.ShouldRateLimit(t.Context(), request("d", "user", "ann")); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.Report(); r.Skipped != 5 || r.Compared != 0 {
		t.Errorf("%+v", r)
	}
	close(release)
	s.Wait()
	if r := s.Report(); r.Compared != maxUnderWay || r.Different != 0 {
		t.Errorf("%+v", r)
	}
}

// An own decision that fails or panics is counted, and nothing else.
func TestOwnDecisionFails(t *testing.T) {
	told := 0
	for _, ours := range []decision{always(nil, errors.New("no store")), func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) { panic("a bug") }} {
		s, client := beside(t, always(answer(of(ok, 5, 0)), nil), ours)
		s.options.OnPanic = func(any, []byte) { told++ }
		if got, err := client.ShouldRateLimit(t.Context(), request("d", "user", "ann")); err != nil || got.GetOverallCode() != ok {
			t.Errorf("%v, %v", got, err)
		}
		s.Wait()
		if r := s.Report(); r.OwnFailed != 1 || r.Compared != 0 {
			t.Errorf("%+v", r)
		}
	}
	if told != 1 {
		t.Errorf("told of %d panics", told)
	}
}

func TestDial(t *testing.T) {
	for url, want := range map[string]string{"grpc://old:8081": "grpc://old:8081", "grpc://old:8081/": "grpc://old:8081", "grpcs://old.internal:443?server_name=x&min_tls=1.3": "grpcs://old.internal:443"} {
		conn, name, err := Dial(url)
		if err != nil || name != want {
			t.Errorf("%s: %q, %v", url, name, err)
			continue
		}
		conn.Close()
	}
	for _, url := range []string{"", "old:8081", "http://old:8081", "grpc://old", "grpc://user:word@old:1", "grpc://old:1/path", "grpc://old:1?ca=/x", "grpcs://old:1?ca=/nowhere", "grpcs://old:1?word=hunter2", "grpc://old:1?password_file=/x", "grpc://%zz"} {
		if conn, _, err := Dial(url); err == nil {
			conn.Close()
			t.Errorf("%s was taken", url)
		}
	}
}
