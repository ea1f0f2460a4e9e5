package xdsrules

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/rules/rulefile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plane is a control plane that answers as it is told, and keeps what it was asked.
type plane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	addr   string
	server *grpc.Server

	mu      sync.Mutex
	headers metadata.MD // of the last stream
	asked   []*discovery.DiscoveryRequest
	streams int
	send    chan *discovery.DiscoveryResponse // to whichever stream there is
}

// startPlane serves at addr, by TLS if config is not nil.
func startPlane(t *testing.T, addr string, config *tls.Config) *plane {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var options []grpc.ServerOption
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	p := &plane{addr: l.Addr().String(), server: grpc.NewServer(options...), send: make(chan *discovery.DiscoveryResponse)}
	discovery.RegisterAggregatedDiscoveryServiceServer(p.server, p)
	go func() { _ = p.server.Serve(l) }() // until stop
	t.Cleanup(p.server.Stop)
	return p
}

func (p *plane) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	headers, _ := metadata.FromIncomingContext(stream.Context())
	p.mu.Lock()
	p.streams++
	p.headers = headers
	p.mu.Unlock()
	go func() {
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.asked = append(p.asked, request)
			p.mu.Unlock()
		}
	}()
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case response := <-p.send:
			if response == nil {
				return errors.New("cut")
			}
			if err := stream.Send(response); err != nil {
				return err
			}
		}
	}
}

// requests returns what was asked so far.
func (p *plane) requests() []*discovery.DiscoveryRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*discovery.DiscoveryRequest(nil), p.asked...)
}

// last waits for that many requests and returns the last one.
func (p *plane) last(t *testing.T, n int) *discovery.DiscoveryRequest {
	t.Helper()
	eventually.True(t, "the next request", func() bool { return len(p.requests()) >= n })
	return p.requests()[n-1]
}

// answer sends resources under a version.
func (p *plane) answer(t *testing.T, version, nonce string, resources ...*anypb.Any) {
	t.Helper()
	select {
	case p.send <- &discovery.DiscoveryResponse{VersionInfo: version, Nonce: nonce, TypeUrl: TypeURL, Resources: resources}:
	case <-t.Context().Done():
		t.Fatal("nobody listens")
	}
}

// node is what has the rules.
type node struct {
	mu        sync.Mutex
	files     []rulefile.File
	answered  map[Outcome]int
	connected bool
}

// put parses files as the process does.
func (n *node) put(files []rulefile.File) (bool, error) {
	if _, err := rulefile.Load(files, rulefile.Options{Compat: true}); err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	same := len(files) == len(n.files)
	for i := range files {
		same = same && string(files[i].Data) == string(n.files[i].Data)
	}
	n.files = files
	return !same, nil
}

func (n *node) names() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	for _, f := range n.files {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func (n *node) count(o Outcome) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.answered[o]
}

func (n *node) isConnected() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.connected
}

// startClient runs a client of p until the test ends.
func startClient(t *testing.T, server string, secured func() (*tls.Config, error)) *node {
	t.Helper()
	return startClientWith(t, server, secured, func(*Options) {})
}

