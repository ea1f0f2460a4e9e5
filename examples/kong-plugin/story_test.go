package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/Kong/go-pdk/server/kong_plugin_protocol"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// Addresses of this machine that stand for clients.
const (
	alice = "127.0.0.2"
	bob   = "127.0.0.3"
)

// built is the folder of the plugin.
var built string

var plugin = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "hg"); err != nil { // the path of a socket must be short
		return "", err
	}
	path := filepath.Join(built, "kong-plugin")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return path, nil
})

// headgate is the command: that of HEADGATE_TEST_BINARY, or built here.
var headgate = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("HEADGATE_TEST_BINARY"); path != "" {
		return path, nil
	}
	if _, err := plugin(); err != nil {
		return "", err
	}
	path := filepath.Join(built, "headgate")
	build := exec.Command("go", "build", "-tags", "disable_pgv,grpcnotrace", "-o", path, "./cmd/headgate")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build headgate: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// story is an application, a Headgate, the plugin server and Kong's part of the protocol.
type story struct {
	t        *testing.T
	kong     *kong
	edge     string
	authAddr string
	rules    string
	identity string
	args     []string
	headgate *testserver.Process
	plugin   *testserver.Process
}

// heard is what the application has heard.
type heard struct {
	Method, URI string
	Header      http.Header
}

const gateways = "../gateways/"

// start starts all of it; settings are further ones of the plugin, as JSON without braces.
func start(t *testing.T, settings string, args ...string) *story {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(bob, "0"))
	if err != nil {
		t.Skipf("this machine has one loopback address alone, so that there is one client alone: %v", err)
	}
	l.Close()
	s := &story{t: t, args: args, identity: gateways + "identity.yaml"}
	s.authAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	text, err := os.ReadFile(gateways + "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// By the hour, so that no limit is as if unused before a slow machine is done.
	s.write(strings.ReplaceAll(string(text), "unit: minute", "unit: hour"))
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/forbidden" {
			http.Error(w, "by the application", http.StatusForbidden)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		json.NewEncoder(w).Encode(heard{r.Method, r.RequestURI, r.Header})
	}))
	t.Cleanup(app.Close)
	if settings != "" {
		settings = ", " + settings
	}
	// What was not set is null, and __seq__ counts configurations.
	s.kong = &kong{config: fmt.Sprintf(`{"url": "http://%s/auth/kong", "timeout_ms": 10000, "token": null,
		"client_headers": null, "request_headers": {}, "__seq__": 3%s}`, s.authAddr, settings)}
	s.startPlugin()
	s.edge = newKong(t, s.kong, app.URL)
	return s
}

// write writes the rules.
func (s *story) write(rules string) {
	s.t.Helper()
	s.rules = filepath.Join(s.t.TempDir(), "rules.yaml")
	if err := os.WriteFile(s.rules, []byte(rules), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) startPlugin() {
	s.t.Helper()
	path, err := plugin()
	if err != nil {
		s.t.Fatal(err)
	}
	prefix, err := os.MkdirTemp(built, "p")
	if err != nil {
		s.t.Fatal(err)
	}
	s.kong.socket = filepath.Join(prefix, "kong-plugin.socket")
	if s.plugin, err = testserver.StartProcess(exec.Command(path, "-kong-prefix", prefix)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.plugin.Terminate)
	if err := s.plugin.Poll(func() error {
		conn, err := net.Dial("unix", s.kong.socket)
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		s.t.Fatalf("start the plugin: %v", err)
	}
}

// serve runs `headgate serve` and waits until it is ready.
func (s *story) serve() *story {
	s.t.Helper()
	path, err := headgate()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.headgate, err = testserver.StartProcess(exec.Command(path, append([]string{"serve",
		"--rules", s.rules, "--identity", s.identity, "--auth-addr", s.authAddr, "--auth-peers", "127.0.0.1",
		"--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--drain-delay", "0s",
	}, s.args...)...)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.headgate.Terminate)
	if err := s.headgate.Poll(func() error {
		if !strings.Contains(s.headgate.Output(), "headgate ready") {
			return errors.New("not ready")
		}
		return nil
	}); err != nil {
		s.t.Fatalf("start headgate: %v", err)
	}
	return s
}

// request is one of a client to Kong.
type request struct {
	from, method, uri string // "" is alice, GET
	header            http.Header
}

type response struct {
	*http.Response
	body  string
	heard heard
}

// try sends r by a connection of its own from the address of the client.
func (s *story) try(r request) (*response, error) {
	if r.from == "" {
		r.from = alice
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(r.from)}}
	client := http.Client{Timeout: eventually.Patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		}}}
	req, err := http.NewRequest(r.method, "http://"+s.edge+r.uri, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	answer := &response{Response: resp, body: string(body)}
	_ = json.Unmarshal(body, &answer.heard) // of others than the application it is empty
	return answer, err
}

