package app

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/testserver"
)

// listenerNames are the listeners that a process may have.
var listenerNames = []string{"http", "grpc", "auth", "redis", "usage", "health", "admin", "dashboard", "metrics", "ops"}

// withAllListeners returns what serves at all of them, at the address that at returns for a name.
func withAllListeners(t *testing.T, at func(name string) string) config.Serve {
	t.Helper()
	s, dir := settings(), t.TempDir()
	for name, addr := range map[string]*string{
		"http": &s.HTTPAddr, "grpc": &s.GRPCAddr, "auth": &s.AuthAddr, "redis": &s.RedisAddr, "usage": &s.UsageAddr, "health": &s.HealthAddr,
		"admin": &s.AdminAddr, "dashboard": &s.DashboardAddr, "metrics": &s.MetricsAddr, "ops": &s.OpsAddr,
	} {
		*addr = at(name)
	}
	s.MetricsPath, s.DashboardSession = "/metrics", time.Hour
	s.UsageKey, s.AdminTokens, s.Callers.Callers = filepath.Join(dir, "usage.key"), filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "callers.yaml")
	_, operators, err1 := adminapi.NewToken("ann", adminapi.Read, time.Time{})
	_, gateways, err2 := callers.NewToken("gateway", []string{"check"}, time.Time{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.UsageKey, testKey)
	writeFile(t, s.AdminTokens, "tokens:\n"+operators)
	writeFile(t, s.Callers.Callers, "tokens:\n"+gateways)
	return s
}

// aFreePort is the address of any name.
func aFreePort(string) string { return "127.0.0.1:0" }

