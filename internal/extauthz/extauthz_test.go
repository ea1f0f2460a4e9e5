package extauthz_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/extauthz"
	"github.com/headgate/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/refusals"
)

// authorizer notes what it is asked and answers as it is told.
type authorizer struct {
	reply    forwardauth.Reply
	stranger bool

	original *http.Request
	domain   string
	refused  error
	addr     string
}

func (a *authorizer) Admit(addr string, _ func() error) error {
	a.addr = addr
	if a.stranger {
		return errors.New("no peer; hint: --auth-peers")
	}
	return nil
}

func (a *authorizer) Decide(original *http.Request, domain string) forwardauth.Reply {
	a.original, a.domain = original, domain
	return a.reply
}

func (a *authorizer) Refuse(err error) forwardauth.Reply {
	a.refused = err
	return forwardauth.Reply{Status: http.StatusBadRequest, Media: "text/plain", Body: []byte("malformed")}
}

// service fails by the panic that it is told of.
func service(a extauthz.Authorizer) *extauthz.Service {
	return extauthz.New(a, extauthz.Options{OnPanic: func(cause any, _ []byte) { panic(cause) }})
}

func allowed() forwardauth.Reply {
	return forwardauth.Reply{
		Status:   http.StatusOK,
		Fields:   []httpanswer.Field{{Name: "RateLimit", Value: `"login";r=1;t=60`}},
		Upstream: []httpanswer.Field{{Name: "X-Degraded", Value: "1"}},
		Removed:  []string{"X-RateLimit-Challenge"},
	}
}

func denied(code int) forwardauth.Reply {
	return forwardauth.Reply{
		Status: code, Media: "application/json", Body: []byte("{}\n"),
		Fields: []httpanswer.Field{{Name: "Retry-After", Value: "60"}},
	}
}

// question is what Envoy asks about POST /login?next=%2Fhome.
func question() *authpb.CheckRequest {
	return &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
			Address: "203.0.113.9", PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 4711},
		}}}},
		Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
			Method: "POST", Path: "/login?next=%2Fhome", Host: "shop.example", Scheme: "http", Protocol: "HTTP/1.1",
			Headers: map[string]string{":method": "POST", ":path": "/login", "x-api-key": "k1", "te": "trailers"},
		}},
		ContextExtensions: map[string]string{"domain": "edge"},
	}}
}