// send is try, and fails the test where the status is not want.
func (s *story) send(want int, r request) *response {
	s.t.Helper()
	resp, err := s.try(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", r.method, r.uri, err, s.logs())
	}
	if resp.StatusCode != want {
		s.t.Fatalf("%s %s: status %d, want %d\n%v\n%s\n%s", r.method, r.uri, resp.StatusCode, want, resp.Header, resp.body, s.logs())
	}
	return resp
}

func (s *story) logs() string {
	logs := "kong: " + s.kong.lines() + "\nplugin: " + s.plugin.Output()
	if s.headgate != nil {
		logs += "\nheadgate: " + s.headgate.Output()
	}
	return logs
}

func TestAllowThenDeny(t *testing.T) {
	s := start(t, "").serve()
	for i := range 3 {
		resp := s.send(200, request{uri: "/login?next=%2Fhome", header: http.Header{
			"X-Ratelimit-Challenge": {"forged"}, "X_ratelimit_challenge": {"forged"}}})
		if want := fmt.Sprintf(`"login";r=%d;`, 2-i); !strings.HasPrefix(resp.Header.Get("RateLimit"), want) || resp.Header.Get("RateLimit-Policy") == "" {
			t.Errorf("request %d: the client hears %v", i+1, resp.Header)
		}
		if resp.heard.Method != "GET" || resp.heard.URI != "/login?next=%2Fhome" {
			t.Errorf("request %d: the application heard %+v", i+1, resp.heard)
		}
		challenge := strings.Join(append(resp.heard.Header["X-Ratelimit-Challenge"], resp.heard.Header["X_ratelimit_challenge"]...), ",")
		if want := []string{"", "captcha", "captcha"}[i]; challenge != want {
			t.Errorf("request %d: the application is told to ask for %q, want %q", i+1, challenge, want)
		}
	}
	denied := s.send(429, request{uri: "/login"})
	if !strings.HasPrefix(denied.Header.Get("RateLimit"), `"login";r=0;`) || denied.Header.Get("Cache-Control") != "no-store" ||
		denied.Header.Get("X-Ratelimit-Status") != "" || !strings.Contains(denied.body, `"code":"RATE_LIMITED"`) ||
		!strings.HasPrefix(denied.Header.Get("Content-Type"), "application/json") {
		t.Errorf("denied: %v\n%s", denied.Header, denied.body)
	}
	if retry, err := strconv.Atoi(denied.Header.Get("Retry-After")); err != nil || retry < 1 {
		t.Errorf("denied: Retry-After %q", denied.Header.Get("Retry-After"))
	}
	s.send(429, request{method: "POST", uri: "/login"})
	if head := s.send(429, request{method: "HEAD", uri: "/login"}); head.Header.Get("RateLimit") == "" || head.ContentLength > 0 {
		t.Errorf("HEAD: %v, %d bytes", head.Header, head.ContentLength)
	}
	s.send(200, request{from: bob, uri: "/login"})
	if resp := s.send(403, request{uri: "/forbidden"}); resp.body != "by the application\n" {
		t.Errorf("403 of the application: %q", resp.body)
	}
	if out := s.plugin.Output(); strings.Contains(out, "closed network connection") {
		t.Errorf("the plugin logs each denial:\n%s", out)
	}
}

// Clients cannot write what the plugin tells of them.
func TestClientsAreNotBelieved(t *testing.T) {
	s := start(t, `"check_id_header": "Headgate-Check-Id"`, "--check-id-header", "Headgate-Check-Id").serve()
	for range 3 { // the same id, as the client writes it, is charged each time
		s.send(200, request{uri: "/login", header: http.Header{"Headgate-Check-Id": {"mine"}}})
	}
	for _, name := range []string{"X-Original-Uri", "X-Original-Url", "X-Forwarded-Uri", "X_original_uri"} {
		s.send(429, request{uri: "/login", header: http.Header{name: {"/orders/7"}}})
	}
	for _, name := range []string{"X-Original-Method", "X-Forwarded-Method", "X-Http-Method-Override"} {
		s.send(429, request{uri: "/login", header: http.Header{name: {"OPTIONS"}, "Origin": {"https://x.example"}, "Access-Control-Request-Method": {"GET"}}})
	}
	for i, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Client-Ip"} {
		s.send(429, request{uri: "/login", header: http.Header{name: {"198.51.100." + strconv.Itoa(i)}}})
	}
	s.send(429, request{uri: "/login?domain=other", header: http.Header{"X-Headgate-Domain": {"other"}, "X-Headgate-Token": {"no"}}})
	// What cannot be told to Headgate is no way around it, though the plugin fails open.
	s.send(400, request{uri: "/login", header: http.Header{"X-Latin": {"caf\xe9"}}})
	many := http.Header{}
	for i := range 1001 {
		many["X-"+strconv.Itoa(i)] = []string{"1"}
	}
	s.send(431, request{uri: "/login", header: many})
	s.send(429, request{uri: "/login"})
	s.send(200, request{from: bob, uri: "/login"})
}

