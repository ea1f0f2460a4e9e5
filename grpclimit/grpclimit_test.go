package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// An echo service, written by hand: Say is unary, Chat a stream both ways. The
// word "fail" fails, "panic" panics.
var echoService = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		word := new(wrapperspb.StringValue)
		if err := decode(word); err != nil {
			return nil, err
		}
		say := func(_ context.Context, req any) (any, error) {
			if req.(*wrapperspb.StringValue).Value == "fail" {
				return nil, status.Error(codes.Internal, "told to")
			}
			return req, nil
		}
		return intercept(ctx, word, &grpc.UnaryServerInfo{FullMethod: "/test.Echo/Say"}, say)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Chat", ServerStreams: true, ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		for {
			word := new(wrapperspb.StringValue)
			if err := stream.RecvMsg(word); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.SendMsg(word); err != nil {
				return err
			}
		}
	}}},
}

var chatDesc = &grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true}

func newLimiter(t *testing.T) *headgate.Limiter {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func perHour(quota int64) []rules.NamedLimit {
	return []rules.NamedLimit{{Limit: limit.Must(limit.PerHour(quota)), Name: "calls"}}
}

// serve starts a server with limits on a free port and returns a connection.
func serve(t *testing.T, limits *grpclimit.Server, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, listener, limits, append(dial, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	})))
}

func serveOn(t *testing.T, listener net.Listener, limits *grpclimit.Server, dial []grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary), grpc.StreamInterceptor(limits.Stream))
	server.RegisterService(&echoService, nil)
	healthgrpc.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	cc, err := grpc.NewClient("passthrough:///echo", append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

func newServer(t *testing.T, c grpclimit.Checker, o grpclimit.Options) *grpclimit.Server {
	t.Helper()
	s, err := grpclimit.NewServer(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func say(t *testing.T, cc *grpc.ClientConn, word string, o ...grpc.CallOption) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return cc.Invoke(ctx, "/test.Echo/Say", wrapperspb.String(word), new(wrapperspb.StringValue), o...)
}

// detail returns the detail of type T of a status.
func detail[T any](t *testing.T, err error) T {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if d, ok := d.(T); ok {
			return d
		}
	}
	var none T
	t.Errorf("%v has no %T; details %v", err, none, status.Convert(err).Details())
	return none
}

func TestUnaryDenial(t *testing.T) {
	limits := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(2)})
	cc := serve(t, limits)
	var header, trailer metadata.MD
	if err := say(t, cc, "one", grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if got := header["x-ratelimit-remaining"]; len(got) != 1 || got[0] != "1" {
		t.Errorf("headers %v, want one call to remain", header)
	}
	for _, name := range []string{"ratelimit", "ratelimit-policy"} {
		if _, err := httpsfv.UnmarshalList(header[name]); err != nil || len(header[name]) != 1 {
			t.Errorf("%s: %q: %v", name, header[name], err)
		}
	}
	if err := say(t, cc, "two"); err != nil {
		t.Fatal(err)
	}
	err := say(t, cc, "three", grpc.Header(&header), grpc.Trailer(&trailer))
	if status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("the third: %v, want RESOURCE_EXHAUSTED", err)
	}
	retry := detail[*errdetails.RetryInfo](t, err).GetRetryDelay().AsDuration()
	if retry <= 0 || retry > 2*time.Hour { // a sliding window of an hour forgets within two
		t.Errorf("retry delay %v", retry)
	}
	violations := detail[*errdetails.QuotaFailure](t, err).GetViolations()
	if len(violations) != 1 || violations[0].Subject != "calls" || violations[0].QuotaValue != 2 {
		t.Errorf("violations %v", violations)
	}
	if strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(violations[0].String(), "127.0.0.1") {
		t.Errorf("the key is told: %v", err)
	}
	for _, name := range []string{"retry-after", "ratelimit", "ratelimit-policy", "grpc-retry-pushback-ms"} {
		if len(trailer[name]) != 1 {
			t.Errorf("trailers %v have no %s", trailer, name)
		}
	}
	if whole := (retry + time.Millisecond - 1).Milliseconds(); trailer["grpc-retry-pushback-ms"][0] != strconv.FormatInt(whole, 10) {
		t.Errorf("pushback %s; want the %v of the retry delay, rounded up", trailer["grpc-retry-pushback-ms"], retry)
	}
	if s := limits.Stats(); s.Allowed != 2 || s.Denied != 1 {
		t.Errorf("stats %+v", s)
	}
}

