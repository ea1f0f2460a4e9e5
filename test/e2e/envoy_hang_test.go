package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// envoyWaits finds how long the rate limit filter of an example waits for an answer.
var envoyWaits = regexp.MustCompile(`(?m)^ +timeout: (0\.\d+s)\b`)

// waitOf returns how long the rate limit filter of an example waits.
func waitOf(t *testing.T, config string) time.Duration {
	t.Helper()
	found := envoyWaits.FindAllStringSubmatch(config, -1)
	if len(found) != 1 {
		t.Fatalf("the example says %d times how long the filter waits, want once: %q", len(found), found)
	}
	wait, err := time.ParseDuration(found[0][1])
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

// While the store hangs, a rule that fails closed denies although Envoy itself fails open:
// Envoy waits for longer than Headgate waits for its store. Both times are 25 times those of
// the example and of the default budget, because this is about which of the two is longer, on
// a busy machine too.
func TestEnvoyDeniesWhileTheStoreHangs(t *testing.T) { overEach(t, testEnvoyDeniesWhileTheStoreHangs) }

func testEnvoyDeniesWhileTheStoreHangs(t *testing.T, transport string) {
	t.Parallel()
	const slower, budget = 25, "500ms"
	redis := testserver.Redis(t, testserver.RedisConfig{})
	wait := slower * waitOf(t, readFile(t, filepath.Join(exampleDir, "envoy.yaml")))
	e := startEdgeThatWaits(t, wait, transport, "--store", redis.URL(), "--store-budget", budget, "--failure-mode", "closed")
	e.eventually("the store decides", func() bool {
		resp := e.get("/search", "")
		return resp.StatusCode == http.StatusOK && resp.Header.Get("x-ratelimit-limit") != ""
	})
	before := e.envoy.Counter(askedFailed)
	redis.Stop()
	defer redis.Continue()
	if resp := e.get("/search", ""); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("with a store that hangs: %s, want 429", resp.Status)
	}
	if failed := e.envoy.Counter(askedFailed) - before; failed != 0 {
		t.Errorf("Envoy gave up on %d calls, which it then lets pass", failed)
	}
}

// While the store hangs, Envoy hears the failure mode of the rule although it waits no longer than
// Headgate may wait for its store, as it does unless it is told to: its timeout is the deadline of the
// call, and Headgate keeps a share of that for the answer. The breaker, which would say the same, does
// not open. A busy machine may be late with one answer, and so they are asked for until one is in time.
func TestEnvoyThatWaitsNoLongerHearsTheFailureMode(t *testing.T) {
	overEach(t, testEnvoyThatWaitsNoLongerHearsTheFailureMode)
}

func testEnvoyThatWaitsNoLongerHearsTheFailureMode(t *testing.T, transport string) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	e := startEdgeThatWaits(t, 20*time.Millisecond, transport, "--store", redis.URL(), "--failure-mode", "closed",
		"--breaker-failures", "1000", "--breaker-ratio", "1")
	e.eventually("the store decides", func() bool {
		resp := e.get("/search", "")
		return resp.StatusCode == http.StatusOK && resp.Header.Get("x-ratelimit-limit") != ""
	})
	redis.Stop()
	defer redis.Continue()
	e.eventually("the failure mode decides", func() bool { return e.get("/search", "").StatusCode == http.StatusTooManyRequests })
}

// Each example has the filter wait for longer than the default --store-budget of 20 ms, and
// the 20 ms more that an answer may take on a busy machine.
func TestExamplesOfEnvoyWaitLongerThanTheStore(t *testing.T) {
	for _, example := range []string{"envoy", "envoy-bytes", "envoy-llm", "envoy-sticky"} {
		if wait := waitOf(t, readFile(t, filepath.Join("../../examples", example, "envoy.yaml"))); wait < 80*time.Millisecond {
			t.Errorf("examples/%s waits %v, want twice 40ms at least", example, wait)
		}
	}
}