// Without Headgate requests pass or not, as is configured; when it is back it decides again.
func TestWithoutHeadgate(t *testing.T) {
	for _, mode := range []struct {
		name   string
		status int
	}{{"open", 200}, {"closed", 503}} {
		t.Run(mode.name, func(t *testing.T) {
			s := start(t, `"failure_mode": "`+mode.name+`"`).serve()
			s.send(200, request{uri: "/login"})
			s.headgate.Kill()
			for range 5 {
				resp := s.send(mode.status, request{uri: "/login", header: http.Header{"X-Ratelimit-Challenge": {"forged"}}})
				if resp.Header.Get("RateLimit") != "" || resp.heard.Header.Get("X-Ratelimit-Challenge") != "" {
					t.Errorf("without headgate: %v, the application heard %v", resp.Header, resp.heard.Header)
				}
				if mode.name == "closed" && resp.Header.Get("Retry-After") != "1" {
					t.Errorf("closed: %v", resp.Header)
				}
			}
			if !strings.Contains(s.kong.lines(), "headgate did not answer, so requests are decided by failure_mode ("+mode.name+")") {
				t.Errorf("Kong's log: %s", s.kong.lines())
			}
			s.serve()
			eventually.True(t, "a decision after the restart", func() bool {
				return s.send(200, request{from: bob, uri: "/orders/7"}).Header.Get("RateLimit") != ""
			})
		})
	}
}

// A Headgate that hangs is waited for as long as is configured.
func TestHeadgateHangs(t *testing.T) {
	s := start(t, `"failure_mode": "closed", "timeout_ms": 50`).serve()
	if err := s.headgate.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.send(503, request{uri: "/login"})
	if err := s.headgate.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// Garbage in the place of Headgate decides nothing, harms nobody and is not logged: it may be
// what the plugin has sent.
func TestGarbageInPlaceOfHeadgate(t *testing.T) {
	s := start(t, `"failure_mode": "closed", "token": "hush"`)
	l, err := net.Listen("tcp", s.authAddr)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			asked := make([]byte, 4<<10)
			n, _ := conn.Read(asked)
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s\x00\xff", strings.ReplaceAll(string(asked[:n]), ":", " "))
			conn.Close()
		}
	}()
	s.send(503, request{uri: "/login", header: http.Header{"Cookie": {"session=hush"}}})
	if got := s.kong.lines(); !strings.Contains(got, "hint: the port in url") || strings.Contains(got+s.plugin.Output(), "hush") {
		t.Errorf("Kong's log: %s\nthe plugin's: %s", got, s.plugin.Output())
	}
	l.Close()
	s.serve().send(200, request{uri: "/login"})
}

// Rules that fail closed do so though the plugin fails open: Headgate has answered.
func TestWithoutStore(t *testing.T) {
	s := start(t, "", "--store", "redis://127.0.0.1:"+strconv.Itoa(testserver.FreePort(t))+"/0").serve()
	s.send(200, request{uri: "/login"})
	if resp := s.send(503, request{uri: "/transfer"}); resp.Header.Get("Retry-After") != "1" || !strings.Contains(resp.body, "SERVICE_UNAVAILABLE") {
		t.Errorf("%v\n%s", resp.Header, resp.body)
	}
}

// A plugin that is no peer is told so in Kong's log.
func TestMustBePeer(t *testing.T) {
	s := start(t, `"failure_mode": "closed"`, "--auth-peers", "192.0.2.1").serve()
	s.send(503, request{uri: "/login"})
	if !strings.Contains(s.kong.lines(), "hint: --auth-peers") {
		t.Errorf("Kong's log: %s", s.kong.lines())
	}
}