// TestEachListenerIsBounded: one connection beyond --max-connections is closed at each of them, and
// counted there.
func TestEachListenerIsBounded(t *testing.T) {
	const most = 2
	s := withAllListeners(t, aFreePort)
	s.MaxConnections = most
	at := startAuth(t, s, quiet())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waits.Patience}
	refused := func(name string) bool {
		from := "ops"
		if name == from {
			from = "metrics"
		}
		resp, err := client.Get("http://" + at[from] + "/metrics")
		if err != nil {
			return false // its own connections of before are not closed yet
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		series := `headgate_connections_refused_total{listener="` + name + `"} `
		return err == nil && strings.Contains(string(text), series) && !strings.Contains(string(text), series+"0\n")
	}
	for _, name := range listenerNames {
		waits.True(t, name+" closes one connection too many", func() bool {
			for range most + 1 {
				conn, err := net.Dial("tcp", at[name])
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			return refused(name)
		})
	}
}

// TestEachSocketHasItsMode: --socket-mode is that of every socket.
func TestEachSocketHasItsMode(t *testing.T) {
	const mode = 0o620
	dir := t.TempDir()
	s := withAllListeners(t, func(name string) string { return "unix://" + filepath.Join(dir, name) })
	s.SocketMode = fmt.Sprintf("%o", mode)
	startAuth(t, s, quiet())
	for _, name := range listenerNames {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// firstWords are what a client says first at listeners of callers, and how the answer begins.
var firstWords = map[string]struct{ said, answer string }{
	"http":  {"GET /healthcheck HTTP/1.0\r\n\r\n", "HTTP/1.0 200"},
	"auth":  {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 404"},
	"usage": {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 404"},
	"redis": {"CL.THROTTLE\r\n", "-"},
	"grpc":  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00"},
}

// TestCertificatesOfAllCallers: each listener of callers asks for a certificate with one of
// --client-names, or lets those in who show none, and that of customers asks nobody.
func TestCertificatesOfAllCallers(t *testing.T) {
	certs := testserver.NewCertificates(t)
	named, other := showing(t, certs, "spiffe://prod/gateway"), showing(t, certs, "spiffe://prod/stranger")
	for _, tt := range []struct {
		certs, names, except string
		in                   map[string]*tls.Config
		out                  map[string]*tls.Config
	}{
		{"required", "uri:spiffe://prod/gateway", "", map[string]*tls.Config{"a name": named}, map[string]*tls.Config{"another name": other, "no certificate": certs.Client()}},
		{"optional", "uri:spiffe://prod/gateway", "", map[string]*tls.Config{"a name": named, "no certificate": certs.Client()}, map[string]*tls.Config{"another name": other}},
		{"required", "", "redis,auth", map[string]*tls.Config{"a name": named, "another name": other}, map[string]*tls.Config{"no certificate": certs.Client()}},
	} {
		s := withAllListeners(t, aFreePort)
		s.TLSCert, s.TLSKey, s.ClientCA, s.ClientCerts, s.ClientNames, s.TLSExcept = certs.CertFile, certs.KeyFile, certs.CAFile, tt.certs, tt.names, tt.except
		at := startAuth(t, s, quiet())
		for name := range firstWords {
			if strings.Contains(tt.except, name) {
				if err := answered(name, at[name], nil); err != nil {
					t.Errorf("%s, in plain text: %v", name, err)
				}
				continue
			}
			for who, config := range tt.in {
				if err := answered(name, at[name], config); err != nil {
					t.Errorf("%s, certificates %s, names %q: %s is not let in: %v", name, tt.certs, tt.names, who, err)
				}
			}
			for who, config := range tt.out {
				if err := answered(name, at[name], config); (err == nil) != (name == "usage") {
					t.Errorf("%s, certificates %s, names %q: %s: %v", name, tt.certs, tt.names, who, err)
				}
			}
		}
	}
}

// showing returns a client with a certificate for a URI.
func showing(t *testing.T, certs *testserver.Certificates, uri string) *tls.Config {
	t.Helper()
	cert, key := certs.Issue(t, testserver.Leaf{URIs: []string{uri}})
	return certs.ClientWith(t, cert, key)
}

// answered returns why a client is not answered at the listener of a name; without config it speaks
// plain text.
func answered(name, addr string, config *tls.Config) error {
	conn, err := net.DialTimeout("tcp", addr, waits.Patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	if config != nil {
		config = config.Clone()
		if name == "grpc" {
			config.NextProtos = []string{"h2"}
		}
		conn = tls.Client(conn, config)
	}
	want := firstWords[name]
	err1 := conn.SetDeadline(time.Now().Add(waits.Patience))
	_, err2 := io.WriteString(conn, want.said)
	got, err3 := bufio.NewReader(conn).Peek(len(want.answer))
	if err := cmp.Or(err1, err2, err3); err != nil || string(got) != want.answer {
		return fmt.Errorf("answered %q, %v", got, err)
	}
	return nil
}

// TestMetricsHaveTheirPath: at --metrics-addr metrics are at --metrics-path and nowhere else.
func TestMetricsHaveTheirPath(t *testing.T) {
	s := settings()
	s.MetricsAddr, s.MetricsPath = "127.0.0.1:0", "/figures/prometheus"
	at := startAuth(t, s, quiet())
	for path, want := range map[string]int{s.MetricsPath: 200, "/metrics": 404, "/": 404, "/rules": 404, "/readyz": 404} {
		if status, _ := get(t, "http://"+at["metrics"]+path); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// allFronts returns a process with the fronts of all listeners, and that of a proxy with headers of up to
// 8 KiB.
func allFronts(t *testing.T) (p *process, fronts []front, forwarder front) {
	t.Helper()
	s := withAllListeners(t, aFreePort)
	p, err := newProcess(&s.Settings, config.Does{Decide: true, Admin: true, Dashboard: true}, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.leave)
	if fronts, err = p.fronts(&s); err != nil {
		t.Fatal(err)
	}
	proxied := proxyBefore(t, "http://127.0.0.1:1", twoADay)
	proxied.MaxHeader, proxied.Domain = 8<<10, "a"
	p.settings.XDSServer = "127.0.0.1:1" // it has no rules, and knows its domain
	if forwarder, err = p.forwarder(&proxied); err != nil {
		t.Fatal(err)
	}
	return p, fronts, forwarder
}

// TestEachFrontAsksToGo: while the process drains, clients of HTTP/1.1 are asked to open another
// connection wherever they ask.
func TestEachFrontAsksToGo(t *testing.T) {
	p, fronts, forwarder := allFronts(t)
	handlers := map[string]http.Handler{}
	for _, f := range fronts {
		if f.name == "auth" || f.name == "usage" || f.name == "admin" || f.name == "dashboard" {
			handlers[f.name] = f.start(unused{}).(*gentleServer).server.(*http.Server).Handler
		}
	}
	handlers["proxy"] = forwarder.start(unused{}).(*proxyServer).server.(*gentleServer).server.(*http.Server).Handler
	if len(handlers) != 5 {
		t.Fatalf("fronts %v", handlers)
	}
	paths := map[string]string{"auth": forwardauth.Prefix + "nginx", "usage": "/", "admin": "/", "dashboard": "/", "proxy": "/"}
	for draining, want := range map[bool]string{false: "", true: "close"} {
		p.health.draining.Store(draining)
		for name, handler := range handlers {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", paths[name], nil)
			r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
			r.Header = http.Header{"X-Original-Method": {"GET"}, "X-Original-Uri": {"/"}, "X-Forwarded-For": {"203.0.113.9"}}
			handler.ServeHTTP(w, r)
			if got := w.Header().Get("Connection"); got != want {
				t.Errorf("%s, draining %t: Connection %q, want %q", name, draining, got, want)
			}
		}
	}
}

// unused is a listener that nobody comes to.
type unused struct{ net.Listener }

func (unused) Addr() net.Addr { return &net.TCPAddr{} }

// TestProxyAnswersAsSet: all that is said of answers reaches the limits of a proxy too.
func TestProxyAnswersAsSet(t *testing.T) {
	s := proxyBefore(t, "http://127.0.0.1:1", twoADay)
	key := filepath.Join(t.TempDir(), "partition.key")
	writeFile(t, key, testKey)
	s.Answers = config.Answers{Headers: "draft-7", XRateLimitReset: "delta", Reset: "window", Body: "flat", RetryJitter: 0.5, PartitionKey: key}
	s.DecisionID = "X-Decision-Id"
	p, err := newProcess(&s.Settings, proxyDoes, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer p.leave()
	if err := p.loadRules(); err != nil {
		t.Fatal(err)
	}
	who, err := p.identity(&s)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := answerOptions(&s.Settings)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := p.limits(&s, who.Extractor, answer)
	if err != nil {
		t.Fatal(err)
	}
	if missing := zeroFields(limits.options.Answer, "Random"); missing != nil {
		t.Errorf("not set: %q", missing)
	}
}

// TestProxyForwardsAsSet: what is said of the backend, and of the requests to it, holds.
func TestProxyForwardsAsSet(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			<-r.Context().Done()
		}
		io.WriteString(w, r.Host)
	}))
	defer backend.Close()
	s := proxyBefore(t, backend.URL, strings.ReplaceAll(twoADay, "requests_per_unit: 2", "requests_per_unit: 1000"))
	for _, rewritten := range []bool{false, true} {
		s.RewriteHost, s.MaxBody, s.BackendTimeout = rewritten, 1, time.Minute
		clients, _ := runProxy(t, s)
		host := map[bool]string{false: strings.TrimPrefix(clients, "http://"), true: strings.TrimPrefix(backend.URL, "http://")}[rewritten]
		if status, body := get(t, clients); status != http.StatusOK || body != host {
			t.Errorf("rewritten %t: %d, host %s", rewritten, status, body)
		}
		resp, err := http.Post(clients, "text/plain", strings.NewReader("long"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a body of 4 bytes: %d", resp.StatusCode)
		}
	}
	s.BackendTimeout = time.Millisecond
	clients, ops := runProxy(t, s)
	patient := &http.Client{Timeout: waits.Patience}
	if resp, err := patient.Get(clients + "/hangs"); err != nil {
		t.Error(err)
	} else if resp.Body.Close(); resp.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("a backend that hangs: %s", resp.Status)
	}
	if _, metrics := get(t, ops+"/metrics"); !strings.Contains(metrics, "headgate_proxy_requests_total") {
		t.Error("the metrics have nothing of the proxy")
	}
}

// TestServersAreAsTheirFronts: servers whose requests are no checks have the bounds that these need.
func TestServersAreAsTheirFronts(t *testing.T) {
	p, fronts, forwarder := allFronts(t)
	if s := forwarder.start(unused{}).(*proxyServer).server.(*gentleServer).server.(*http.Server); s.ReadTimeout != 0 || s.WriteTimeout != 0 || s.MaxHeaderBytes != 8<<10 || !s.DisableGeneralOptionsHandler {
		t.Error("a proxy cuts off streams, takes other headers than it is to, or answers OPTIONS * itself")
	}
	for _, f := range fronts {
		switch f.name {
		case "auth":
			if s := f.start(unused{}).(*gentleServer).server.(*http.Server); s.MaxHeaderBytes != maxAuthHeaderBytes || s.IdleTimeout != authIdleTimeout {
				t.Error("gateways are taken for clients")
			}
		case "admin":
			if s := f.start(unused{}).(*gentleServer).server.(*http.Server); !s.DisableGeneralOptionsHandler {
				t.Error("OPTIONS * needs no token")
			}
		}
	}
	if p.ops.WriteTimeout != 0 {
		t.Errorf("a profile may take %v", p.ops.WriteTimeout)
	}
}

// TestOtherHostsAreCountedAtTheirDoor: wherever a name in Host counts, --allowed-hosts lets one in,
// and who comes by another is counted where he came.
func TestOtherHostsAreCountedAtTheirDoor(t *testing.T) {
	s := withAllListeners(t, aFreePort)
	s.Callers.Callers, s.AllowedHosts = "", "gate.example.com" // so that the address of http gives rights
	at := startAuth(t, s, quiet())
	doors := []string{"http", "admin", "dashboard", "ops"}
	for _, door := range doors {
		for host, refused := range map[string]bool{"gate.example.com": false, "rebound.example.net": true} {
			r := must(http.NewRequest("GET", "http://"+at[door]+"/", nil))
			r.Host = host
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if (resp.StatusCode == http.StatusMisdirectedRequest) != refused {
				t.Errorf("%s of %s: %s", host, door, resp.Status)
			}
		}
	}
	_, metrics := get(t, "http://"+at["ops"]+"/metrics")
	for _, door := range doors {
		if want := `headgate_auth_refused_total{door="` + door + `",reason="other_host"} 1`; !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics do not have %s", want)
		}
	}
}

// TestDrainGoesOnServing: readiness is off at once, and connections end after the drain delay; where a
// server has failed nobody waits for that.
func TestDrainGoesOnServing(t *testing.T) {
	for asked, want := range map[bool]time.Duration{true: 7 * time.Second, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := shared()
			s.DrainDelay = 7 * time.Second
			p := &process{settings: &s, health: &health{}, logger: quiet()}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if asked {
				cancel()
			}
			began := time.Now()
			p.onDrain = append(p.onDrain, func() {
				if took := time.Since(began); took > 0 || !p.health.draining.Load() {
					t.Errorf("the end is told after %v, draining %t", took, p.health.draining.Load())
				}
			})
			ends := &endingServer{}
			p.drain(ctx, nil, []server{ends})
			if took := ends.at.Sub(began); took != want {
				t.Errorf("asked to end %t: connections end after %v, want %v", asked, took, want)
			}
		})
	}
}

// endingServer notes when it is shut down.
type endingServer struct{ at time.Time }

func (*endingServer) Serve() error               { return nil }
func (s *endingServer) Shutdown(context.Context) { s.at = time.Now() }