// TestViolationsAreBounded: of many limits that deny, the status names the first.
func TestViolationsAreBounded(t *testing.T) {
	many := func(context.Context, grpclimit.Call) (list [][]descriptor.Entry, _ error) {
		for i := range 40 {
			list = append(list, []descriptor.Entry{{Key: "key", Value: strconv.Itoa(i)}})
		}
		return list, nil
	}
	cc := serve(t, newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(1), Identify: many}))
	if err := say(t, cc, "one"); err != nil {
		t.Fatal(err)
	}
	if violations := detail[*errdetails.QuotaFailure](t, say(t, cc, "two")).GetViolations(); len(violations) != 16 {
		t.Errorf("%d violations, want 16", len(violations))
	}
}

// TestBansAreNotExplained: that somebody is banned is told, and not what leads to it.
func TestBansAreNotExplained(t *testing.T) {
	cc := serve(t, newServer(t, ruled(t, "rate_limit: {unit: hour, requests_per_unit: 1}, ban: {after: 1, within: 1m, for: 1h}"), grpclimit.Options{Domain: "api", Identify: all}))
	for range 2 {
		_ = say(t, cc, "x") // the second one is denied, and bans
	}
	violations := detail[*errdetails.QuotaFailure](t, say(t, cc, "banned")).GetViolations()
	banned := slices.IndexFunc(violations, func(v *errdetails.QuotaFailure_Violation) bool { return v.Description == rules.Banning.String() })
	if banned < 0 || violations[banned].QuotaValue != 0 {
		t.Errorf("violations %v; want one that is called %s, without a number", violations, rules.Banning)
	}
}

// TestCostBelowNothing is a peek.
func TestCostBelowNothing(t *testing.T) {
	limits := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(1), Hits: func(context.Context, grpclimit.Call) int64 { return -1 }})
	cc := serve(t, limits)
	for range 2 {
		if err := say(t, cc, "x"); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestClientRetriesByPushback: the retry policy of a client goes by what a
// denial says, which it does for answers in trailers-only form alone.
func TestClientRetriesByPushback(t *testing.T) {
	spaced := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 20, Period: time.Second, Burst: 1})
	limits := newServer(t, newLimiter(t), grpclimit.Options{Limits: []rules.NamedLimit{{Limit: spaced}}})
	cc := serve(t, limits, grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"retryPolicy":{
		"maxAttempts":5,"initialBackoff":"3600s","maxBackoff":"3600s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`))
	for range 3 {
		if err := say(t, cc, "again"); err != nil {
			t.Errorf("%v; stats %+v", err, limits.Stats())
		}
	}
	if s := limits.Stats(); s.Allowed != 3 || s.Denied == 0 {
		t.Errorf("stats %+v, want denials on the way", s)
	}
}

func TestNeverIsNotRetried(t *testing.T) {
	limits := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(2), Hits: func(context.Context, grpclimit.Call) int64 { return 3 }})
	var trailer metadata.MD
	err := say(t, serve(t, limits), "big", grpc.Trailer(&trailer))
	if got := trailer["grpc-retry-pushback-ms"]; status.Code(err) != codes.ResourceExhausted || len(got) != 1 || got[0] != "-1" || trailer["retry-after"] != nil {
		t.Errorf("%v, trailers %v; want no retry", err, trailer)
	}
}

