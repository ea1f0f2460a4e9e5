package streamfront

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client/stream"
	"github.com/headgate/headgate/client/stream/streampb"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

// script is a Checker that decides each request by a function.
type script func(ctx context.Context, req *headgate.Request, resp *headgate.Response) error

func (s script) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	for i := range requests {
		if err := s(ctx, &requests[i], &responses[i]); err != nil {
			return err
		}
	}
	return nil
}

// threeAYear is a limiter in memory by which each user passes three times.
func threeAYear(t testing.TB) rls.Checker {
	t.Helper()
	counts, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	l, err := headgate.New(headgate.Options{Store: counts, Rules: testrules.Load(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 3, algorithm: fixed_window}}]\n")})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// overEach runs a test over each transport.
func overEach(t *testing.T, test func(t *testing.T, own bool)) {
	t.Run("grpc-go", func(t *testing.T) { test(t, false) })
	t.Run("h2", func(t *testing.T) { test(t, true) })
}

// serving is a service at an address.
type serving struct {
	*Service
	addr string
	// end ends it, and returns when it has.
	end func()
}

// serve serves checks by a checker until the test ends.
func serve(t testing.TB, own bool, checker rls.Checker, change func(*Options)) *serving {
	t.Helper()
	envoy := rls.Options{Checker: checker, Own: own, DrainTimeout: waits.Patience, OnPanic: func(cause any, stack []byte) { t.Errorf("%v\n%s", cause, stack) }}
	o := Options{Rounds: rls.NewRounds(envoy), Longest: time.Hour, OnPanic: envoy.OnPanic}
	if change != nil {
		change(&o)
	}
	service := New(o)
	service.unreadFor, service.newcomer = waits.Patience, waits.Patience
	envoy.Serve(service.Register, Method, service.options.Enter)
	envoy.OnDrain = service.Drain
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rls.NewServer(envoy).Serve(ctx, l) }()
	end := sync.OnceFunc(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(end)
	return &serving{service, l.Addr().String(), end}
}

// dial returns a connection to the addresses, the first of them that answers.
func dial(t testing.TB, addrs ...string) *grpc.ClientConn {
	t.Helper()
	r := manual.NewBuilderWithScheme("test")
	state := resolver.State{}
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	r.InitialState(state)
	conn, err := grpc.NewClient("test:///headgate", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(r))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// open opens a stream by the generated client.
func open(t testing.TB, s *serving) streampb.CheckStream_CheckClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
	t.Cleanup(cancel)
	opened, err := streampb.NewCheckStreamClient(dial(t, s.addr)).Check(ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func asks(user string) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
		Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: user}},
	}}}
}

// ofUsers are checks of users, numbered from first on.
func ofUsers(first uint64, users ...string) *streampb.CheckRequest {
	r := new(streampb.CheckRequest)
	for i, user := range users {
		r.Checks = append(r.Checks, &streampb.Check{Number: first + uint64(i), Request: asks(user)})
	}
	return r
}

// hear returns the next n answers, as text, in the order in which they come.
func hear(t testing.TB, s streampb.CheckStream_CheckClient, n int) (all []string) {
	t.Helper()
	for len(all) < n {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		for _, a := range m.GetAnswers() {
			what := a.GetResponse().GetOverallCode().String()
			if f := a.GetFailure(); f != nil {
				what = codes.Code(f.GetCode()).String()
			}
			all = append(all, fmt.Sprint(a.GetNumber(), " ", what))
		}
	}
	return all
}

