package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate/internal/testserver"
)

// gateway is one of examples/gateways.
type gateway struct {
	name string
	// start starts it in front of g; closed as the comments of the example say that
	// it fails closed, instead of open.
	start func(g *guarded, closed bool)
	// tellsBody says that clients get the body of a denial that Headgate wrote.
	tellsBody bool
	// down is the status of requests without Headgate where it fails closed.
	down int
	// silent says that clients hear nothing of Headgate with requests that pass.
	silent bool
	// closedOnly says that it has no way to fail open.
	closedOnly bool
	// opensClosedRules says that a rule that fails closed lets pass where the gateway
	// fails open.
	opensClosedRules bool
}

var gateways = []gateway{
	{name: "nginx", start: startNginx, down: 500},
	{name: "haproxy", start: startHAProxy, tellsBody: true, down: 503},
	{name: "caddy", start: startCaddy, tellsBody: true, down: 502},
	{name: "traefik", start: startTraefik, tellsBody: true, down: 500, silent: true, closedOnly: true},
	{name: "envoy-http", start: startEnvoy("http.yaml"), tellsBody: true, down: 503, opensClosedRules: true},
	{name: "envoy-grpc", start: startEnvoy("grpc.yaml"), tellsBody: true, down: 503},
}

// without cuts text from one mark up to another, which stays.
func without(g *guarded, text, from, to string) string {
	g.t.Helper()
	i := strings.Index(text, from)
	if i < 0 {
		g.t.Fatalf("the example does not hold %q", from)
	}
	j := strings.Index(text[i:], to)
	if j < 0 {
		g.t.Fatalf("the example does not hold %q after %q", to, from)
	}
	return text[:i] + text[i+j:]
}

func instead(g *guarded, text, from, to string) string {
	g.t.Helper()
	if !strings.Contains(text, from) {
		g.t.Fatalf("the example does not hold %q", from)
	}
	return strings.ReplaceAll(text, from, to)
}

func startNginx(g *guarded, closed bool) {
	text := g.example("nginx/nginx.conf", " 50ms;", " 10s;", " 100ms;", " 10s;")
	if closed {
		text = without(g, text, "proxy_intercept_errors on;", "    }")
	}
	s := testserver.Nginx(g.t, testserver.GatewayConfig{Text: text, Port: "8088"})
	g.edge, g.output = s.Addr, s.Output
}

func startHAProxy(g *guarded, closed bool) {
	// A check that ends in time on a busy machine, or Headgate is taken for down.
	text := g.example("haproxy/haproxy.cfg", "inter 500ms", "inter 3s", "timeout connect 1s", "timeout connect 30s")
	if closed {
		text = instead(g, text, "  http-request lua.headgate", "  http-request deny deny_status 503 unless { nbsrv(headgate) gt 0 }\n  http-request lua.headgate")
		text = instead(g, text, " open if", " closed if")
	}
	s := testserver.HAProxy(g.t, testserver.GatewayConfig{Text: text, Port: "8088", Files: map[string]string{
		"headgate.lua": g.example("haproxy/headgate.lua", "patience = 100", "patience = 10000"),
	}})
	g.edge, g.output = s.Addr, s.Output
}

func startCaddy(g *guarded, closed bool) {
	text := g.example("caddy/Caddyfile", "timeout 100ms", "timeout 10s", "timeout 200ms", "timeout 10s")
	if closed {
		text = without(g, text, "	handle_errors {", "\n}\n")
	}
	s := testserver.Caddy(g.t, testserver.GatewayConfig{Text: text, Port: "8088"})
	g.edge, g.output = s.Addr, s.Output
}

// startTraefik needs not to be told that it fails closed, which is all that it does.
func startTraefik(g *guarded, _ bool) {
	s := testserver.Traefik(g.t, testserver.GatewayConfig{Text: g.example("traefik/traefik.yaml"), Port: "8088", Files: map[string]string{
		"dynamic.yaml": g.example("traefik/dynamic.yaml"),
	}})
	g.edge, g.output = s.Addr, s.Output
	// It may listen before it has read its routes, and answers 404 until then.
	g.eventually("routes", func() bool {
		resp, err := g.try(request{from: carol, uri: "/"})
		return err == nil && resp.StatusCode != 404
	})
}