func check(t *testing.T, a *authorizer, r *authpb.CheckRequest) *authpb.CheckResponse {
	t.Helper()
	resp, err := service(a).Check(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// list writes headers to add with what becomes of those that are there.
func list(options []*corepb.HeaderValueOption) string {
	var all []string
	for _, o := range options {
		all = append(all, fmt.Sprintf("%s: %s (%s)", o.Header.Key, o.Header.Value, o.AppendAction))
	}
	return strings.Join(all, ", ")
}

func TestAttributesBecomeTheRequest(t *testing.T) {
	a := &authorizer{reply: allowed()}
	check(t, a, question())
	r := a.original
	got := fmt.Sprint(r.Method, " ", r.URL, " ", r.Host, " ", r.RemoteAddr, " ", r.Header, " ", a.domain)
	if want := "POST /login?next=%2Fhome shop.example 203.0.113.9:4711 map[X-Api-Key:[k1]] edge"; got != want {
		t.Errorf("request %s\n   want %s", got, want)
	}
}

// CONNECT has no path, and is a request without a route.
func TestConnect(t *testing.T) {
	a, q := &authorizer{reply: allowed()}, question()
	q.Attributes.Request.Http.Method, q.Attributes.Request.Http.Path = "CONNECT", ""
	q.Attributes.Request.Http.Host = "shop.example:443"
	resp := check(t, a, q)
	if r := a.original; resp.GetOkResponse() == nil || r == nil || r.Method != "CONNECT" || r.URL.Path != "*" || r.Host != "shop.example:443" {
		t.Errorf("%v, decided %+v", resp, r)
	}
}

// With encode_raw_headers a field that was sent twice arrives twice, so that it can
// be told from one that holds a comma.
func TestRawHeaders(t *testing.T) {
	a, q := &authorizer{reply: allowed()}, question()
	q.Attributes.Request.Http.Headers = nil
	q.Attributes.Request.Http.HeaderMap = &corepb.HeaderMap{Headers: []*corepb.HeaderValue{
		{Key: ":path", RawValue: []byte("/login")}, {Key: "x-api-key", RawValue: []byte("k1")}, {Key: "x-api-key", Value: "k2"},
	}}
	check(t, a, q)
	if got := fmt.Sprint(a.original.Header); got != "map[X-Api-Key:[k1 k2]]" {
		t.Errorf("header %s", got)
	}
}

func TestAddressOfASocketIsNone(t *testing.T) {
	a, q := &authorizer{reply: allowed()}, question()
	q.Attributes.Source.Address = &corepb.Address{Address: &corepb.Address_Pipe{Pipe: &corepb.Pipe{Path: "/run/x"}}}
	check(t, a, q)
	if a.original.RemoteAddr != "" {
		t.Errorf("peer %q", a.original.RemoteAddr)
	}
}

func TestAllowed(t *testing.T) {
	resp := check(t, &authorizer{reply: allowed()}, question())
	ok := resp.GetOkResponse()
	if resp.Status.Code != 0 || ok == nil {
		t.Fatalf("%v", resp)
	}
	if got := list(ok.ResponseHeadersToAdd); got != `RateLimit: "login";r=1;t=60 (OVERWRITE_IF_EXISTS_OR_ADD)` {
		t.Errorf("to the client: %s", got)
	}
	if got := list(ok.Headers); got != "X-Degraded: 1 (OVERWRITE_IF_EXISTS_OR_ADD)" {
		t.Errorf("to the service: %s", got)
	}
	if !slices.Equal(ok.HeadersToRemove, []string{"X-RateLimit-Challenge"}) {
		t.Errorf("removed: %v", ok.HeadersToRemove)
	}
}

func TestDenied(t *testing.T) {
	for code, want := range map[int]codes.Code{
		429: codes.ResourceExhausted, 503: codes.Unavailable, 401: codes.Unauthenticated, 403: codes.PermissionDenied, 400: codes.InvalidArgument,
	} {
		resp := check(t, &authorizer{reply: denied(code)}, question())
		d := resp.GetDeniedResponse()
		if d == nil || codes.Code(resp.Status.Code) != want || int(d.Status.Code) != code || d.Body != "{}\n" {
			t.Errorf("%d: %v", code, resp)
			continue
		}
		if got := list(d.Headers); got != "Retry-After: 60 (OVERWRITE_IF_EXISTS_OR_ADD), Content-Type: application/json (OVERWRITE_IF_EXISTS_OR_ADD)" {
			t.Errorf("%d: headers %s", code, got)
		}
	}
}

// What a client can cause is a denial: an error Envoy may be told to let pass.
func TestMalformedIsDenied(t *testing.T) {
	for name, change := range map[string]func(*authpb.AttributeContext_HttpRequest){
		"path":      func(r *authpb.AttributeContext_HttpRequest) { r.Path = "login" },
		"no path":   func(r *authpb.AttributeContext_HttpRequest) { r.Path = "" },
		"fragment":  func(r *authpb.AttributeContext_HttpRequest) { r.Path = "/login#x" },
		"escape":    func(r *authpb.AttributeContext_HttpRequest) { r.Path = "/%zz" },
		"method":    func(r *authpb.AttributeContext_HttpRequest) { r.Method = "" },
		"host":      func(r *authpb.AttributeContext_HttpRequest) { r.Host = "a b" },
		"long path": func(r *authpb.AttributeContext_HttpRequest) { r.Path = "/" + strings.Repeat("a", forwardauth.MaxURI) },
	} {
		a, q := &authorizer{reply: allowed()}, question()
		change(q.Attributes.Request.Http)
		resp := check(t, a, q)
		if resp.GetDeniedResponse() == nil || !errors.Is(a.refused, forwardauth.ErrMalformed) || a.original != nil {
			t.Errorf("%s: %v, %v", name, resp, a.refused)
		}
	}
}

// contextKey is the key of a value that only the context of one call has.
type contextKey struct{}

// TestContextOfTheCall: a decision ends with its call, of which Envoy says how long it waits.
func TestContextOfTheCall(t *testing.T) {
	a := &authorizer{reply: allowed()}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "this call"))
	if _, err := service(a).Check(ctx, question()); err != nil {
		t.Fatal(err)
	}
	if got := a.original.Context(); got.Value(contextKey{}) != "this call" || got.Err() != nil {
		t.Errorf("%v, %v", got.Value(contextKey{}), got.Err())
	}
	if cancel(); a.original.Context().Err() == nil {
		t.Error("the decision goes on after the end of its call")
	}
}