// sendAll sends a message so often, and then no more, whether answers are read or not. What is
// returned has the error by which that has ended, or nil.
func sendAll(s streampb.CheckStream_CheckClient, messages int, m *streampb.CheckRequest) <-chan error {
	sent := make(chan error, 1)
	go func() {
		for range messages {
			if err := s.Send(m); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	return sent
}

// ended sees to it that a stream ends with nothing more than a code; OK is that of its end.
func ended(t testing.TB, s streampb.CheckStream_CheckClient, want codes.Code, about string) {
	t.Helper()
	m, err := s.Recv()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if m != nil || status.Code(err) != want || !strings.Contains(status.Convert(err).Message(), about) {
		t.Errorf("the stream went on with %v and ended with %v, want %v about %q", m, err, want, about)
	}
}

func TestAnswers(t *testing.T) { overEach(t, testAnswers) }

func testAnswers(t *testing.T, own bool) {
	service := serve(t, own, threeAYear(t), nil)
	s := open(t, service)
	m := ofUsers(7, "ann", "bob", "ann", "ann", "ann")
	m.Checks[1].Request.Descriptors[0].Entries[0].Key = ""
	m.Checks = append(m.Checks, &streampb.Check{}) // asks nothing
	m.InOrder = true
	if err := s.Send(m); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(hear(t, s, 6), ", ")
	if want := "7 OK, 8 InvalidArgument, 9 OK, 10 OK, 11 OVER_LIMIT, 0 InvalidArgument"; got != want {
		t.Errorf("answered %s, want %s", got, want)
	}
	if err := s.Send(&streampb.CheckRequest{}); err != nil { // which is of no check
		t.Fatal(err)
	}
	if err := s.Send(ofUsers(1, "ann")); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, s, 1); got[0] != "1 OVER_LIMIT" {
		t.Errorf("answered %q", got)
	}
	ended(t, s, codes.OK, "")
	waits.True(t, "the stream is closed", func() bool { return service.Stats().Streams == 0 })
	if got, want := service.Stats(), (Stats{Messages: 3, Checks: 7, Failed: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestOrder: answers come as they are made, or in the order of their checks where the first
// message says so.
func TestOrder(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		t.Run(fmt.Sprint(inOrder), func(t *testing.T) {
			quick, slow := make(chan struct{}), make(chan struct{})
			service := serve(t, true, script(func(_ context.Context, req *headgate.Request, resp *headgate.Response) error {
				if req.Descriptors[0].Entries[0].Value == "slow" {
					<-slow
				} else {
					close(quick)
				}
				resp.Allowed = true
				return nil
			}), nil)
			s := open(t, service)
			if err := s.Send(&streampb.CheckRequest{InOrder: inOrder}); err != nil { // of no check
				t.Fatal(err)
			}
			if err := s.Send(ofUsers(1, "slow")); err != nil {
				t.Fatal(err)
			}
			second := ofUsers(2, "quick")
			second.InOrder = !inOrder // is not read
			if err := s.Send(second); err != nil {
				t.Fatal(err)
			}
			<-quick
			if inOrder {
				close(slow)
				if got := hear(t, s, 2); got[0] != "1 OK" || got[1] != "2 OK" {
					t.Errorf("answered %q", got)
				}
				return
			}
			if got := hear(t, s, 1); got[0] != "2 OK" {
				t.Errorf("answered %q", got)
			}
			close(slow)
			if got := hear(t, s, 1); got[0] != "1 OK" {
				t.Errorf("answered %q", got)
			}
		})
	}
}

// TestTimeouts: a check is decided with the time that it names, and those of a stream have no
// other.
func TestTimeouts(t *testing.T) {
	var with, without atomic.Bool
	service := serve(t, true, script(func(ctx context.Context, req *headgate.Request, resp *headgate.Response) error {
		_, bounded := ctx.Deadline()
		switch user := req.Descriptors[0].Entries[0].Value; {
		case user == "ends":
			<-ctx.Done()
			with.Store(errors.Is(ctx.Err(), context.DeadlineExceeded))
		case user == "never" && !bounded:
			without.Store(true)
		}
		resp.Allowed = true
		return nil
	}), nil)
	conn := dial(t, service.addr)
	s, err := streampb.NewCheckStreamClient(conn).Check(t.Context(), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	m := ofUsers(1, "ends", "never")
	m.Checks[0].Timeout = durationpb.New(time.Nanosecond)
	m.Checks[1].Timeout = &durationpb.Duration{Seconds: 1 << 62}
	if err := s.Send(m); err != nil {
		t.Fatal(err)
	}
	hear(t, s, 2)
	if !with.Load() || !without.Load() {
		t.Errorf("ended by its time: %v, without one: %v", with.Load(), without.Load())
	}
	m = ofUsers(1, "never")
	m.Checks[0].Timeout = durationpb.New(-1)
	if err := s.Send(m); err != nil {
		t.Fatal(err)
	}
	ended(t, s, codes.InvalidArgument, "a timeout below 0")
}

func TestTooManyChecks(t *testing.T) {
	service := serve(t, true, threeAYear(t), nil)
	s := open(t, service)
	users := make([]string, maxChecks)
	if err := s.Send(ofUsers(1, users...)); err != nil {
		t.Fatal(err)
	}
	hear(t, s, maxChecks)
	if err := s.Send(ofUsers(1, append(users, "")...)); err != nil {
		t.Fatal(err)
	}
	ended(t, s, codes.InvalidArgument, "more than 1000 checks; hint: send several messages")
}

// TestRoom: what is in flight of a stream is bounded, and so is what is read of it; nothing is
// lost by that.
func TestRoom(t *testing.T) { overEach(t, testRoom) }

func testRoom(t *testing.T, own bool) {
	open2, decided := make(chan struct{}), atomic.Int64{}
	service := serve(t, own, script(func(_ context.Context, _ *headgate.Request, resp *headgate.Response) error {
		<-open2
		decided.Add(1)
		resp.Allowed = true
		return nil
	}), nil)
	s := open(t, service)
	const messages = 40
	users := make([]string, maxChecks)
	sent := sendAll(s, messages, ofUsers(1, users...))
	waits.True(t, "a message waits", func() bool { return service.Stats().Waited > 0 })
	if n := service.Stats().Checks; n*checkWeight > streamRoom || n == 0 {
		t.Errorf("%d checks are in flight", n)
	}
	close(open2)
	hear(t, s, messages*maxChecks)
	ended(t, s, codes.OK, "")
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if n := decided.Load(); n != messages*maxChecks {
		t.Errorf("%d checks were decided, want %d", n, messages*maxChecks)
	}
	waits.True(t, "all room is free again", func() bool {
		if !service.room.TryAcquire(processRoom) {
			return false
		}
		service.room.Release(processRoom)
		return true
	})
}

// TestRoomOfAnswers: long answers that nobody reads are bounded as questions are.
func TestRoomOfAnswers(t *testing.T) { overEach(t, testRoomOfAnswers) }

func testRoomOfAnswers(t *testing.T, own bool) {
	const length, checks, messages = 10 << 10, 100, 40
	verdict := headgate.Verdict{Limit: limit.Must(limit.PerMinute(9)), Name: strings.Repeat("n", length), Decision: limit.Decision{Allowed: true, Limit: 9}}
	service := serve(t, own, script(func(_ context.Context, _ *headgate.Request, resp *headgate.Response) error {
		resp.Allowed, resp.Verdicts = true, append(resp.Verdicts[:0], verdict)
		return nil
	}), nil)
	s := open(t, service)
	users := make([]string, checks)
	if err := s.Send(ofUsers(1, "ann")); err != nil {
		t.Fatal(err)
	}
	hear(t, s, 1) // now it is known how long answers are
	sent := sendAll(s, messages, ofUsers(1, users...))
	waits.True(t, "a message waits", func() bool { return service.Stats().Waited > 0 })
	if n := service.Stats().Checks; n*length > 2*streamRoom || n < checks {
		t.Errorf("%d checks with answers of %d bytes are in flight", n, length)
	}
	hear(t, s, messages*checks)
	ended(t, s, codes.OK, "")
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestEnter: who may not check is refused when the stream is opened, and who may not any more
// with the next message.
func TestEnter(t *testing.T) { overEach(t, testEnter) }

func testEnter(t *testing.T, own bool) {
	var refused atomic.Bool
	service := serve(t, own, threeAYear(t), func(o *Options) {
		o.Enter = func(ctx context.Context) error {
			if md, _ := metadata.FromIncomingContext(ctx); len(md["authorization"]) == 0 || refused.Load() {
				return status.Error(codes.Unauthenticated, "no token")
			}
			return nil
		}
	})
	ended(t, open(t, service), codes.Unauthenticated, "no token")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x")
	s, err := streampb.NewCheckStreamClient(dial(t, service.addr)).Check(ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(ofUsers(1, "ann")); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, s, 1); got[0] != "1 OK" {
		t.Errorf("answered %q", got)
	}
	refused.Store(true)
	if err := s.Send(ofUsers(2, "ann")); err != nil {
		t.Fatal(err)
	}
	ended(t, s, codes.Unauthenticated, "no token")
}

// TestHeadersOfTheStream: an id in the header of a stream is not that of its checks, of which
// only the first would be decided then.
func TestHeadersOfTheStream(t *testing.T) {
	service := serve(t, true, threeAYear(t), nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "headgate-check-id", "one")
	s, err := streampb.NewCheckStreamClient(dial(t, service.addr)).Check(ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	m := ofUsers(1, "ann", "ann", "ann", "ann")
	m.InOrder = true
	if err := s.Send(m); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(hear(t, s, 4), ", "); got != "1 OK, 2 OK, 3 OK, 4 OVER_LIMIT" {
		t.Errorf("answered %s", got)
	}
}

// TestStreamsAreBounded: one more than a process has is refused.
func TestStreamsAreBounded(t *testing.T) {
	service := serve(t, true, threeAYear(t), nil)
	service.streams.Store(maxStreams)
	ended(t, open(t, service), codes.ResourceExhausted, "hint: more nodes")
	service.streams.Store(maxStreams - 1)
	s := open(t, service)
	if err := s.Send(ofUsers(1, "ann")); err != nil {
		t.Fatal(err)
	}
	hear(t, s, 1)
}

// counting is a Checker that lets everything pass and counts how often it has decided.
func counting(decided *atomic.Int64) rls.Checker {
	return script(func(_ context.Context, _ *headgate.Request, resp *headgate.Response) error {
		decided.Add(1)
		resp.Allowed = true
		return nil
	})
}

// ask checks n times by each of several goroutines, and returns how many had an answer and the
// first error.
func ask(t *testing.T, c *stream.Client, goroutines, n int) (answered int64, first error) {
	t.Helper()
	var all sync.WaitGroup
	var count atomic.Int64
	var failed atomic.Pointer[error]
	for range goroutines {
		all.Go(func() {
			for range n {
				ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
				answer, err := c.ShouldRateLimit(ctx, asks("ann"))
				cancel()
				if err != nil || answer.GetOverallCode() != rlsv3.RateLimitResponse_OK {
					err = fmt.Errorf("%v, %w", answer, err)
					failed.CompareAndSwap(nil, &err)
					continue
				}
				count.Add(1)
			}
		})
	}
	all.Wait()
	if e := failed.Load(); e != nil {
		first = *e
	}
	return count.Load(), first
}

// TestStreamsThatEnd: calls that the server ends again and again cost a client nothing: each check
// is decided, and once.
func TestStreamsThatEnd(t *testing.T) { overEach(t, testStreamsThatEnd) }

func testStreamsThatEnd(t *testing.T, own bool) {
	var decided atomic.Int64
	service := serve(t, own, counting(&decided), func(o *Options) { o.Longest = time.Nanosecond })
	c := stream.New(dial(t, service.addr), stream.Options{MaxBatch: 3})
	defer c.Close()
	answered, err := ask(t, c, 8, 250)
	if err != nil || answered != 2000 || decided.Load() != 2000 {
		t.Errorf("%d of 2000 checks were answered and %d decided; %v", answered, decided.Load(), err)
	}
}

// TestServerThatEnds: while a server ends its clients go on at another, and each check is decided,
// and once.
func TestServerThatEnds(t *testing.T) { overEach(t, testServerThatEnds) }

func testServerThatEnds(t *testing.T, own bool) {
	var decided atomic.Int64
	begun := make(chan struct{})
	first := serve(t, own, script(func(ctx context.Context, req *headgate.Request, resp *headgate.Response) error {
		if decided.Add(1) == 100 {
			close(begun)
		}
		resp.Allowed = true
		return nil
	}), nil)
	second := serve(t, own, counting(&decided), nil)
	c := stream.New(dial(t, first.addr, second.addr), stream.Options{MaxBatch: 3})
	defer c.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-begun
		first.end()
	}()
	answered, err := ask(t, c, 8, 1000)
	<-ended
	if err != nil || answered != 8000 || decided.Load() != 8000 {
		t.Errorf("%d of 8000 checks were answered and %d decided; %v", answered, decided.Load(), err)
	}
	if second.Stats().Checks == 0 {
		t.Error("nothing was asked of the second server")
	}
}
