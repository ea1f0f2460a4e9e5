package app

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/testserver"
)

const perAddress = `
descriptors:
  - key: remote_address
    rate_limit: {name: per-address, unit: hour, requests_per_unit: 2}
`

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// authSettings serve gateways, with rules for each of the domains.
func authSettings(t *testing.T, domains ...string) config.Serve {
	t.Helper()
	s := settings()
	s.AuthAddr = "127.0.0.1:0"
	s.Rules = t.TempDir()
	for _, domain := range domains {
		if err := os.WriteFile(filepath.Join(s.Rules, domain+".yaml"), []byte("domain: "+domain+perAddress), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// startAuth runs s and returns the addresses of the ready line.
func startAuth(t *testing.T, s config.Serve, logger *slog.Logger) map[string]string {
	t.Helper()
	addrs, _ := startUntil(t, s, logger)
	return addrs
}

// startUntil runs s until it is stopped, or the test ends, and returns the addresses of
// the ready line.
func startUntil(t *testing.T, s config.Serve, logger *slog.Logger) (addrs map[string]string, stop context.CancelFunc) {
	t.Helper()
	return startRun(t, func(ctx context.Context, o Options) error { return Run(ctx, s, o) }, logger)
}

// startRun is startUntil for any way to serve.
func startRun(t *testing.T, run func(context.Context, Options) error, logger *slog.Logger) (addrs map[string]string, stop context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, Options{Build: telemetry.Build{Version: "test"}, Logger: logger, Out: write})
		write.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("not ready: %v", err)
	}
	addrs = map[string]string{}
	for _, pair := range regexp.MustCompile(`(\w+)=(\S+)`).FindAllStringSubmatch(line, -1) {
		addrs[pair[1]] = pair[2]
	}
	return addrs, cancel
}

// subRequest asks as nginx does about a request of client.
func subRequest(t *testing.T, addr, client string) *http.Response {
	t.Helper()
	return subRequestOf(t, addr, "/auth/nginx", client)
}

// subRequestOf is subRequest to a path.
func subRequestOf(t *testing.T, addr, path, client string) *http.Response {
	t.Helper()
	r := must(http.NewRequest("GET", "http://"+addr+path, nil))
	for name, value := range map[string]string{
		"X-Original-Method": "GET", "X-Original-URI": "/", "X-Forwarded-For": client,
	} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

func TestGatewaysAreServed(t *testing.T) {
	addrs := startAuth(t, authSettings(t, "edge"), quiet())
	for i, want := range []int{200, 200, 403} {
		if got := subRequest(t, addrs["auth"], "203.0.113.9"); got.StatusCode != want {
			t.Errorf("request %d: %s", i+1, got.Status)
		}
	}
	if got := subRequest(t, addrs["auth"], "203.0.113.10"); got.StatusCode != 200 {
		t.Errorf("another client: %s", got.Status)
	}
	if status, body := get(t, "http://"+addrs["ops"]+"/metrics"); status != 200 || !strings.Contains(body, "headgate_gateway_refused_total 0") {
		t.Errorf("metrics: %d, without those of gateways", status)
	}
	if status, _ := get(t, "http://"+addrs["http"]+"/auth/nginx"); status != 404 {
		t.Errorf("the HTTP API answers gateways: %d", status)
	}
}

func TestGatewaysAreOffByDefault(t *testing.T) {
	s := authSettings(t, "edge")
	s.AuthAddr = ""
	if addrs := startAuth(t, s, quiet()); addrs["auth"] != "" || addrs["http"] == "" {
		t.Errorf("serves on %v", addrs)
	}
}

func TestStrangersAreLogged(t *testing.T) {
	var log syncBuffer
	s := authSettings(t, "edge")
	s.AuthPeers = "192.0.2.1"
	addrs := startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	if got := subRequest(t, addrs["auth"], "203.0.113.9"); got.StatusCode != 403 || got.Header.Get("X-RateLimit-Status") != "" {
		t.Errorf("%s, %v", got.Status, got.Header)
	}
	if !strings.Contains(log.String(), "127.0.0.1 asks and is no peer; hint: --auth-peers") {
		t.Errorf("log: %s", log.String())
	}
	if _, body := get(t, "http://"+addrs["ops"]+"/metrics"); !strings.Contains(body, "headgate_gateway_strangers_total 1") {
		t.Error("the stranger is not counted")
	}
}

func TestGatewaysNeedADomain(t *testing.T) {
	err := Run(t.Context(), authSettings(t, "a", "b"), Options{Logger: quiet(), Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), `--auth-domain: the rules have the domains ["a" "b"]; hint:`) {
		t.Errorf("error %v", err)
	}
	var log syncBuffer
	s := authSettings(t, "a", "b")
	s.AuthDomain = "c"
	addrs := startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	if got := subRequest(t, addrs["auth"], "203.0.113.9"); got.StatusCode != 200 || !strings.Contains(log.String(), "a domain that has no rules") {
		t.Errorf("%s; log: %s", got.Status, log.String())
	}
}

func TestBadIdentityFileIsNamed(t *testing.T) {
	s := authSettings(t, "edge")
	s.Identity = filepath.Join(t.TempDir(), "absent.yaml")
	if err := Run(t.Context(), s, Options{Logger: quiet(), Out: io.Discard}); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("error %v", err)
	}
}

func TestAuthHint(t *testing.T) {
	var b strings.Builder
	printAuthHint(&b, nil, false)
	if b.Len() > 0 {
		t.Errorf("off: %s", b.String())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for scheme, tls := range map[string]bool{"http": false, "https": true} {
		b.Reset()
		printAuthHint(&b, l, tls)
		if !strings.Contains(b.String(), "-H 'X-Forwarded-For: 203.0.113.9' "+scheme+"://"+l.Addr().String()+"/auth/traefik\n") {
			t.Errorf("hint: %s", b.String())
		}
	}
}

// A budget above what gateways wait for is told of at start, with the number and what to do.
func TestABudgetAboveTheGatewaysPatienceIsTold(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	for budget, told := range map[time.Duration]bool{20 * time.Millisecond: false, 80 * time.Millisecond: false, 250 * time.Millisecond: true} {
		var log syncBuffer
		s := authSettings(t, "d")
		s.Store, s.StoreBudget = config.NewStoreURL("redis://"+server.Addr), budget
		_, stop := startUntil(t, s, slog.New(slog.NewTextHandler(&log, nil)))
		stop()
		text := log.String()
		if got := strings.Contains(text, "gateways may stop waiting") && strings.Contains(text, "store_budget=250ms") && strings.Contains(text, "--store-budget 80ms or less"); got != told {
			t.Errorf("with %v the log says\n%s", budget, text)
		}
	}
}

// TestStrangersAreCountedByWhatTheyShow: who asks as a gateway and is no peer is counted by
// what he shows where it counts, and may come in by a token there.
func TestStrangersAreCountedByWhatTheyShow(t *testing.T) {
	n := startSecured(t, nil, quiet(), transports[0])
	good := n.tokens["check"]
	for _, c := range []struct {
		field, value string
		status       int
		reason       string
	}{
		{"", "", 403, "no_token"},
		{callers.TokenHeader, n.tokens[n.unknown], 401, "unknown_token"},
		{callers.TokenHeader, "", 401, "malformed"},
		{callers.TokenHeader, n.tokens["explain"], 403, "wrong_scope"},
		{callers.TokenHeader, good, 200, ""},
		{"Authorization", "Bearer " + good, 403, "malformed"}, // it is the client's
		{"Authorization", "Bearer of something else", 403, "no_token"},
	} {
		before := n.refusedAt("auth")
		h := http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}, "X-Forwarded-Host": {"api.example.com"}, "X-Forwarded-For": {"198.51.100.7"}}
		if c.field != "" {
			h[c.field] = []string{c.value}
		}
		code, text := n.send(http.MethodGet, n.auth+"traefik", "", h)
		if code != c.status {
			t.Errorf("%s %q: %d %s", c.field, c.value, code, text)
		}
		if code == http.StatusForbidden && c.reason != "wrong_scope" && !strings.Contains(text, callers.TokenHeader) {
			t.Errorf("%s %q: the answer does not say where a token belongs: %s", c.field, c.value, text)
		}
		after := n.refusedAt("auth")
		for reason, count := range after {
			if want := before[reason]; (reason == c.reason) != (count == want+1) || count > want+1 {
				t.Errorf("%s %q: %d more are counted as %s", c.field, c.value, count-want, reason)
			}
		}
	}
}

