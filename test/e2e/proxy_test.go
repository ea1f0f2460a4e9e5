package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// proxyProcess is one `headgate proxy`.
type proxyProcess struct {
	*testserver.Process
	t         *testing.T
	addr, ops string
	client    *http.Client
}

var readyLine = regexp.MustCompile(`headgate ready http=(\S+) ops=(\S+)`)

// startProxy runs `headgate proxy` before the backend by these rules, and waits
// until it serves.
func startProxy(t *testing.T, backend http.Handler, rules string, args ...string) *proxyProcess {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	b := httptest.NewServer(backend)
	t.Cleanup(b.Close)
	p := &proxyProcess{t: t, client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(p.client.CloseIdleConnections)
	p.Process, err = testserver.StartProcess(exec.Command(path, append([]string{"proxy", "--to", b.URL,
		"--rules", writeRules(t, rules), "--http-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0",
	}, args...)...))
	if err != nil {
		t.Fatalf("start headgate: %v", err)
	}
	t.Cleanup(p.Terminate)
	if err := p.Poll(func() error {
		found := readyLine.FindStringSubmatch(p.Output())
		if found == nil {
			return errors.New("not ready")
		}
		p.addr, p.ops = found[1], found[2]
		return nil
	}); err != nil {
		t.Fatalf("start headgate: %v\n%s", err, p.Output())
	}
	return p
}

// get asks the proxy for a path with an API key, "" for none.
func (p *proxyProcess) get(path, key string) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequest("GET", "http://"+p.addr+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	res, err := p.client.Do(r)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.Output())
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res, string(text)
}

func (p *proxyProcess) metrics() string {
	p.t.Helper()
	res, err := p.client.Get("http://" + p.ops + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// identityFile writes a file of who asks, with a key for its hashes beside it.
func identityFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "identity.yaml")
	for name, text := range map[string]string{
		filepath.Join(dir, "hash.key"): "0123456789abcdef0123456789abcdef",
		path: `hash_key_file: hash.key
api_key: {headers: [X-API-Key]}
descriptors:
  - entries: [{first: [api_key, remote_address]}]
  - {entries: [remote_address], when_unverified: true}
`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestProxyLimitsByKey: two proxies with one Redis share the count of a key, tell
// clients so, and pass on what the backend says.
func TestProxyLimitsByKey(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "999999") // of its own
		fmt.Fprint(w, r.URL.Path, " ", r.Header.Get("X-Forwarded-For"))
	})
	rules := "domain: shop\nmatch: path\ndescriptors:\n- {key: api_key, rate_limit: {window: 365d, requests_per_unit: 4, algorithm: fixed_window}}\n"
	args := []string{"--store", redis.URL(), "--store-budget", "10s", "--identity", identityFile(t)}
	proxies := []*proxyProcess{startProxy(t, backend, rules, args...), startProxy(t, backend, rules, args...)}
	for i := range 4 {
		res, text := proxies[i%2].get("/orders", "k1")
		if res.StatusCode != 200 || text != "/orders 127.0.0.1" || res.Header.Get("X-RateLimit-Limit") != "4" ||
			res.Header.Get("X-RateLimit-Remaining") != fmt.Sprint(3-i) || len(res.Header["X-Ratelimit-Limit"]) != 1 ||
			!strings.HasPrefix(res.Header.Get("RateLimit"), fmt.Sprintf(`"shop.api_key";r=%d;t=`, 3-i)) {
			t.Errorf("request %d: %d %q %v", i, res.StatusCode, text, res.Header)
		}
	}
	for _, p := range proxies {
		res, text := p.get("/orders", "k1")
		if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" || res.Header.Get("Cache-Control") != "no-store" || !strings.Contains(text, `"code":"RATE_LIMITED"`) {
			t.Errorf("over the limit: %d %q %v", res.StatusCode, text, res.Header)
		}
		if res, _ := p.get("/orders", "k2"); res.StatusCode != 200 {
			t.Errorf("another key: %d", res.StatusCode)
		}
		if text := p.metrics(); !strings.Contains(text, `headgate_proxy_requests_total{outcome="denied"} 1`) || !strings.Contains(text, `headgate_proxy_requests_total{outcome="answered"} 3`) {
			t.Error("metrics do not count what happened")
		}
	}
}