func startEnvoy(file string) func(*guarded, bool) {
	return func(g *guarded, closed bool) {
		text := g.example("envoy-ext-authz/"+file, "timeout: 0.1s", "timeout: 10s",
			"0.0.0.0, port_value: 8088", "127.0.0.1, port_value: 0", "port_value: 9901", "port_value: 0")
		if closed {
			text = instead(g, text, "failure_mode_allow: true", "failure_mode_allow: false")
		}
		s := testserver.Envoy(g.t, text)
		g.edge, g.output = s.Listener("edge"), s.Output
	}
}

// eachGateway runs a test for each gateway in front of a fresh Headgate.
func eachGateway(t *testing.T, test func(t *testing.T, k gateway)) {
	for _, k := range gateways {
		t.Run(k.name, func(t *testing.T) { test(t, k) })
	}
}

// limitField parses RateLimit and returns the name of the limit and what remains.
func limitField(t *testing.T, r *response) (string, int64) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(r.Header.Values("RateLimit"))
	if err != nil || len(list) != 1 {
		t.Fatalf("RateLimit %q: %v", r.Header.Values("RateLimit"), err)
	}
	item := list[0].(httpsfv.Item)
	remaining, _ := item.Params.Get("r")
	name, _ := item.Value.(string)
	n, _ := remaining.(int64)
	return name, n
}

//promise:works-with
func TestGatewaysAllowThenDeny(t *testing.T) {
	t.Parallel()
	eachGateway(t, func(t *testing.T, k gateway) {
		g := startGuarded(t)
		k.start(g, false)
		for i := range 3 {
			resp := g.send(200, request{uri: "/login?next=%2Fhome", header: http.Header{"X-Ratelimit-Challenge": {"forged"}}})
			if k.silent {
				if heard := resp.Header.Values("RateLimit"); len(heard) > 0 {
					t.Errorf("request %d: the client hears %q", i+1, heard)
				}
			} else if name, left := limitField(t, resp); name != "login" || left != int64(2-i) {
				t.Errorf("request %d: %s remains %d", i+1, name, left)
			}
			if resp.heard.Method != "GET" || resp.heard.URI != "/login?next=%2Fhome" {
				t.Errorf("request %d: the application heard %+v", i+1, resp.heard)
			}
			challenge := strings.Join(resp.heard.Header.Values("X-Ratelimit-Challenge"), ",")
			if want := []string{"", "captcha", "captcha"}[i]; challenge != want {
				t.Errorf("request %d: the application is told to ask for %q, want %q", i+1, challenge, want)
			}
			for _, name := range []string{"Retry-After", "X-Ratelimit-Status", "X-Envoy-Auth-Headers-To-Remove"} {
				if got := resp.Header.Get(name); got != "" {
					t.Errorf("request %d: the client hears %s: %s", i+1, name, got)
				}
			}
		}
		denied := g.send(429, request{uri: "/login"})
		g.isDenial(denied)
		if !strings.Contains(denied.body, `"code":"RATE_LIMITED"`) || strings.Contains(denied.body, "retry_after") != k.tellsBody {
			t.Errorf("body %s", denied.body)
		}

		// POST counts on the same limit, and its body does not get lost on the way.
		g.send(429, request{method: "POST", uri: "/login"})
		if resp := g.send(200, request{from: bob, method: "POST", uri: "/login"}); resp.heard.Method != "POST" || resp.heard.Header.Get("Content-Length") == "" {
			t.Errorf("the application heard %+v", resp.heard)
		}
		// HEAD is limited as GET is and denied without a body.
		head := g.send(429, request{method: "HEAD", uri: "/login"})
		if g.isDenial(head); head.body != "" {
			t.Errorf("HEAD has the body %q", head.body)
		}
		// What the application forbids is not mistaken for a denial of Headgate.
		if resp := g.send(403, request{uri: "/forbidden"}); resp.body != "by the application\n" {
			t.Errorf("403 of the application: %q", resp.body)
		}
	})
}

