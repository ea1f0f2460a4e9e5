package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

const gatewaysDir = "../../examples/gateways"

// Addresses of this machine that stand for clients. The gateways and Headgate are
// 127.0.0.1, which alone is a peer.
const (
	alice = "127.0.0.2"
	bob   = "127.0.0.3"
	carol = "127.0.0.4"
)

// guarded is an application, a Headgate and a gateway in front of both, as
// examples/gateways sets them up.
type guarded struct {
	t        *testing.T
	app      *httptest.Server
	authAddr string
	grpcAddr string
	httpAddr string
	rules    string
	headgate *testserver.Process
	edge     string // HOST:PORT of the gateway
	output   func() string
}

// heard is what the application has heard, which it tells in its answer.
type heard struct {
	Method string
	URI    string
	Header http.Header
}

// startGuarded starts the application and a Headgate with these further arguments.
func startGuarded(t *testing.T, args ...string) *guarded {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(bob, "0"))
	if err != nil {
		t.Skipf("this machine has one loopback address alone, so that there is one client alone: %v", err)
	}
	l.Close()
	g := &guarded{t: t}
	g.app = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/forbidden" {
			http.Error(w, "by the application", http.StatusForbidden)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		json.NewEncoder(w).Encode(heard{r.Method, r.RequestURI, r.Header})
	}))
	t.Cleanup(g.app.Close)
	g.authAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	g.grpcAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	g.httpAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	// By the hour, so that no limit is as if unused before a slow machine is done.
	rules := instead(g, readFile(t, filepath.Join(gatewaysDir, "rules.yaml")), "unit: minute", "unit: hour")
	g.rules = writeRules(t, rules)
	g.startHeadgate(args...)
	return g
}

// startHeadgate runs `headgate serve` on the addresses of g and waits until it is
// ready.
func (g *guarded) startHeadgate(args ...string) {
	g.t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		g.t.Fatal(err)
	}
	g.headgate, err = testserver.StartProcess(exec.Command(path, append([]string{"serve",
		"--rules", g.rules, "--identity", filepath.Join(gatewaysDir, "identity.yaml"),
		"--auth-addr", g.authAddr, "--auth-peers", "127.0.0.1", "--grpc-addr", g.grpcAddr,
		"--http-addr", g.httpAddr, "--ops-addr", "127.0.0.1:0", "--drain-delay", "0s",
	}, args...)...))
	if err != nil {
		g.t.Fatalf("start headgate: %v", err)
	}
	g.t.Cleanup(g.headgate.Terminate)
	if err := g.headgate.Poll(func() error {
		if !strings.Contains(g.headgate.Output(), "headgate ready") {
			return fmt.Errorf("not ready")
		}
		return nil
	}); err != nil {
		g.t.Fatalf("start headgate: %v", err)
	}
}

// example returns a file of examples/gateways, changed so that it names the
// addresses of this test. Pairs of further changes follow: what stands there, and
// what shall; the times that gateways wait, for one, because a test on a busy machine
// is about answers and not about their time.
func (g *guarded) example(name string, changes ...string) string {
	g.t.Helper()
	text := readFile(g.t, filepath.Join(gatewaysDir, name))
	for i := 0; i < len(changes); i += 2 {
		text = instead(g, text, changes[i], changes[i+1])
	}
	for port, addr := range map[string]string{"8000": g.app.Listener.Addr().String(), "9091": g.authAddr, "8081": g.grpcAddr, "8080": g.httpAddr} {
		text = strings.ReplaceAll(text, ":"+port, ":"+portOf(g.t, addr))
		text = strings.ReplaceAll(text, "port_value: "+port, "port_value: "+portOf(g.t, addr))
	}
	return text
}

// request is one request of a client to the gateway.
type request struct {
	from   string // address of the client; "" is alice
	method string // "" is GET
	uri    string // sent as it is
	header http.Header
}

// response is what a client gets.
type response struct {
	*http.Response
	body  string
	heard heard // by the application, if it answered
}

// try sends r by a connection of its own from the address of the client.
func (g *guarded) try(r request) (*response, error) {
	if r.from == "" {
		r.from = alice
	}
	if r.method == "" {
		r.method = http.MethodGet
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(r.from)}}
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		},
	}}
	var body io.Reader
	if r.method == http.MethodPost {
		body = strings.NewReader("name=alice&password=wonderland")
	}
	req, err := http.NewRequest(r.method, "http://"+g.edge, body)
	if err != nil {
		return nil, err
	}
	req.URL.Opaque = r.uri
	for name, values := range r.header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	answer := &response{Response: resp, body: string(got)}
	_ = json.Unmarshal(got, &answer.heard) // of others than the application it is empty
	return answer, err
}

// send is try, and fails the test where the status is not want.
func (g *guarded) send(want int, r request) *response {
	g.t.Helper()
	resp, err := g.try(r)
	if err != nil {
		g.t.Fatalf("%s %s: %v\n%s", r.method, r.uri, err, g.logs())
	}
	if resp.StatusCode != want {
		g.t.Fatalf("%s %s: status %d, want %d\n%v\n%s\n%s", r.method, r.uri, resp.StatusCode, want, resp.Header, resp.body, g.logs())
	}
	return resp
}

func (g *guarded) logs() string {
	return "gateway: " + g.output() + "\nheadgate: " + g.headgate.Output()
}

// eventually waits until condition holds.
func (g *guarded) eventually(what string, condition func() bool) {
	g.t.Helper()
	if !eventually.Holds(condition) {
		g.t.Fatalf("not in %v: %s\n%s", eventually.Patience, what, g.logs())
	}
}