// TestClientsOfAKnownGateway: the clients of a gateway that is known by a token, or by the socket
// at which it asks, have limits of their own, as those of one whose address is that of a peer.
func TestClientsOfAKnownGateway(t *testing.T) {
	token, lines, err := callers.NewToken("gateway", []string{"check"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for how, peers := range map[string]string{"token": "192.0.2.0/24", "socket": "192.0.2.0/24", "address": "127.0.0.0/8,192.0.2.0/24"} {
		t.Run(how, func(t *testing.T) {
			s, dir := authSettings(t, "edge"), t.TempDir()
			s.AuthPeers, s.Callers.Callers = peers, filepath.Join(dir, "callers.yaml")
			writeFile(t, s.Callers.Callers, "tokens:\n"+lines)
			client := &http.Client{Timeout: waits.Patience}
			if how == "socket" {
				path := filepath.Join(dir, "auth.sock")
				s.AuthAddr = "unix://" + path
				client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", path)
				}}
			}
			t.Cleanup(client.CloseIdleConnections)
			addr := startAuth(t, s, quiet())["auth"]
			if how == "socket" {
				addr = "socket"
			}
			left := func(forwardedFor string) string {
				r := must(http.NewRequest(http.MethodGet, "http://"+addr+"/auth/nginx", nil))
				r.Header = http.Header{"X-Original-Method": {"GET"}, "X-Original-Uri": {"/"}, "X-Forwarded-For": {forwardedFor}}
				if how == "token" {
					r.Header.Set(callers.TokenHeader, token)
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				return resp.Header.Get("X-Ratelimit-Remaining")
			}
			first := left("198.51.100.7")
			for _, c := range []struct {
				forwardedFor string
				own          bool
			}{{"198.51.100.8", true}, {"198.51.100.8, 203.0.113.1", true}, {"203.0.113.2, 192.0.2.9", true}, {"203.0.113.3, 198.51.100.7", false}} {
				if got := left(c.forwardedFor); first == "" || (got == first) != c.own {
					t.Errorf("%s: %s are left, and %s to a client that has not asked before", c.forwardedFor, got, first)
				}
			}
		})
	}
}

// refusedAt is how many were refused at a door, by reason.
func (n *secured) refusedAt(door string) map[string]int {
	n.t.Helper()
	_, text := n.send(http.MethodGet, n.ops+"/metrics", "", nil)
	counts := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^headgate_auth_refused_total\{door="`+door+`",reason="(\w+)"\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		count, err := strconv.Atoi(found[2])
		if err != nil {
			n.t.Fatal(err)
		}
		counts[found[1]] = count
	}
	if len(counts) == 0 {
		n.t.Fatalf("nothing is counted at %s", door)
	}
	return counts
}
