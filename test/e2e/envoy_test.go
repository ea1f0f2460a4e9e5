// Package e2e runs the headgate command and the servers that it works with as
// real processes.
package e2e

import (
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Statistics of Envoy's filter about the backend of the example.
const (
	askedOK      = "cluster.backend.ratelimit.ok"
	askedOver    = "cluster.backend.ratelimit.over_limit"
	askedFailed  = "cluster.backend.ratelimit.error"
	askedAllowed = "cluster.backend.ratelimit.failure_mode_allowed"
)

//promise:works-with
func TestEnvoyAllowsThenDenies(t *testing.T) { overEach(t, testEnvoyAllowsThenDenies) }

func testEnvoyAllowsThenDenies(t *testing.T, transport string) {
	e := startEdge(t, transport)
	const policies = `, 5;w=60;name="orders-per-key", 30;w=60;name="per-address"`
	for i := range 5 {
		resp := e.get("/orders/1", "alice")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("request %d: %s", i+1, resp.Status)
		}
		if got := resp.Header.Get("x-ratelimit-limit"); got != "5"+policies {
			t.Errorf("request %d: x-ratelimit-limit: %s", i+1, got)
		}
		if got := resp.Header.Get("x-ratelimit-remaining"); got != strconv.Itoa(4-i) {
			t.Errorf("request %d: x-ratelimit-remaining: %s", i+1, got)
		}
		if got := resp.Header.Get("retry-after"); got != "" {
			t.Errorf("request %d: retry-after: %s", i+1, got)
		}
	}

	resp := e.get("/orders/1", "alice")
	if resp.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("sixth request: %s", resp.Status)
	}
	if got := resp.Header.Get("x-ratelimit-limit"); got != "5"+policies {
		t.Errorf("x-ratelimit-limit: %s", got)
	}
	if got := resp.Header.Get("x-ratelimit-remaining"); got != "0" {
		t.Errorf("x-ratelimit-remaining: %s", got)
	}
	// A sliding window gives room for one more within two windows.
	retry, err := strconv.Atoi(resp.Header.Get("retry-after"))
	if err != nil || retry < 1 || retry > 120 {
		t.Errorf("retry-after: %q", resp.Header.Get("retry-after"))
	}
	// Envoy tells the exact time, and Headgate one that is up to a tenth longer.
	if reset, err := strconv.Atoi(resp.Header.Get("x-ratelimit-reset")); err != nil || retry < reset || retry > reset+reset/10 {
		t.Errorf("x-ratelimit-reset: %s, but retry-after: %d", resp.Header.Get("x-ratelimit-reset"), retry)
	}
	if got := resp.Header.Get("x-envoy-ratelimited"); got != "true" {
		t.Errorf("x-envoy-ratelimited: %q", got)
	}

	// Another key has its own budget, and another route another rule.
	if resp := e.get("/orders/1", "bob"); resp.StatusCode != http.StatusOK || resp.Header.Get("x-ratelimit-remaining") != "4" {
		t.Errorf("another key: %s, %v", resp.Status, resp.Header)
	}
	if resp := e.get("/", "alice"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("x-ratelimit-limit"), "30, 30;w=60") {
		t.Errorf("another route: %s, %v", resp.Status, resp.Header)
	}
	if ok, over, failed := e.envoy.Counter(askedOK), e.envoy.Counter(askedOver), e.envoy.Counter(askedFailed); ok != 7 || over != 1 || failed != 0 {
		t.Errorf("envoy counted %d ok, %d over limit, %d errors; want 7, 1, 0", ok, over, failed)
	}
}

// Each route asks about its own descriptors; the address of the caller counts
// over all routes that name it.
func TestEnvoyDescriptorsByRoute(t *testing.T) { overEach(t, testEnvoyDescriptorsByRoute) }

func testEnvoyDescriptorsByRoute(t *testing.T, transport string) {
	e := startEdge(t, transport)
	// Without a key the first descriptor of /orders is left out.
	if got := e.get("/orders", "").Header.Get("x-ratelimit-limit"); got != `30, 30;w=60;name="per-address"` {
		t.Errorf("/orders without a key: x-ratelimit-limit: %s", got)
	}
	if got := e.get("/search", "alice").Header.Get("x-ratelimit-limit"); got != `10, 10;w=1;name="search"` {
		t.Errorf("/search: x-ratelimit-limit: %s", got)
	}
	// All routes count on one address: the 30 are shared.
	resp := e.get("/anything", "")
	if got := resp.Header.Get("x-ratelimit-remaining"); got != "28" {
		t.Errorf("/anything: x-ratelimit-remaining: %s, want 28", got)
	}
	for range 28 {
		if resp := e.get("/anything", ""); resp.StatusCode != http.StatusOK {
			t.Fatalf("within the limit: %s", resp.Status)
		}
	}
	if resp := e.get("/other", ""); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("31st request of the address: %s", resp.Status)
	}
	if resp := e.get("/orders", "carol"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("/orders with a fresh key from a spent address: %s", resp.Status)
	}
}

