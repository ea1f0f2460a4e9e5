package stream

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate/client/stream/streampb"
	waits "github.com/headgate/headgate/internal/eventually"
)

// server answers streams by a function; it stands for a headgate that does what none does when it
// is asked to.
type server struct {
	streampb.UnimplementedCheckStreamServer
	answer func(streampb.CheckStream_CheckServer) error
}

func (s server) Check(stream streampb.CheckStream_CheckServer) error { return s.answer(stream) }

// connect returns a connection to a server of s.
func connect(t testing.TB, s streampb.CheckStreamServer) *grpc.ClientConn {
	t.Helper()
	l, served := bufconn.Listen(1<<16), grpc.NewServer()
	streampb.RegisterCheckStreamServer(served, s)
	go served.Serve(l)
	t.Cleanup(served.Stop)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// answering answers each message by what one returns for its checks.
func answering(one func(*streampb.Check) *streampb.Answer) server {
	return server{answer: func(s streampb.CheckStream_CheckServer) error {
		for {
			m, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			r := new(streampb.CheckResponse)
			for _, check := range m.GetChecks() {
				if a := one(check); a != nil {
					a.Number = check.GetNumber()
					r.Answers = append(r.Answers, a)
				}
			}
			if err := s.Send(r); err != nil {
				return err
			}
		}
	}}
}

func allowed() *streampb.Answer {
	return &streampb.Answer{Outcome: &streampb.Answer_Response{Response: &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}}}
}

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
	t.Cleanup(cancel)
	return ctx
}

func in(domain string) *rlsv3.RateLimitRequest { return &rlsv3.RateLimitRequest{Domain: domain} }

func TestAnswers(t *testing.T) {
	var timeout atomic.Int64
	c := New(connect(t, answering(func(check *streampb.Check) *streampb.Answer {
		timeout.Store(int64(check.GetTimeout().AsDuration()))
		if check.GetRequest().GetDomain() == "bad" {
			return &streampb.Answer{Outcome: &streampb.Answer_Failure{Failure: &streampb.Failure{Code: int32(codes.InvalidArgument), Message: "no such domain"}}}
		}
		return allowed()
	})), Options{})
	defer c.Close()
	if got, err := c.ShouldRateLimit(context.Background(), in("good")); err != nil || got.GetOverallCode() != rlsv3.RateLimitResponse_OK || timeout.Load() != 0 {
		t.Errorf("%v, %v, timeout %v", got, err, timeout.Load())
	}
	_, err := c.ShouldRateLimit(bounded(t), in("bad"))
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "no such domain" {
		t.Errorf("failed with %v", err)
	}
	if d := time.Duration(timeout.Load()); d <= 0 || d > waits.Patience {
		t.Errorf("the check had %v", d)
	}
	if _, err := c.ShouldRateLimit(bounded(t), in("good"), grpc.WaitForReady(true)); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "hint: give them to the connection") {
		t.Errorf("options of a call: %v", err)
	}
}

// TestMetadata: what is sent with each call.
func TestMetadata(t *testing.T) {
	c := New(connect(t, server{answer: func(s streampb.CheckStream_CheckServer) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		return status.Error(codes.Aborted, strings.Join(md["authorization"], ","))
	}}), Options{Metadata: metadata.Pairs("authorization", "Bearer x")})
	defer c.Close()
	if _, err := c.ShouldRateLimit(bounded(t), in("d")); status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "Bearer x") {
		t.Errorf("%v", err)
	}
}