// isDenial checks the header of a denial by the limit of logins.
func (g *guarded) isDenial(r *response) {
	g.t.Helper()
	if name, left := limitField(g.t, r); name != "login" || left != 0 {
		g.t.Errorf("denied: %s remains %d", name, left)
	}
	// A sliding window gives room for one more within two windows.
	if retry, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || retry < 1 || retry > 7200 {
		g.t.Errorf("denied: Retry-After %q", r.Header.Get("Retry-After"))
	}
	if r.Header.Get("Cache-Control") != "no-store" || r.body != "" && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		g.t.Errorf("denied: %v", r.Header)
	}
	if got := r.Header.Get("X-Ratelimit-Status"); got != "" {
		g.t.Errorf("denied: the client hears X-RateLimit-Status: %s", got)
	}
	if list, err := httpsfv.UnmarshalList(r.Header.Values("RateLimit-Policy")); err != nil || len(list) != 2 {
		g.t.Errorf("denied: RateLimit-Policy %q: %v", r.Header.Values("RateLimit-Policy"), err)
	}
}

// Clients cannot write what gateways tell of them.
func TestGatewaysDoNotBelieveClients(t *testing.T) {
	t.Parallel()
	eachGateway(t, func(t *testing.T, k gateway) {
		g := startGuarded(t)
		k.start(g, false)
		for range 3 {
			g.send(200, request{uri: "/login"})
		}
		for _, name := range []string{"X-Original-Uri", "X-Original-Url", "X-Forwarded-Uri", "X-Rewrite-Url"} {
			g.send(429, request{uri: "/login", header: http.Header{name: {"/orders/7"}}})
		}
		for _, name := range []string{"X-Original-Method", "X-Forwarded-Method", "X-Http-Method-Override"} {
			g.send(429, request{uri: "/login", header: http.Header{name: {"OPTIONS"}, "Origin": {"https://x.example"}, "Access-Control-Request-Method": {"GET"}}})
		}
		for i, name := range []string{"X-Forwarded-For", "X-Real-Ip", "X-Envoy-External-Address", "Forwarded", "X-Client-Ip"} {
			value := "198.51.100." + strconv.Itoa(i)
			if name == "Forwarded" {
				value = "for=" + value
			}
			g.send(429, request{uri: "/login", header: http.Header{name: {value}}})
		}
		g.send(429, request{uri: "/login", header: http.Header{"X-Forwarded-For": {"1.1.1.1", "1.1.1.2, 1.1.1.3"}}})
		g.send(429, request{uri: "/login?domain=other"})
		g.send(429, request{uri: "/login", header: http.Header{"X-Headgate-Domain": {"other"}}})
		// Another client and another route have limits of their own.
		g.send(200, request{from: bob, uri: "/login"})
		other := g.send(200, request{uri: "/orders/7"})
		if k.silent {
			return
		}
		if name, _ := limitField(t, other); name != "per-address" {
			t.Errorf("another route is limited by %s", name)
		}
	})
}

// A client that is denied does not get past by a request that a gateway can take and
// Headgate, or the way to it, cannot: that would look like an outage.
func TestGatewaysAreNotOverwhelmed(t *testing.T) {
	t.Parallel()
	eachGateway(t, func(t *testing.T, k gateway) {
		g := startGuarded(t)
		k.start(g, false)
		for range 3 {
			g.send(200, request{uri: "/login"})
		}
		for _, uri := range []string{"/login%zz", "/%2e/login", "/x/../login", "/login/", "/login//", "/%6cogin", "http://" + g.edge + "/login"} {
			g.notPassed(fmt.Sprintf("URI %q", uri), request{uri: uri})
		}
		const kib = 1 << 10
		for _, size := range []int{2 * kib, 7 * kib, 10 * kib, 12 * kib, 14 * kib, 15*kib - 100, 15*kib + 500, 16 * kib, 30 * kib, 58 * kib, 60 * kib, 100 * kib, 900 * kib, 1000 * kib} {
			g.notPassed(fmt.Sprintf("query of %d bytes", size), request{uri: "/login?q=" + strings.Repeat("q", size)})
			header := http.Header{"Origin": {"https://x.example"}}
			for i := range size / kib {
				header.Set("Cookie", header.Get("Cookie")+strings.Repeat("c", kib/2)+"=1; ")
				header.Set("X-Filler-"+strconv.Itoa(i), strings.Repeat("f", kib/2))
			}
			g.notPassed(fmt.Sprintf("header of %d bytes", size), request{uri: "/login", header: header})
		}
		for _, entries := range []int{100, 1000, 10_000} {
			g.notPassed(fmt.Sprintf("%d entries of X-Forwarded-For", entries), request{uri: "/login", header: http.Header{"X-Forwarded-For": {strings.Repeat("1.1.1.1, ", entries) + "1.1.1.1"}}})
		}
		// The gateway and Headgate are well after all this.
		g.send(429, request{uri: "/login"})
		g.send(200, request{from: bob, uri: "/login"})
	})
}

