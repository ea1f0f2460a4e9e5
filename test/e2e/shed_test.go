package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// shedder is a `headgate proxy` that sheds, and where it serves.
type shedder struct {
	process      *testserver.Process
	clients, ops string
}

// startShedder runs a proxy in front of backend with these further arguments and
// waits until it serves.
func startShedder(t *testing.T, backend string, args ...string) *shedder {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 1000000}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &shedder{}
	s.process, err = testserver.StartProcess(exec.Command(path, append([]string{"proxy", "--to", backend, "--rules", rules,
		"--http-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--drain-delay", "0s", "--priority-paths", "POST /v1/charges=p0,/hold=p0",
	}, args...)...))
	if err != nil {
		t.Fatalf("start headgate: %v", err)
	}
	t.Cleanup(s.process.Terminate)
	if err := s.process.Poll(func() error {
		for line := range strings.Lines(s.process.Output()) {
			if n, _ := fmt.Sscanf(line, "headgate ready http=%s ops=%s", &s.clients, &s.ops); n == 2 {
				return nil
			}
		}
		return fmt.Errorf("not ready")
	}); err != nil {
		t.Fatalf("start headgate: %v\n%s", err, s.process.Output())
	}
	return s
}

// ask sends one request and returns its answer, whose body was read.
func (s *shedder) ask(t *testing.T, method, path, priority string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+s.clients+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if priority != "" {
		r.Header.Set("X-Priority", priority)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.process.Output())
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// metrics returns what the proxy shows operators.
func (s *shedder) metrics(t *testing.T) string {
	t.Helper()
	answer, err := http.Get("http://" + s.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestWorkerSheds (J4): while a backend holds on to all that a proxy may have in
// flight, critical requests pass it and all others hear 503, and when to
// come back; when the backend lets go, all pass again.
func TestWorkerSheds(t *testing.T) {
	const held = 6
	entered, leave := make(chan struct{}), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			entered <- struct{}{}
			<-leave
		}
		_, _ = io.WriteString(w, "served")
	}))
	defer backend.Close()
	s := startShedder(t, backend.URL, "--shed", "--shed-max-in-flight", fmt.Sprint(held), "--shed-max-critical", fmt.Sprint(2*held))
	ended := make(chan int, held)
	for range held {
		go func() {
			answer, err := http.Get("http://" + s.clients + "/hold")
			if err != nil {
				ended <- 0
				return
			}
			answer.Body.Close()
			ended <- answer.StatusCode
		}()
		<-entered
	}
	for _, c := range []struct {
		method, path, priority string
		want                   int
	}{
		{"GET", "/v1/orders", "test", 503},
		{"GET", "/v1/orders", "", 503},
		{"POST", "/v1/orders", "", 503},
		{"POST", "/v1/charges", "", 200},
		{"POST", "/v1/charges", "test", 503},
		{"HEAD", "/v1/orders", "", 503},
	} {
		answer, body := s.ask(t, c.method, c.path, c.priority)
		if answer.StatusCode != c.want {
			t.Errorf("%s %s %s: %d, want %d", c.method, c.path, c.priority, answer.StatusCode, c.want)
		}
		if c.want == 200 {
			continue
		}
		if retry := answer.Header.Get("Retry-After"); retry != "1" && retry != "2" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: header %v", c.method, c.path, answer.Header)
		}
		if overloaded := strings.Contains(body, "overloaded"); overloaded == (c.method == "HEAD") {
			t.Errorf("%s %s: body %q", c.method, c.path, body)
		}
	}
	close(leave)
	for range held {
		if got := <-ended; got != 200 {
			t.Errorf("status %d of a request that was held", got)
		}
	}
	awaitShedding(t, "room for test traffic", func() bool {
		answer, _ := s.ask(t, "GET", "/v1/orders", "test")
		return answer.StatusCode == 200
	})
}

// TestFleetSheds (J3): two proxies on one Redis that let pass far more than the
// fleet may shed test traffic, both of them, though one alone has hardly any; no
// critical request is shed; and without the Redis nothing is.
func TestFleetSheds(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	defer backend.Close()
	args := []string{"--store", redis.URL(), "--store-budget", "10s", "--fleet-capacity", "5"}
	busy, idle := startShedder(t, backend.URL, args...), startShedder(t, backend.URL, args...)
	sheds := func(s *shedder) bool {
		// Some for the others to share: the one that asks little is to see it too.
		for range 4 {
			if answer, _ := busy.ask(t, "POST", "/v1/charges", ""); answer.StatusCode != 200 {
				t.Errorf("a critical request got %d", answer.StatusCode)
			}
		}
		answer, _ := s.ask(t, "GET", "/v1/orders", "test")
		return answer.StatusCode == 503
	}
	awaitShedding(t, "test traffic shed by the busy proxy", func() bool { return sheds(busy) })
	awaitShedding(t, "test traffic shed by the idle proxy, which shows the usage of its fleet", func() bool {
		return sheds(idle) && strings.Contains(idle.metrics(t), "headgate_fleet_usage_known 1")
	})
	redis.Kill()
	awaitShedding(t, "test traffic let pass without Redis", func() bool {
		answer, _ := busy.ask(t, "GET", "/v1/orders", "test")
		return answer.StatusCode == 200 && strings.Contains(busy.metrics(t), "headgate_fleet_usage_known 0")
	})
}

// awaitShedding waits until something is so.
func awaitShedding(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !reached(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