// TestProxyConcurrency: of one address no more than twenty are at the backend at a
// time, and slots come back.
func TestProxyConcurrency(t *testing.T) {
	const slots, callers = 20, 32
	redis := testserver.Redis(t, testserver.RedisConfig{})
	var inside, most atomic.Int64
	open := make(chan struct{})
	backend := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := inside.Add(1)
		defer inside.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		select {
		case <-open:
		case <-r.Context().Done():
		}
	})
	p := startProxy(t, backend, "domain: shop\nmatch: path\ndescriptors:\n- {key: remote_address, concurrency: 20}\n", "--store", redis.URL(), "--store-budget", "10s")
	var denied, passed atomic.Int64
	var wg sync.WaitGroup
	ask := func() {
		res, err := p.client.Get("http://" + p.addr + "/")
		if err != nil {
			t.Error(err)
			return
		}
		res.Body.Close()
		switch {
		case res.StatusCode == 200:
			passed.Add(1)
		case res.StatusCode == 429 && res.Header.Get("Retry-After") == "1":
			denied.Add(1)
		default:
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
	}
	for range callers {
		wg.Go(ask)
	}
	if err := p.Poll(func() error {
		if inside.Load() == slots && denied.Load() == callers-slots {
			return nil
		}
		return fmt.Errorf("%d inside, %d denied", inside.Load(), denied.Load())
	}); err != nil {
		t.Fatal(err)
	}
	close(open)
	wg.Wait()
	if passed.Load() != slots || most.Load() != slots {
		t.Errorf("%d passed, %d at a time", passed.Load(), most.Load())
	}
	if err := p.Poll(func() error {
		res, _ := p.get("/", "")
		if res.StatusCode != 200 {
			return fmt.Errorf("%d after all have gone", res.StatusCode)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestProxyDrainsUnderLoad: not one request fails while it ends, a slow one
// finishes, and a websocket is asked to go.
func TestProxyDrainsUnderLoad(t *testing.T) {
	slow, finish := make(chan struct{}), make(chan struct{})
	var served atomic.Int64
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			served.Add(1)
		case "/slow":
			close(slow)
			<-finish
			io.WriteString(w, "finished")
		case "/ws":
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			rw.Flush()
			io.Copy(conn, rw)
		}
	})
	p := startProxy(t, backend, "domain: shop\ndescriptors:\n- {key: remote_address, rate_limit: {unlimited: true}}\n", "--drain-delay", "1s", "--drain-timeout", "30s")
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	reader := bufio.NewReader(conn)
	if res, err := http.ReadResponse(reader, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("%v %v", res, err)
	}
	finished := make(chan string, 1)
	go func() {
		_, text := p.get("/slow", "")
		finished <- text
	}()
	<-slow
	var asked, failed atomic.Int64
	var closed sync.Once
	gone := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				res, err := p.client.Get("http://" + p.addr + "/")
				if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
					// It does not listen, or the kernel had a connection that nobody
					// had taken yet: a load balancer goes elsewhere.
					closed.Do(func() { close(gone) })
					return
				}
				asked.Add(1)
				if err != nil || res.StatusCode != 200 {
					failed.Add(1)
					t.Errorf("%v %v", res, err)
				}
				if err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}
		})
	}
	if err := p.Poll(func() error {
		if asked.Load() < 100 {
			return errors.New("no load yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-gone
	close(finish)
	if text := <-finished; text != "finished" {
		t.Errorf("the slow request got %q", text)
	}
	goodbye := make([]byte, 4)
	if _, err := io.ReadFull(reader, goodbye); err != nil || string(goodbye) != "\x88\x02\x03\xe9" {
		t.Errorf("the websocket was told %x, %v", goodbye, err)
	}
	conn.Close()
	wg.Wait()
	select {
	case <-p.Ended():
	case <-time.After(patience):
		t.Fatalf("it does not end\n%s", p.Output())
	}
	if strings.Contains(p.Output(), "cut off") {
		t.Errorf("something was cut off:\n%s", p.Output())
	}
	if failed.Load() > 0 || served.Load() != asked.Load() {
		t.Errorf("%d requests, %d failed, the backend served %d", asked.Load(), failed.Load(), served.Load())
	}
}

// TestProxyBounds: what no client should send, and what nobody answers.
func TestProxyBounds(t *testing.T) {
	t.Parallel()
	p := startProxy(t, http.NotFoundHandler(), "domain: shop\ndescriptors:\n- {key: remote_address, rate_limit: {unlimited: true}}\n",
		"--max-header", "8KiB", "--max-body", "1KiB", "--body", "problem")
	for _, tt := range []struct{ name, request, status string }{
		{"large header", "GET / HTTP/1.1\r\nHost: h\r\nX-Large: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431"},
		{"large body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1025\r\n\r\n", "413"},
		{"two lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "400"},
	} {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		go io.WriteString(conn, tt.request)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if _, status, _ := strings.Cut(line, " "); err != nil || !strings.HasPrefix(status, tt.status) {
			t.Errorf("%s: %q, %v", tt.name, line, err)
		}
		conn.Close()
	}
	// A header that never ends: the proxy hangs up.
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ")
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a header may take for ever")
	}
}

// TestProxyTLS: over TLS, HTTP/2 is spoken too.
func TestProxyTLS(t *testing.T) {
	certificates := testserver.NewCertificates(t)
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto"))
	})
	p := startProxy(t, backend, "domain: shop\nmatch: path\ndescriptors:\n- {key: remote_address, rate_limit: {window: 365d, requests_per_unit: 2, algorithm: fixed_window}}\n",
		"--tls-cert", certificates.CertFile, "--tls-key", certificates.KeyFile)
	for i, tt := range []struct {
		h2     bool
		proto  int
		status int
	}{{true, 2, 200}, {false, 1, 200}, {true, 2, 429}} {
		transport := &http.Transport{TLSClientConfig: certificates.Client(), ForceAttemptHTTP2: tt.h2}
		res, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + p.addr + "/")
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Output())
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		transport.CloseIdleConnections()
		if res.StatusCode != tt.status || res.ProtoMajor != tt.proto || tt.status == 200 && string(text) != "https" {
			t.Errorf("request %d: %d %s %q", i, res.StatusCode, res.Proto, text)
		}
	}
}
