package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

const failureRules = `
domain: d
match: path
descriptors:
- {key: open, rate_limit: &l {window: 365d, requests_per_unit: 90, algorithm: fixed_window}}
- {key: bucket, rate_limit: {window: 365d, requests_per_unit: 90, algorithm: gcra}}
- {key: boundless, failure_mode: open_unbounded, rate_limit: *l}
- {key: falls, failure_mode: local, rate_limit: *l}
`

// passed asks a node n times for a key and returns how often it may pass. Each denial
// must be a 429 that is degraded, where the store is away.
func (n *node) passed(t *testing.T, body string, asks int, away bool) (passed int) {
	t.Helper()
	for range asks {
		a, err := n.check(body)
		if err != nil || (a.Degraded != "") != away || a.Allowed != (a.Status == http.StatusOK) || !a.Allowed && a.Status != http.StatusTooManyRequests {
			t.Fatalf("%+v, %v", a, err)
		}
		if a.Allowed {
			passed++
		}
	}
	return passed
}

// descriptorOf is a check of one key.
func descriptorOf(key, value string) string {
	return fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":%q,"value":%q}]}]}`, key, value)
}

// With Redis gone, each of three nodes lets pass what is left by what it last heard, and
// for a new key the limit; unless the rule wants no bound.
//
//promise:away-open
func TestE1OpenIsBoundedByNodesTimesLimit(t *testing.T) {
	t.Parallel()
	const nodes, quota = 3, 90
	redis := testserver.Redis(t, testserver.RedisConfig{})
	var fleet [nodes]*node
	args := []string{"--rules", writeRules(t, failureRules), "--store", redis.URL(), "--store-budget", "10s"}
	for i := range fleet {
		fleet[i] = startNode(t, args...)
	}
	for range 10 { // in turn, so that the nodes hear of 28, 29 and 30 hits
		for _, key := range []string{"open", "bucket"} {
			for _, n := range fleet {
				if n.passed(t, descriptorOf(key, "used"), 1, false) != 1 {
					t.Fatal("a hit below the limit is denied")
				}
			}
		}
	}
	redis.Kill()
	named := `{"key":"k","limit":90,"window_ms":31536000000}`
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"used":              {descriptorOf("open", "used"), 62 + 61 + 60},
		"used bucket":       {descriptorOf("bucket", "used"), 62 + 61 + 60},
		"new":               {descriptorOf("open", "new"), nodes * quota},
		"new bucket":        {descriptorOf("bucket", "new"), nodes * quota},
		"named by a caller": {named, nodes * quota},
		"boundless":         {descriptorOf("boundless", "x"), nodes * 200},
	} {
		passed := 0
		for _, n := range fleet {
			passed += n.passed(t, c.body, 200, true)
		}
		if passed != c.want {
			t.Errorf("%s: %d of %d pass without the store, want %d", name, passed, nodes*200, c.want)
		}
	}
	for _, n := range fleet {
		if got := n.metric(t, `headgate_decisions_total{outcome="open_denied",rule="d.open"}`); got < 2*(200-quota) {
			t.Errorf("%v decisions are open_denied", got)
		}
	}
	// What header fields tell is no count.
	resp, err := fleet[0].client.Post("http://headgate/v1/check", "application/json", strings.NewReader(descriptorOf("open", "new")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if h := resp.Header; resp.StatusCode != http.StatusTooManyRequests || h.Get("Retry-After") == "" || h.Get("RateLimit") != "" || h.Get("X-RateLimit-Remaining") != "" {
		t.Errorf("status %d with %v", resp.StatusCode, h)
	}
}

// Nodes that start while Redis is away go by the last known number of nodes; one that
// has none says that it takes itself to be alone.
//
//promise:fleet-size-known
func TestE1NodesThatStartInAnOutageKnowTheFleet(t *testing.T) {
	t.Parallel()
	const nodes, quota = 3, 90
	redis := testserver.Redis(t, testserver.RedisConfig{})
	rules := writeRules(t, failureRules)
	var states [nodes]string
	var fleet [nodes]*node
	start := func(i int) *node {
		return startNode(t, "--rules", rules, "--store", redis.URL(), "--store-budget", "10s", "--state-dir", states[i])
	}
	for i := range fleet {
		states[i] = t.TempDir()
		fleet[i] = start(i)
	}
	for i, n := range fleet {
		if err := n.process.Poll(func() error {
			if kept, err := os.ReadFile(filepath.Join(states[i], "nodes")); err != nil || string(kept) != "3\n" {
				return fmt.Errorf("%q is kept: %v", kept, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	redis.Kill()
	for i, n := range fleet {
		if i == 0 {
			n.process.Kill()
		} else {
			n.process.Terminate()
		}
	}
	passed := 0
	for i := range fleet {
		fleet[i] = start(i)
		passed += fleet[i].passed(t, descriptorOf("falls", "x"), quota, true)
		if out := fleet[i].process.Output(); !strings.Contains(out, "nodes=3") || !strings.Contains(out, "--state-dir") {
			t.Errorf("the log does not say by which number the node goes, and why:\n%s", out)
		}
	}
	if passed != quota {
		t.Errorf("%d of %d pass, want %d", passed, nodes*quota, quota)
	}
	alone := startNode(t, "--rules", rules, "--store", redis.URL(), "--store-budget", "10s")
	if passed := alone.passed(t, descriptorOf("falls", "x"), 2*quota, true); passed != quota {
		t.Errorf("%d of %d pass a node that knows of no other", passed, quota)
	}
	if err := alone.process.Poll(func() error {
		if out := alone.process.Output(); !strings.Contains(out, "takes itself to be alone") {
			return fmt.Errorf("the log does not say that the node takes itself to be alone:\n%s", out)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	told := startNode(t, "--rules", rules, "--store", redis.URL(), "--store-budget", "10s", "--state-dir", states[0], "--nodes", "9")
	if passed := told.passed(t, descriptorOf("falls", "x"), quota, true); passed != quota/9 {
		t.Errorf("%d pass with --nodes 9, want %d", passed, quota/9)
	}
}
