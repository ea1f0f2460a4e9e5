package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// node is one headgate process, asked over a unix socket.
type node struct {
	socket  string
	process *testserver.Process
	client  *http.Client
}

// answer is what POST /v1/check says, and its status.
type answer struct {
	Status    int
	Allowed   bool   `json:"allowed"`
	Limit     int    `json:"limit"`
	Remaining int    `json:"remaining"`
	Degraded  string `json:"degraded"`
}

// startNode runs `headgate serve` with these further arguments and waits until
// it is healthy.
func startNode(t *testing.T, args ...string) *node {
	t.Helper()
	n := launch(t, args...)
	if err := n.process.Poll(func() error { return n.health(http.StatusOK) }); err != nil {
		t.Fatalf("start headgate: %v\n%s", err, n.process.Output())
	}
	return n
}

// at returns where a node listens, by the name that it gives it in the line that says it
// is ready.
func (n *node) at(t *testing.T, name string) string {
	t.Helper()
	line := regexp.MustCompile(`headgate ready .*\b` + name + `=(\S+)`)
	var found []string
	if err := n.process.Poll(func() error {
		if found = line.FindStringSubmatch(n.process.Output()); found == nil {
			return fmt.Errorf("no address of %s", name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found[1]
}

// scrape returns what the node shows at /metrics.
func (n *node) scrape(t *testing.T) string {
	t.Helper()
	return n.shown(t, n.at(t, "ops"), "/metrics", "")
}

// shown returns what stands at path of an address of a node, for who has a token, "" for
// nobody.
func (n *node) shown(t *testing.T, addr, path, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%.500s", path, resp.Status, err, body)
	}
	return string(body)
}

// health returns nil when n says of itself what is wanted.
func (n *node) health(status int) error {
	resp, err := n.client.Get("http://headgate/healthcheck")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != status {
		return fmt.Errorf("healthcheck: %s", resp.Status)
	}
	return nil
}

// launch runs `headgate serve` with these further arguments.
func launch(t *testing.T, args ...string) *node {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: the path of a socket must be short.
	dir, err := os.MkdirTemp("", "hg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "http")
	n := &node{socket: socket, client: &http.Client{Timeout: patience, Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	t.Cleanup(n.client.CloseIdleConnections)
	n.process, err = testserver.StartProcess(exec.Command(path, append([]string{"serve",
		"--http-addr", "unix://" + socket, "--grpc-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0",
	}, args...)...))
	if err != nil {
		t.Fatalf("start headgate: %v", err)
	}
	t.Cleanup(n.process.Terminate)
	return n
}

func (n *node) check(body string) (answer, error) {
	var a answer
	resp, err := n.client.Post("http://headgate/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	if resp.StatusCode == http.StatusServiceUnavailable {
		a.Degraded = "closed"
		return a, nil
	}
	return a, json.NewDecoder(resp.Body).Decode(&a)
}

// checkAll is check of several in one call.
func (n *node) checkAll(checks []string) ([]answer, error) {
	resp, err := n.client.Post("http://headgate/v1/check", "application/json", strings.NewReader(`{"checks":[`+strings.Join(checks, ",")+`]}`))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var all struct{ Results []answer }
	err = json.NewDecoder(resp.Body).Decode(&all)
	return all.Results, err
}

// Three processes with sixteen callers each ask about one key of one Redis: as
// many as the limit are admitted, not one more and not one fewer.
//
//promise:global-limits
func TestFleetSharesOneCount(t *testing.T) {
	const nodes, callers, asks, quota = 3, 16, 20, 300
	redis := testserver.Redis(t, testserver.RedisConfig{})
	var fleet [nodes]*node
	for i := range fleet {
		fleet[i] = startNode(t, "--store", redis.URL(), "--store-budget", "10s")
	}
	for _, algorithm := range []string{"sliding_window", "fixed_window", "sub_windows", "sliding_log", "token_bucket", "gcra"} {
		t.Run(algorithm, func(t *testing.T) {
			// A year refills a bucket by one hit every 29 hours.
			body := fmt.Sprintf(`{"key":"%s","limit":%d,"window_ms":%d,"hits":1,"algorithm":"%s"}`,
				algorithm, quota, (365 * 24 * time.Hour).Milliseconds(), algorithm)
			var admitted, denied, wrong atomic.Int64
			var wg sync.WaitGroup
			for _, n := range fleet {
				for range callers {
					wg.Go(func() {
						for range asks {
							a, err := n.check(body)
							switch {
							case err != nil || a.Degraded != "":
								wrong.Add(1)
							case a.Allowed && a.Status == http.StatusOK:
								admitted.Add(1)
							case !a.Allowed && a.Status == http.StatusTooManyRequests:
								denied.Add(1)
							default:
								wrong.Add(1)
							}
						}
					})
				}
			}
			wg.Wait()
			if admitted.Load() != quota || denied.Load() != nodes*callers*asks-quota || wrong.Load() != 0 {
				t.Errorf("%d admitted, %d denied, %d degraded or failed; want %d, %d, 0",
					admitted.Load(), denied.Load(), wrong.Load(), quota, nodes*callers*asks-quota)
			}
		})
	}
}

// With Redis frozen, killed and back, every call is answered by the failure mode
// of its rule, and decided again soon after.
func TestStoreFailureAndHealing(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	const text = `
domain: d
match: path
descriptors:
- {key: open, rate_limit: {unit: minute, requests_per_unit: 1000000}}
- {key: closed, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 1000000}}
`
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := testserver.Redis(t, testserver.RedisConfig{})
	n := startNode(t, "--rules", rules, "--store", redis.URL(), "--store-budget", "200ms")
	ask := func(key string) answer {
		t.Helper()
		a, err := n.check(`{"domain":"d","descriptors":[{"entries":[{"key":"` + key + `","value":"1"}]}]}`)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		return a
	}
	healthy := func(when string) {
		t.Helper()
		if err := n.process.Poll(func() error {
			if a := ask("closed"); a.Status != http.StatusOK || a.Degraded != "" {
				return fmt.Errorf("%+v", a)
			}
			return nil
		}); err != nil {
			t.Fatalf("%s: still %v", when, err)
		}
	}
	degraded := func(when string, reasons ...string) {
		t.Helper()
		for range 5 {
			a := ask("open")
			if a.Status != http.StatusOK || !a.Allowed || !slices.Contains(reasons, a.Degraded) {
				t.Errorf("%s: open answers %+v, want allowed and one of %v", when, a, reasons)
			}
			if a := ask("closed"); a.Status != http.StatusServiceUnavailable {
				t.Errorf("%s: closed answers %d, want 503", when, a.Status)
			}
		}
	}
	healthy("at first")
	redis.Stop()
	degraded("frozen", "store_timeout", "store_unavailable", "store_overloaded", "store_breaker")
	redis.Continue()
	healthy("thawed")
	redis.Kill()
	degraded("killed", "store_unavailable", "store_timeout", "store_breaker")
	redis.Restart()
	healthy("restarted")
}