func TestEnvoyShadowRule(t *testing.T) { overEach(t, testEnvoyShadowRule) }

func testEnvoyShadowRule(t *testing.T, transport string) {
	e := startEdge(t, transport)
	for i := range 3 {
		resp := e.get("/beta", "")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("request %d: %s", i+1, resp.Status)
		}
		if got := resp.Header.Get("x-ratelimit-limit"); got != `1, 1;w=60;name="beta"` {
			t.Errorf("request %d: x-ratelimit-limit: %s", i+1, got)
		}
		if got := resp.Header.Get("x-ratelimit-remaining"); got != "0" {
			t.Errorf("request %d: x-ratelimit-remaining: %s", i+1, got)
		}
	}
	if over := e.envoy.Counter(askedOver); over != 0 {
		t.Errorf("envoy counted %d over limit", over)
	}
}

// With Headgate away Envoy lets requests pass; when it is back it decides again.
func TestEnvoyFailsOpen(t *testing.T) { overEach(t, testEnvoyFailsOpen) }

func testEnvoyFailsOpen(t *testing.T, transport string) {
	t.Parallel()
	e := startEdge(t, transport)
	for range 5 {
		e.get("/orders", "alice")
	}
	if resp := e.get("/orders", "alice"); resp.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("sixth request: %s", resp.Status)
	}

	e.headgate.Terminate()
	for range 10 {
		resp := e.get("/orders", "alice")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("x-ratelimit-limit") != "" {
			t.Errorf("without headgate: %s, %v", resp.Status, resp.Header)
		}
	}
	if n := e.envoy.Counter(askedAllowed); n != 10 {
		t.Errorf("envoy let %d requests pass for failure, want 10", n)
	}

	e.startHeadgate()
	e.eventually("a decision after the restart", func() bool {
		return e.get("/orders", "dave").Header.Get("x-ratelimit-limit") != ""
	})
	e.eventually("a denial after the restart", func() bool {
		return e.get("/orders", "dave").StatusCode == http.StatusTooManyRequests
	})
}

// Rules change under traffic, for the better and for the worse, and no request
// notices but by its limit.
func TestEnvoyReloadUnderTraffic(t *testing.T) { overEach(t, testEnvoyReloadUnderTraffic) }

func testEnvoyReloadUnderTraffic(t *testing.T, transport string) {
	e := startEdge(t, transport)
	const searchLimit = "unit: second\n      requests_per_unit: 10\n"
	example := readFile(t, filepath.Join(exampleDir, "rules.yaml"))
	if strings.Count(example, searchLimit) != 1 {
		t.Fatalf("rules.yaml holds %q not once", searchLimit)
	}
	rules := func(quota string) string {
		return strings.Replace(example, searchLimit, "unit: hour\n      requests_per_unit: "+quota+"\n", 1)
	}
	limitIs := func(quota string) func() bool {
		return func() bool { return strings.HasPrefix(e.get("/search", "").Header.Get("x-ratelimit-limit"), quota+",") }
	}
	e.writeRules(rules("1000000"))
	e.eventually("the first rules are in force", limitIs("1000000"))

	traffic := e.startTraffic("/search")
	e.writeRules(rules("2000000"))
	e.eventually("the new rules are in force", limitIs("2000000"))
	e.writeRules("domain: edge\ndescriptors: [")
	e.eventually("the bad file was refused", func() bool { return strings.Contains(e.headgate.Output(), "rules.yaml:") })
	e.eventually("traffic after the bad file", traffic.flows())
	if !limitIs("2000000")() {
		t.Error("a bad file changed the rules in force")
	}
	e.writeRules(rules("3000000"))
	e.eventually("the rules after the bad file are in force", limitIs("3000000"))
	traffic.stop()

	if n := traffic.failed.Load(); n != 0 {
		t.Errorf("%d of %d requests failed, the first with %v", n, traffic.passed.Load()+n, traffic.failure.Load())
	}
	if n := e.envoy.Counter(askedFailed); n != 0 {
		t.Errorf("envoy counted %d errors of headgate", n)
	}
}

// traffic is a stream of requests.
type traffic struct {
	passed, failed atomic.Int64
	failure        atomic.Value // of string
	stop           func()
}

// startTraffic asks for path over and over until it is stopped.
func (e *edge) startTraffic(path string) *traffic {
	tr := new(traffic)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
			}
			resp, err := e.try(path, "")
			switch {
			case err != nil:
				tr.failed.Add(1)
				tr.failure.CompareAndSwap(nil, err.Error())
			case resp.StatusCode != http.StatusOK:
				tr.failed.Add(1)
				tr.failure.CompareAndSwap(nil, resp.Status)
			default:
				tr.passed.Add(1)
			}
		}
	}()
	stopped := false
	tr.stop = func() {
		if !stopped {
			stopped = true
			close(quit)
			<-done
		}
	}
	e.t.Cleanup(tr.stop)
	return tr
}

// flows returns a condition: fifty more requests have passed.
func (tr *traffic) flows() func() bool {
	goal := tr.passed.Load() + 50
	return func() bool { return tr.passed.Load() >= goal }
}
