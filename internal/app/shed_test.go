package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
)

// shedSettings is what the command line makes of the flags of overload, off.
func shedSettings() config.Shedding {
	return config.Shedding{ShedMaxInFlight: 1000, FleetName: "test", PriorityHeader: "X-Priority"}
}

// proxySettings limits by method in front of a backend: generously, and DELETE
// is critical.
func proxySettings(t *testing.T, backend string) config.Proxy {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := config.Proxy{To: backend, HTTPAddr: "127.0.0.1:0", Settings: shared(), Shedding: shedSettings(), MaxHeader: 64 << 10}
	s.Identity = write("identity.yaml", "descriptors: [{entries: [method]}]\n")
	s.Rules = write("rules.yaml", `
domain: api
descriptors:
- {key: method, rate_limit: {unit: minute, requests_per_unit: 100000}}
- {key: method, value: DELETE, priority: critical, rate_limit: {unit: minute, requests_per_unit: 100000}}
`)
	return s
}

// runProxy starts RunProxy and returns the addresses for clients and operators.
func runProxy(t *testing.T, s config.Proxy) (clients, ops string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := RunProxy(ctx, s, Options{Logger: quiet(), Out: write})
		write.CloseWithError(io.EOF)
		ended <- err
	}()
	lines := bufio.NewScanner(read)
	if !lines.Scan() {
		cancel()
		t.Fatalf("not ready: %v", <-ended)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	if _, err := fmt.Sscanf(lines.Text(), "headgate ready http=%s ops=%s", &clients, &ops); err != nil {
		t.Fatalf("%q: %v", lines.Text(), err)
	}
	return "http://" + clients, "http://" + ops
}

// send returns the status of one request.
func send(t *testing.T, method, url, priority string) int {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if priority != "" {
		r.Header.Set("X-Priority", priority)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// TestJ4ProxyShedsByPriority: a proxy whose backend holds on to what it may have
// in flight sheds all but what a rule, a path or a trusted peer calls critical,
// behind the limits and with the figures in its metrics.
func TestJ4ProxyShedsByPriority(t *testing.T) {
	const held = 4
	entered, leave := make(chan struct{}), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/hold") {
			entered <- struct{}{}
			<-leave
		}
	}))
	defer backend.Close()
	s := proxySettings(t, backend.URL)
	s.Shed, s.ShedMaxInFlight, s.ShedMaxCritical = true, held, 2*held
	s.PriorityPaths = []string{"/hold=p0", "POST /v1/charges=p0"}
	clients, ops := runProxy(t, s)
	for range held {
		go func() {
			if answer, err := http.Get(clients + "/hold"); err == nil {
				answer.Body.Close()
			}
		}()
		<-entered
	}
	for _, c := range []struct {
		ask, priority string
		want          int
	}{
		{"GET /v1/orders", "", 503},
		{"GET /v1/orders", "test", 503},
		{"POST /v1/orders", "", 503},
		{"GET /v1/orders", "critical", 503}, // from nobody who is trusted
		{"POST /v1/charges", "", 200},
		{"DELETE /v1/orders", "", 200}, // by its rule
		{"DELETE /v1/orders", "p2", 503},
	} {
		method, path, _ := strings.Cut(c.ask, " ")
		if got := send(t, method, clients+path, c.priority); got != c.want {
			t.Errorf("%s as %q: %d, want %d", c.ask, c.priority, got, c.want)
		}
	}
	_, metrics := get(t, ops+"/metrics")
	for _, want := range []string{
		`headgate_shed_total{priority="P1",reason="worker"} 1`,
		`headgate_shed_total{priority="P2",reason="worker"} 3`,
		`headgate_shed_total{priority="P3",reason="worker"} 1`,
		`headgate_shed_admitted_total{priority="P0"} 6`,
		`headgate_worker_in_flight{class="critical"} 4`,
		`headgate_worker_admits_up_to{priority="P0"} 8`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(metrics, "headgate_fleet_capacity") {
		t.Error("metrics show a fleet that has no capacity")
	}
	close(leave)
}

// TestTrustedPeersRaise: behind a proxy that is trusted the header raises.
func TestTrustedPeersRaise(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	s := proxySettings(t, backend.URL)
	s.Shed, s.TrustedProxies = true, "127.0.0.0/8"
	clients, ops := runProxy(t, s)
	if got := send(t, "GET", clients+"/", "critical"); got != 200 {
		t.Errorf("status %d", got)
	}
	if _, metrics := get(t, ops+"/metrics"); !strings.Contains(metrics, `headgate_shed_admitted_total{priority="P0"} 1`) {
		t.Error("a trusted peer's critical request counts as another one")
	}
}

// TestJ3ProxyKnowsItsFleet: a proxy that lets pass more than the fleet may sheds
// test traffic, and no critical request.
func TestJ3ProxyKnowsItsFleet(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	s := proxySettings(t, backend.URL)
	s.FleetCapacity = 5 // requests per second: less than any machine sends
	clients, ops := runProxy(t, s)
	for deadline := time.Now().Add(60 * time.Second); ; {
		if got := send(t, "DELETE", clients+"/", ""); got != 200 {
			t.Errorf("a critical request got %d", got)
		}
		if send(t, "GET", clients+"/", "test") == 503 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is shed far above the capacity")
		}
	}
	_, metrics := get(t, ops+"/metrics")
	for _, want := range []string{
		"headgate_fleet_usage_known 1", "headgate_fleet_capacity_requests_per_second 5",
		`headgate_shed_total{priority="P3",reason="fleet"} 1`, `headgate_shed_total{priority="P0",reason="fleet"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestSheddingIsRefused(t *testing.T) {
	for want, change := range map[string]func(*config.Shedding){
		"--priority-paths: overload: ":                func(s *config.Shedding) { s.PriorityPaths = []string{"/v1"} },
		"--priority-paths: overload: classifier: pat": func(s *config.Shedding) { s.PriorityPaths = []string{"/a//b=p1"} },
		"--priority-header: ":                         func(s *config.Shedding) { s.PriorityHeader = "X Priority" },
	} {
		s := proxySettings(t, "http://localhost")
		s.Shed = true
		change(&s.Shedding)
		if err := RunProxy(t.Context(), s, Options{Logger: quiet(), Out: io.Discard}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