// failing is a remote checker that cannot be reached.
type failing struct{}

func (failing) Check(context.Context, []headgate.Request, []headgate.Response) error {
	return &store.Error{Op: "check", Store: "remote", Reason: store.Unavailable}
}

func TestCheckerFailure(t *testing.T) {
	var told []store.Reason
	hears := func(_ context.Context, c grpclimit.Call, err error) {
		if c.FullMethod != "/test.Echo/Say" {
			t.Errorf("told of an error of %s", c.FullMethod)
		}
		told = append(told, store.ReasonOf(err))
	}
	closed := newServer(t, failing{}, grpclimit.Options{Domain: "api", FailClosed: true, Jitter: grpclimit.ExactRetry, OnError: hears})
	err := say(t, serve(t, closed), "x")
	if status.Code(err) != codes.Unavailable {
		t.Errorf("closed: %v, want UNAVAILABLE", err)
	}
	if got := detail[*errdetails.RetryInfo](t, err).GetRetryDelay().AsDuration(); got != time.Second {
		t.Errorf("closed: retry delay %v, want 1 s", got)
	}
	open := newServer(t, failing{}, grpclimit.Options{Domain: "api", OnError: hears})
	if err := say(t, serve(t, open), "x"); err != nil || open.Stats().Failed != 1 {
		t.Errorf("open: %v, stats %+v", err, open.Stats())
	}
	if !slices.Equal(told, []store.Reason{store.Unavailable, store.Unavailable}) {
		t.Errorf("OnError was told %v", told)
	}
}

func TestHealthIsNotLimited(t *testing.T) {
	limits := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(0)})
	cc := serve(t, limits)
	if _, err := healthgrpc.NewHealthClient(cc).Check(t.Context(), &healthgrpc.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	if err := say(t, cc, "x"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("another call: %v", err)
	}
	all := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(0), Skip: []string{}})
	if _, err := healthgrpc.NewHealthClient(serve(t, all)).Check(t.Context(), &healthgrpc.HealthCheckRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("health with nothing skipped: %v", err)
	}
}

func TestIdentify(t *testing.T) {
	byKey := func(ctx context.Context, _ grpclimit.Call) ([][]descriptor.Entry, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		switch keys := md.Get("x-user"); {
		case len(keys) == 0:
			return nil, grpclimit.ErrUnidentified
		case len(keys) > 1:
			return nil, errors.New("two users, s3cret")
		case keys[0] == "root":
			return nil, nil
		case keys[0] == "long":
			return [][]descriptor.Entry{{{Key: "user", Value: strings.Repeat("x", 70_000)}}}, nil
		default:
			return [][]descriptor.Entry{{{Key: "user", Value: keys[0]}}}, nil
		}
	}
	told := 0
	limits := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(1), Identify: byKey, OnError: func(context.Context, grpclimit.Call, error) { told++ }})
	cc := serve(t, limits)
	cases := []struct {
		users []string
		want  codes.Code
	}{
		{[]string{"a"}, codes.OK}, {[]string{"a"}, codes.ResourceExhausted}, {[]string{"b"}, codes.OK},
		{nil, codes.Unauthenticated}, {[]string{"a", "b"}, codes.InvalidArgument}, {[]string{"long"}, codes.InvalidArgument},
		{[]string{"root"}, codes.OK}, {[]string{"root"}, codes.OK},
	}
	for _, c := range cases {
		ctx := t.Context()
		for _, u := range c.users {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-user", u)
		}
		err := cc.Invoke(ctx, "/test.Echo/Say", wrapperspb.String("x"), new(wrapperspb.StringValue))
		if status.Code(err) != c.want || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %v", c.users, err, c.want)
		}
	}
	if s := limits.Stats(); s.Skipped != 2 || s.Refused != 3 || told != 3 {
		t.Errorf("stats %+v, told of %d errors", s, told)
	}
	// A listener that has no addresses cannot be limited by them.
	listener := bufconn.Listen(1 << 16)
	byPeer := newServer(t, newLimiter(t), grpclimit.Options{Limits: perHour(1)})
	cc = serveOn(t, listener, byPeer, []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	})})
	if err := say(t, cc, "x"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a peer without an address: %v", err)
	}
}