// Limits count on the consumer that Kong has found, whatever clients write.
func TestConsumers(t *testing.T) {
	s := start(t, `"consumer_by": "custom_id"`)
	s.identity = "identity.yaml"
	text, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.write(strings.NewReplacer("unit: minute", "unit: hour", "requests_per_unit: 600", "requests_per_unit: 2").Replace(string(text)))
	s.serve()
	forged := http.Header{"X-Kong-Consumer": {"globex"}, "X_kong_consumer": {"globex"}}
	s.kong.consumer = &kong_plugin_protocol.Consumer{Id: "3f2a", Username: "acme", CustomId: "acme-7"}
	s.kong.credential = &kong_plugin_protocol.AuthenticatedCredential{Id: "key-1"}
	for range 2 {
		s.send(200, request{uri: "/orders/7", header: forged})
	}
	s.send(429, request{uri: "/orders/7", header: forged})
	s.send(429, request{from: bob, uri: "/orders/7"}) // by whichever address
	s.kong.consumer = &kong_plugin_protocol.Consumer{Id: "9c01", CustomId: "globex"}
	s.send(200, request{uri: "/orders/7"})
	s.kong.consumer, s.kong.credential = nil, nil
	if got := s.send(200, request{uri: "/orders/7", header: forged}).Header.Get("RateLimit"); !strings.HasPrefix(got, `"per-address"`) {
		t.Errorf("a client whom Kong does not know: RateLimit %s", got)
	}
}

// As many pass at once as the limit has, by fewer connections than there are requests.
func TestManyAtOnce(t *testing.T) {
	s := start(t, `"connections": 2, "failure_mode": "closed"`).serve()
	statuses := make(chan int)
	for i := range 40 {
		go func() {
			resp, err := s.try(request{uri: "/orders/" + strconv.Itoa(i)})
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				statuses <- 0
				return
			}
			statuses <- resp.StatusCode
		}()
	}
	got := map[int]int{}
	for range 40 {
		got[<-statuses]++
	}
	if got[200] != 30 || got[429] != 10 {
		t.Errorf("statuses %v, want 30 of 200 and 10 of 429\n%s", got, s.logs())
	}
}

// Kong starts its instance again when the plugin server was started anew.
func TestPluginServerStartedAnew(t *testing.T) {
	s := start(t, "").serve()
	s.send(200, request{uri: "/login"})
	s.plugin.Kill()
	s.startPlugin()
	if got := s.send(200, request{uri: "/login"}).Header.Get("RateLimit"); !strings.HasPrefix(got, `"login";r=1;`) {
		t.Errorf("RateLimit %s", got)
	}
}

// A configuration that cannot work lets nothing pass, and Kong's log says why.
func TestBadSettings(t *testing.T) {
	for settings, want := range map[string]string{
		`"url": "ftp://x"`:                 "url: want",
		`"url": "http://u:p@127.0.0.1/"`:   "hint: set token",
		`"timeout_ms": 0`:                  "timeout_ms: 0 is not between 1 and 10000",
		`"connections": 5000`:              "connections: 5000 is not between 1 and 1024",
		`"failure_mode": "ajar"`:           `failure_mode: "ajar" is neither open nor closed`,
		`"consumer_by": "name"`:            "consumer_by",
		`"client_headers": ["RateLimit:"]`: `client_headers: "RateLimit:" is no name of a header field`,
		`"check_id_header": "a b"`:         "check_id_header",
		`"token": "a\nb"`:                  "token: cannot stand in a header field",
	} {
		s := start(t, settings)
		s.send(500, request{uri: "/login"})
		if got := s.kong.lines(); !strings.Contains(got, "headgate: the configuration: ") || !strings.Contains(got, want) {
			t.Errorf("%s: Kong's log: %s", settings, got)
		}
	}
}

// What Kong reads of the plugin server has every setting, with its default.
func TestDump(t *testing.T) {
	path, err := plugin()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "-dump", "-kong-prefix", "/usr/local/kong").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Protocol, SocketPath string
		Plugins              []struct {
			Name, Version string
			Phases        []string
			Priority      int
			Schema        struct {
				Name   string
				Fields []struct {
					Config struct {
						Type   string
						Fields []map[string]struct {
							Type    string
							Default any
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Protocol != "ProtoBuf:1" || got.SocketPath != "/usr/local/kong/kong-plugin.socket" || len(got.Plugins) != 1 {
		t.Fatalf("%s", out)
	}
	p := got.Plugins[0]
	if p.Name != "headgate" || p.Schema.Name != "headgate" || len(p.Phases) != 1 || p.Phases[0] != "access" || p.Priority >= 1000 || p.Priority <= 0 {
		t.Errorf("%+v", p)
	}
	config := p.Schema.Fields[0].Config
	if config.Type != "record" || len(config.Fields) != 12 {
		t.Errorf("config is a %s of %d fields", config.Type, len(config.Fields))
	}
}