// entered lets in whom only Options.Enter knows.
type entered struct{ authorizer }

func (*entered) Admit(_ string, enter func() error) error {
	if enter == nil {
		return errors.New("no peer")
	}
	return enter()
}

// TestWhoEnters: who is no peer is asked who he is by the context of his call, and hears whether a
// credential would help.
func TestWhoEnters(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want codes.Code
	}{
		"known": {nil, codes.OK}, "unknown": {&callers.Refused{Reason: refusals.UnknownToken}, codes.Unauthenticated},
		"wrong scope": {&callers.Refused{Reason: refusals.WrongScope}, codes.PermissionDenied},
	} {
		ctx, by := context.WithValue(t.Context(), contextKey{}, name), any(nil)
		s := extauthz.New(&entered{authorizer{reply: allowed()}}, extauthz.Options{
			Enter: func(ctx context.Context) error {
				by = ctx.Value(contextKey{})
				return c.err
			},
			OnPanic: func(cause any, _ []byte) { panic(cause) },
		})
		if _, err := s.Check(ctx, question()); status.Code(err) != c.want || by != name {
			t.Errorf("%s: %v, asked about the call of %v", name, err, by)
		}
	}
	if _, err := service(&entered{}).Check(t.Context(), question()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("nobody else is let in: %v", err)
	}
}

func TestErrors(t *testing.T) {
	_, err := service(&authorizer{stranger: true}).Check(t.Context(), question())
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "--auth-peers") {
		t.Errorf("stranger: %v", err)
	}
	for name, q := range map[string]*authpb.CheckRequest{"nothing": nil, "no attributes": {}, "not HTTP": {Attributes: &authpb.AttributeContext{}}} {
		if _, err := service(&authorizer{}).Check(t.Context(), q); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// buggy panics.
type buggy struct{ authorizer }

func (*buggy) Decide(*http.Request, string) forwardauth.Reply { panic("a bug") }

func TestPanicEndsOneCall(t *testing.T) {
	var told any
	s := extauthz.New(&buggy{}, extauthz.Options{OnPanic: func(cause any, stack []byte) { told = cause }})
	if _, err := s.Check(t.Context(), question()); status.Code(err) != codes.Internal || told != "a bug" {
		t.Errorf("%v, told %v", err, told)
	}
}

func TestCallerByNetwork(t *testing.T) {
	for want, addr := range map[string]net.Addr{
		"10.0.0.7:1": &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 1},
		"":           &net.UnixAddr{Net: "unix", Name: "/run/x"},
	} {
		a := &authorizer{reply: allowed()}
		ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: addr})
		if _, err := service(a).Check(ctx, question()); err != nil || a.addr != want {
			t.Errorf("%v: asked from %q, %v", addr, a.addr, err)
		}
	}
	a := &authorizer{reply: allowed()}
	check(t, a, question())
	if forwardauth.NewPeers(nil).Allow(a.addr) {
		t.Errorf("a caller without an address (%q) is taken for a socket", a.addr)
	}
}

func TestOverTheWire(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	a := &authorizer{reply: denied(429)}
	service(a).Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp, err := authpb.NewAuthorizationClient(conn).Check(t.Context(), question())
	if err != nil || resp.GetDeniedResponse().GetStatus().GetCode() != 429 {
		t.Errorf("%v, %v", resp, err)
	}
	if !strings.HasPrefix(a.addr, "127.0.0.1:") {
		t.Errorf("asked from %q", a.addr)
	}
}