// TestErrors: the end of a call is told to all who wait, and the next check makes another one.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		server streampb.CheckStreamServer
		want   codes.Code
		about  string
	}{
		{"none that streams", streampb.UnimplementedCheckStreamServer{}, codes.Unimplemented, ""},
		{"one that refuses", server{answer: func(streampb.CheckStream_CheckServer) error {
			return status.Error(codes.Unauthenticated, "no token")
		}}, codes.Unauthenticated, "no token"},
		{"one that breaks off", server{answer: func(s streampb.CheckStream_CheckServer) error {
			_, _ = s.Recv()
			return status.Error(codes.Unavailable, "gone")
		}}, codes.Unavailable, "gone"},
		{"one that ends without an answer", server{answer: func(s streampb.CheckStream_CheckServer) error {
			_, err := s.Recv()
			return err
		}}, codes.Unavailable, "without an answer"},
		{"one that answers nothing", answering(func(*streampb.Check) *streampb.Answer { return new(streampb.Answer) }), codes.Internal, "is this a headgate?"},
		{"one that fails without a reason", answering(func(*streampb.Check) *streampb.Answer {
			return &streampb.Answer{Outcome: &streampb.Answer_Failure{Failure: &streampb.Failure{}}}
		}), codes.Unknown, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := New(connect(t, test.server), Options{})
			defer c.Close()
			for range 3 {
				if _, err := c.ShouldRateLimit(bounded(t), in("d")); status.Code(err) != test.want || !strings.Contains(err.Error(), test.about) {
					t.Errorf("%v, want %v about %q", err, test.want, test.about)
				}
			}
		})
	}
}

// TestSentAgain: what a call had not answered when the server ended it is asked by the next one,
// in the order in which it came.
func TestSentAgain(t *testing.T) {
	var calls atomic.Int64
	c := New(connect(t, server{answer: func(s streampb.CheckStream_CheckServer) error {
		calls.Add(1)
		m, err := s.Recv()
		if err != nil {
			return err
		}
		a := allowed()
		a.Number = m.GetChecks()[0].GetNumber()
		return s.Send(&streampb.CheckResponse{Answers: []*streampb.Answer{a}})
	}}), Options{})
	defer c.Close()
	answers := make(chan error)
	const n = 50
	for range n {
		go func() {
			_, err := c.ShouldRateLimit(bounded(t), in("d"))
			answers <- err
		}()
	}
	for range n {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if got := calls.Load(); got != n {
		t.Errorf("%d calls, want %d", got, n)
	}
}

// TestAskersThatGo: who waits no longer hears so at once, leaves nothing behind, and gives its
// room to another.
func TestAskersThatGo(t *testing.T) {
	answer := make(chan struct{})
	c := New(connect(t, answering(func(*streampb.Check) *streampb.Answer {
		<-answer
		return allowed()
	})), Options{MaxInFlight: 1})
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := c.ShouldRateLimit(ctx, in("d"))
		first <- err
	}()
	waits.True(t, "the first check is sent", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.sent) == 1
	})
	late, over := context.WithTimeout(t.Context(), time.Nanosecond)
	defer over()
	if _, err := c.ShouldRateLimit(late, in("d")); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("without room: %v", err)
	}
	cancel()
	if err := <-first; status.Code(err) != codes.Canceled {
		t.Errorf("given up: %v", err)
	}
	if len(c.sent) != 0 || len(c.queue) != 0 {
		t.Errorf("%d and %d checks are left", len(c.sent), len(c.queue))
	}
	close(answer)
	if _, err := c.ShouldRateLimit(bounded(t), in("d")); err != nil {
		t.Error(err)
	}
}

// TestClose: checks hear that the client is closed, those that wait too.
func TestClose(t *testing.T) {
	asked := make(chan struct{}, 1)
	c := New(connect(t, answering(func(*streampb.Check) *streampb.Answer {
		asked <- struct{}{}
		return nil
	})), Options{})
	waiting := make(chan error)
	go func() {
		_, err := c.ShouldRateLimit(bounded(t), in("d"))
		waiting <- err
	}()
	<-asked
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("one that waits: %v", err)
	}
	if _, err := c.ShouldRateLimit(bounded(t), in("d")); !errors.Is(err, ErrClosed) {
		t.Errorf("one after it: %v", err)
	}
}

// TestForget: a check that nobody waits for is not sent.
func TestForget(t *testing.T) {
	c := New(nil, Options{})
	one, two := &check{number: 1}, &check{number: 2}
	c.queue = []*check{one, two}
	c.forget(one)
	if m := decodeRequest(t, c.next(time.Time{})); len(m.GetChecks()) != 1 || m.GetChecks()[0].GetNumber() != 2 {
		t.Errorf("%v", m)
	}
}