// startClientWith is startClient with options that are changed.
func startClientWith(t *testing.T, server string, secured func() (*tls.Config, error), change func(*Options)) *node {
	t.Helper()
	n := &node{answered: map[Outcome]int{}}
	o := Options{
		Server: server, NodeID: "envoy-ratelimit", Metadata: map[string]string{"zone": "a"}, TLS: secured, MaxMessage: 1 << 20, Put: n.put,
		Connected: func(is bool) { n.mu.Lock(); n.connected = is; n.mu.Unlock() },
		Answered:  func(o Outcome) { n.mu.Lock(); n.answered[o]++; n.mu.Unlock() },
		Logger:    slog.New(slog.DiscardHandler),
	}
	change(&o)
	c := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

// TestAnswers: what is accepted is told with its version, what is refused with the one before
// and why; the same rules again are no change, and none are rules too.
func TestAnswers(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0", nil)
	n := startClient(t, p.addr, nil)
	first := p.last(t, 1)
	if first.GetVersionInfo() != "" || first.GetResponseNonce() != "" || first.GetTypeUrl() != TypeURL || first.GetNode().GetId() != "envoy-ratelimit" ||
		first.GetNode().GetMetadata().GetFields()["zone"].GetStringValue() != "a" || len(first.GetResourceNames()) != 0 {
		t.Errorf("asks %v", first)
	}
	a, b := config("a", "a", 3), config("b", "b", 3)
	for i, step := range []struct {
		version   string
		resources []*anypb.Any
		accepted  string // the version that is told
		names     string
	}{
		{"1", []*anypb.Any{a}, "1", "xds:a"},
		{"2", []*anypb.Any{b, a}, "2", "xds:a xds:b"}, // in any order
		{"3", []*anypb.Any{a, b}, "3", "xds:a xds:b"},
		{"4", []*anypb.Any{config("c", "c", 3), {TypeUrl: TypeURL, Value: []byte{0xff}}}, "3", "xds:a xds:b"},
		{"5", []*anypb.Any{config("c", "a", 3), a}, "3", "xds:a xds:b"}, // one domain twice
		{"1", nil, "1", ""},
		{"2", []*anypb.Any{a}, "2", "xds:a"},
	} {
		nonce := string(rune('a' + i))
		p.answer(t, step.version, nonce, step.resources...)
		told := p.last(t, i+2)
		if told.GetVersionInfo() != step.accepted || told.GetResponseNonce() != nonce || (told.GetErrorDetail() != nil) != (step.version != step.accepted) {
			t.Errorf("answer %d: tells %v", i+1, told)
		}
		if n.names() != step.names {
			t.Errorf("answer %d: the documents are %q, want %q", i+1, n.names(), step.names)
		}
	}
	if n.count(Accepted) != 4 || n.count(Unchanged) != 1 || n.count(Refused) != 2 {
		t.Errorf("answers: %v", n.answered)
	}
}

// TestNewStream: when a stream ends, or the control plane is started again, the rules stay,
// and the new stream is asked without a version, because those may begin anew.
func TestNewStream(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0", nil)
	n := startClient(t, p.addr, nil)
	p.last(t, 1)
	p.answer(t, "7", "x", config("a", "a", 3))
	p.last(t, 2)
	p.send <- nil
	if again := p.last(t, 3); again.GetVersionInfo() != "" || again.GetResponseNonce() != "" || n.names() != "xds:a" {
		t.Errorf("the new stream asks %v; documents %q", again, n.names())
	}
	p.server.Stop()
	eventually.True(t, "it is noticed", func() bool { return !n.isConnected() })
	p = startPlane(t, p.addr, nil)
	p.last(t, 1)
	p.answer(t, "7", "y", config("b", "b", 3))
	if told := p.last(t, 2); told.GetVersionInfo() != "7" || n.names() != "xds:b" || !n.isConnected() {
		t.Errorf("tells %v; documents %q", told, n.names())
	}
}

// bad is what no rules can be made of, in several ways.
func bad(way int) *anypb.Any {
	if way == 0 {
		return &anypb.Any{TypeUrl: TypeURL, Value: []byte{0xff}}
	}
	return &anypb.Any{TypeUrl: fmt.Sprint("another", way)}
}

// TestMendedRulesCountAtOnce: while a refusal is held back, newer rules are taken, and what was
// held back is told no more; the newest refusal is told in place of older ones.
func TestMendedRulesCountAtOnce(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0", nil)
	n := startClient(t, p.addr, nil)
	p.last(t, 1)
	p.answer(t, "1", "a", bad(0))
	p.last(t, 2)
	for i := range 7 { // of which the last is held back for half a minute
		p.answer(t, "1", fmt.Sprint("b", i), bad(0))
		eventually.True(t, "it is refused", func() bool { return n.count(Refused) == 2+i })
	}
	asked := len(p.requests())
	p.answer(t, "2", "c", config("a", "a", 3))
	told := p.last(t, asked+1)
	for told.GetErrorDetail() != nil { // of before, on a slow machine
		asked++
		told = p.last(t, asked+1)
	}
	if told.GetVersionInfo() != "2" || told.GetResponseNonce() != "c" || n.names() != "xds:a" {
		t.Errorf("tells %v; documents %q", told, n.names())
	}
	p.answer(t, "3", "d", bad(1))
	if told := p.last(t, asked+2); told.GetResponseNonce() != "d" || told.GetErrorDetail() == nil {
		t.Errorf("tells %v: the first refusal after an acceptance is held back, or an old one is told", told)
	}
}

// TestLastWords: the answer with which a stream ends counts.
func TestLastWords(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0", nil)
	n := startClient(t, p.addr, nil)
	p.last(t, 1)
	p.answer(t, "1", "a", bad(0)) // nothing is looked at for a moment
	p.answer(t, "2", "b", config("a", "a", 3))
	p.send <- nil
	eventually.True(t, "the rules are taken", func() bool { return n.names() == "xds:a" })
}

// TestRefusals: the same again is held back longer each time, another for a second.
func TestRefusals(t *testing.T) {
	var r refusals
	for i, step := range []struct {
		text  string
		held  time.Duration
		fresh bool
	}{
		{"x", 0, true}, {"x", time.Second, false}, {"x", 2 * time.Second, false}, {"x", 4 * time.Second, false},
		{"y", time.Second, true}, {"x", time.Second, true}, {"x", 2 * time.Second, false}, {"x", 4 * time.Second, false},
		{"x", 8 * time.Second, false}, {"x", 16 * time.Second, false}, {"x", 30 * time.Second, false}, {"x", 30 * time.Second, false},
	} {
		if held, fresh := r.next(errors.New(step.text)); held != step.held || fresh != step.fresh {
			t.Errorf("refusal %d: held back for %v, fresh: %v", i+1, held, fresh)
		}
	}
}

// TestMutualTLS: the control plane is asked by certificates, which may be exchanged while
// nobody is connected.
func TestMutualTLS(t *testing.T) {
	certificates := testserver.NewCertificates(t)
	server := &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: certificates.Client().RootCAs}
	pair, err := tls.LoadX509KeyPair(certificates.CertFile, certificates.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server.Certificates = []tls.Certificate{pair}
	p := startPlane(t, "127.0.0.1:0", server)
	shown, key := testserver.NewCertificates(t).Issue(t, testserver.Leaf{CommonName: "*"}) // a stranger
	right, rightKey := certificates.Issue(t, testserver.Leaf{CommonName: "*"})
	var mu sync.Mutex
	dials := 0
	n := startClient(t, p.addr, func() (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		dials++
		return certificates.ClientWith(t, shown, key), nil
	})
	eventually.True(t, "a second attempt", func() bool { mu.Lock(); defer mu.Unlock(); return dials > 1 })
	if len(p.requests()) != 0 {
		t.Fatal("a stranger was heard")
	}
	mu.Lock()
	shown, key = right, rightKey
	mu.Unlock()
	p.last(t, 1)
	p.answer(t, "1", "a", config("a", "a", 3))
	p.last(t, 2)
	if n.names() != "xds:a" {
		t.Errorf("documents %q", n.names())
	}
	if _, err := os.Stat(right); err != nil {
		t.Error(err)
	}
}

// TestTooLong: an answer beyond the bound ends the stream, and changes nothing.
func TestTooLong(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0", nil)
	n := startClient(t, p.addr, nil)
	p.last(t, 1)
	p.answer(t, "1", "a", config("a", "a", 3))
	p.last(t, 2)
	p.answer(t, "2", "b", config("b", strings.Repeat("x", 2<<20), 3))
	if again := p.last(t, 3); again.GetVersionInfo() != "" || n.names() != "xds:a" {
		t.Errorf("asks %v; documents %q", again, n.names())
	}
}

// TestHalfOpen: a control plane whose machine has gone without a word, so that nothing arrives and
// nothing is refused, is found by a ping that has no answer; the rules stay, and another stream is
// opened when there is somebody again. It takes 10 seconds, less than which the library does not
// wait for a ping.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "127.0.0.1:0", nil)
	between := testserver.NewProxy(t, p.addr)
	n := startClientWith(t, between.Addr, nil, func(o *Options) { o.PingTime, o.PingTimeout = time.Second, time.Second })
	p.last(t, 1)
	p.answer(t, "1", "a", config("a", "a", 3))
	p.last(t, 2)
	if !n.isConnected() {
		t.Fatal("not connected")
	}
	between.Set(testserver.Toxics{HalfOpen: true})
	eventually.True(t, "it is noticed", func() bool { return !n.isConnected() })
	if n.names() != "xds:a" {
		t.Errorf("documents %q", n.names())
	}
	between.Set(testserver.Toxics{})
	p.last(t, 3)
	p.answer(t, "1", "b", config("b", "b", 3))
	eventually.True(t, "the rules of the next stream", func() bool { return n.names() == "xds:b" && n.isConnected() })
}