// notPassed fails the test if the application answers r, which is beyond the limit
// of logins. That the gateway refuses it or hangs up is well.
func (g *guarded) notPassed(what string, r request) {
	g.t.Helper()
	if resp, err := g.try(r); err == nil && resp.heard.Method != "" {
		g.t.Errorf("%s: passed (%d)\n%.2000s", what, resp.StatusCode, g.logs())
	}
}

// Without Headgate requests pass or not, as the example says; when it is back it
// decides again.
func TestGatewaysWithoutHeadgate(t *testing.T) {
	t.Parallel()
	eachGateway(t, func(t *testing.T, k gateway) {
		for _, mode := range []struct {
			name   string
			closed bool
			status int
		}{{"open", false, 200}, {"closed", true, k.down}} {
			if k.closedOnly && !mode.closed {
				continue
			}
			t.Run(mode.name, func(t *testing.T) {
				g := startGuarded(t)
				k.start(g, mode.closed)
				g.send(200, request{uri: "/login"})
				g.headgate.Kill()
				for range 5 {
					if resp := g.send(mode.status, request{uri: "/login"}); len(resp.Header.Values("RateLimit")) > 0 {
						t.Errorf("without headgate: %v", resp.Header)
					}
				}
				g.startHeadgate()
				g.eventually("a decision after the restart", func() bool {
					resp, err := g.try(request{from: bob, uri: "/orders/7"})
					return err == nil && resp.StatusCode == 200 && (k.silent || len(resp.Header.Values("RateLimit")) == 1)
				})
			})
		}
	})
}

// Without a store rules fail open or closed; what is closed is 503 to the client,
// and no outage of Headgate to the gateway, as far as gateways can tell.
func TestGatewaysWithoutStore(t *testing.T) {
	t.Parallel()
	nowhere := "127.0.0.1:" + strconv.Itoa(testserver.FreePort(t))
	eachGateway(t, func(t *testing.T, k gateway) {
		g := startGuarded(t, "--store", "redis://"+nowhere+"/0")
		k.start(g, false)
		g.send(200, request{uri: "/login"})
		if k.opensClosedRules {
			g.send(200, request{uri: "/transfer"})
			return
		}
		if resp := g.send(503, request{uri: "/transfer"}); resp.Header.Get("Retry-After") != "1" || !strings.Contains(resp.body, "SERVICE_UNAVAILABLE") {
			t.Errorf("%v\n%s", resp.Header, resp.body)
		}
	})
}

// A gateway that is not named as a peer is told so, and the log says which setting.
func TestGatewaysMustBePeers(t *testing.T) {
	g := startGuarded(t, "--auth-peers", "192.0.2.1")
	startNginx(g, false)
	g.send(403, request{uri: "/login"})
	// The log comes by a pipe, and so perhaps after the answer.
	if err := g.headgate.Poll(func() error {
		if !strings.Contains(g.headgate.Output(), "127.0.0.1 asks and is no peer; hint: --auth-peers") {
			return errors.New("the log does not say which setting")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A gateway on the same machine may ask by a unix socket.
func TestGatewayByUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "hg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "auth")
	g := startGuarded(t, "--auth-addr", "unix://"+socket)
	text := g.example("nginx/nginx.conf", "server 127.0.0.1:9091", "server unix:"+socket, " 50ms;", " 10s;", " 100ms;", " 10s;")
	s := testserver.Nginx(t, testserver.GatewayConfig{Text: text, Port: "8088"})
	g.edge, g.output = s.Addr, s.Output
	for range 3 {
		g.send(200, request{uri: "/login"})
	}
	g.send(429, request{uri: "/login"})
	g.send(200, request{from: bob, uri: "/login"})
}