func TestRefund(t *testing.T) {
	limits := newServer(t, newLimiter(t), grpclimit.Options{
		Limits: perHour(1), Refund: func(c codes.Code) bool { return c == codes.Internal },
	})
	cc := serve(t, limits)
	for range 3 {
		if err := say(t, cc, "fail"); status.Code(err) != codes.Internal {
			t.Errorf("%v, want the handler's", err)
		}
	}
	if err := say(t, cc, "x"); err != nil {
		t.Errorf("after refunds: %v", err)
	}
	if err := say(t, cc, "x"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("after one that counted: %v", err)
	}
	if s := limits.Stats(); s.Refunded != 3 {
		t.Errorf("stats %+v", s)
	}
}

// TestPanickingHandler: a panic is not held up, and counts as INTERNAL.
func TestPanickingHandler(t *testing.T) {
	limits := newServer(t, newLimiter(t), grpclimit.Options{
		Limits: perHour(1), Refund: func(c codes.Code) bool { return c == codes.Internal },
		Identify: func(context.Context, grpclimit.Call) ([][]descriptor.Entry, error) {
			return [][]descriptor.Entry{{{Key: "all", Value: "1"}}}, nil
		},
	})
	call := func() (cause any) {
		defer func() { cause = recover() }()
		_, err := limits.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { panic("mine") })
		return err
	}
	for range 2 {
		if got := call(); got != "mine" {
			t.Errorf("recovered %v", got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]grpclimit.Options{
		"no domain": {}, "both": {Domain: "a", Limits: perHour(1)}, "jitter": {Domain: "a", Jitter: 2}, "patience": {Domain: "a", Patience: -1},
		"a name without a slash": {Domain: "a", Skip: []string{"Foo/Bar"}}, "a service without methods": {Domain: "a", Skip: []string{"/foo.Bar"}},
		"a path": {Domain: "a", Skip: []string{"/foo.Bar/A/B"}}, "no service": {Domain: "a", Skip: []string{"//A"}},
	} {
		if _, err := grpclimit.NewClient(failing{}, o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := grpclimit.NewClient(failing{}, grpclimit.Options{Domain: "a", Skip: []string{"/foo.Bar/", "/foo.Bar/A"}}); err != nil {
		t.Errorf("a service and a method: %v", err)
	}
	if _, err := grpclimit.NewServer(nil, grpclimit.Options{Domain: "a"}); err == nil {
		t.Error("no checker is taken")
	}
}

// The zero value lengthens retry times by up to a tenth, ExactRetry does not: of a hundred
// that are drawn, one is not on the second, which fails for no other reason than that all
// of them are 0 (less than once in 10^1500).
func TestJitterIsOnByDefault(t *testing.T) {
	for name, test := range map[string]struct {
		jitter float64
		exact  bool
	}{"by default": {0, false}, "exact": {grpclimit.ExactRetry, true}} {
		cc := serve(t, newServer(t, failing{}, grpclimit.Options{Domain: "api", FailClosed: true, Jitter: test.jitter}))
		exact := true
		for range 100 {
			wait := detail[*errdetails.RetryInfo](t, say(t, cc, "x")).GetRetryDelay().AsDuration()
			exact = exact && wait == time.Second
			if wait < time.Second || wait > 1100*time.Millisecond {
				t.Errorf("%s: retry delay %v", name, wait)
			}
		}
		if exact != test.exact {
			t.Errorf("%s: all on the second is %t, want %t", name, exact, test.exact)
		}
	}
}