// TestGoesOn: what becomes of the checks that have no answer when a call ends.
func TestGoesOn(t *testing.T) {
	away := status.Error(codes.Unavailable, "away")
	for _, test := range []struct {
		name                 string
		answered             bool
		err                  error
		sentFails, restFails bool
	}{
		{"ended by the server", true, nil, false, false},
		{"ended by the server without an answer", false, nil, false, false},
		{"broken", true, away, true, false},
		{"never made", false, away, true, true},
	} {
		c := New(nil, Options{})
		sent, rest := &check{number: 1, done: make(chan struct{})}, &check{number: 2, done: make(chan struct{})}
		c.sent[1], c.queue = sent, []*check{rest}
		if goesOn := c.goesOn(test.answered, test.err); goesOn == test.restFails {
			t.Errorf("%s: goes on %v", test.name, goesOn)
		}
		if (sent.failure != nil) != test.sentFails || (rest.failure != nil) != test.restFails {
			t.Errorf("%s: failures %v, %v", test.name, sent.failure, rest.failure)
		}
		if !test.sentFails && (len(c.queue) != 2 || c.queue[0] != sent) {
			t.Errorf("%s: what was sent is not asked again first", test.name)
		}
	}
}

// TestVainCallsInARow: an answer between them begins the count anew.
func TestVainCallsInARow(t *testing.T) {
	c := New(nil, Options{})
	asked := &check{number: 1, done: make(chan struct{})}
	c.sent[1] = asked
	for i, answered := range []bool{false, false, true, false, false, false} {
		last := i == 5
		if c.goesOn(answered, nil) == last {
			t.Errorf("call %d: goes on %v", i, !last)
		}
		c.next(time.Time{})
	}
	if asked.failure == nil {
		t.Error("it waits for an answer after three calls without one")
	}
}

// TestEndOfAClosedClient: whatever ends the call after Close, checks hear that the client is closed.
func TestEndOfAClosedClient(t *testing.T) {
	c := New(nil, Options{})
	asked := &check{done: make(chan struct{})}
	c.sent[1] = asked
	c.Close()
	if c.goesOn(false, status.Error(codes.Canceled, "context canceled")) {
		t.Error("it makes one more call")
	}
	<-asked.done
	if _, err := asked.answer(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestLongMessages: a message is no longer than the server takes, and nor is a request.
func TestLongMessages(t *testing.T) {
	c := New(nil, Options{})
	longest := make([]byte, maxMessage-around)
	timed := time.Unix(1<<33, 999_999_999)
	for _, request := range [][]byte{longest, longest[:maxMessage/2-around], longest[:maxMessage/2-around], nil} {
		c.number = math.MaxUint64 - 4 + uint64(len(c.queue))
		c.queue = append(c.queue, &check{number: c.number, request: request, deadline: timed})
	}
	for _, want := range []int{1, 2, 1} {
		before := len(c.queue)
		m := c.next(time.Time{})
		if sent := before - len(c.queue); sent != want || len(m) > maxMessage {
			t.Errorf("%d checks in %d bytes, want %d", sent, len(m), want)
		}
	}
	long := &rlsv3.RateLimitRequest{Domain: strings.Repeat("a", maxMessage-around)}
	if _, err := c.ShouldRateLimit(t.Context(), long); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "at most 4194240") {
		t.Error(err)
	}
}

// TestBatch: a message has no more checks than it may.
func TestBatch(t *testing.T) {
	c := New(nil, Options{MaxBatch: 2})
	for range 5 {
		c.number++
		c.queue = append(c.queue, &check{number: c.number})
	}
	for _, want := range []int{2, 2, 1} {
		m := decodeRequest(t, c.next(time.Time{}))
		if len(m.GetChecks()) != want {
			t.Errorf("%d checks, want %d", len(m.GetChecks()), want)
		}
	}
	if m := c.next(time.Time{}); m != nil {
		t.Errorf("a message of nothing: %v", m)
	}
	if o := New(nil, Options{MaxBatch: 5000}).options; o.MaxBatch != maxBatch || o.MaxInFlight != 4096 {
		t.Errorf("%+v", o)
	}
}