// TestPingsThatAreTooMany: who is told so pings half as often from then on, and no rarer than once
// in ten minutes. The words are those of gRPC-Go when a server has ended a connection for that.
func TestPingsThatAreTooMany(t *testing.T) {
	refused := errors.New(`rpc error: code = Unavailable desc = closing transport due to: connection error: desc = "error reading from server: EOF", received prior goaway: code: ENHANCE_YOUR_CALM, debug data: "too_many_pings"`)
	for _, test := range []struct {
		ping time.Duration
		err  error
		want time.Duration
	}{
		{30 * time.Second, nil, 30 * time.Second}, {30 * time.Second, errors.New("EOF"), 30 * time.Second},
		{30 * time.Second, refused, time.Minute}, {8 * time.Minute, refused, 10 * time.Minute}, {10 * time.Minute, refused, 10 * time.Minute},
	} {
		if got := calmer(test.ping, test.err); got != test.want {
			t.Errorf("%v after %v: %v, want %v", test.ping, test.err, got, test.want)
		}
	}
}

// TestHeaders: headers are sent with every stream as they are then; while they cannot be had no
// stream is opened, and the rules stay.
func TestHeaders(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0", nil)
	var mu sync.Mutex
	token, tries := "hush", 0
	n := startClientWith(t, p.addr, nil, func(o *Options) {
		o.Headers = func() (map[string]string, error) {
			mu.Lock()
			defer mu.Unlock()
			if tries++; token == "" {
				return nil, errors.New("no file")
			}
			return map[string]string{"authorization": "Bearer " + token}, nil
		}
	})
	sent := func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return strings.Join(p.headers.Get("authorization"), " ")
	}
	p.last(t, 1)
	p.answer(t, "1", "a", config("a", "a", 3))
	p.last(t, 2)
	if got := sent(); got != "Bearer hush" {
		t.Errorf("sent %q", got)
	}
	mu.Lock()
	token, tries = "", 0
	mu.Unlock()
	p.send <- nil
	eventually.True(t, "a try without headers", func() bool { mu.Lock(); defer mu.Unlock(); return tries > 0 })
	if len(p.requests()) != 2 || n.names() != "xds:a" {
		t.Errorf("%d requests, documents %q", len(p.requests()), n.names())
	}
	mu.Lock()
	token = "hush2"
	mu.Unlock()
	p.last(t, 3)
	if got := sent(); got != "Bearer hush2" {
		t.Errorf("sent %q", got)
	}
}
