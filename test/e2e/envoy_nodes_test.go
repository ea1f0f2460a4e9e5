package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// Of two nodes behind the Envoy of examples/envoy one is killed: Envoy notices, and then no call
// fails because of it.
func TestEnvoyLeavesANodeThatIsGone(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(backend.Close)
	e := &edge{t: t, rules: filepath.Join(t.TempDir(), "rules.yaml"), client: &http.Client{Timeout: patience}}
	t.Cleanup(e.client.CloseIdleConnections)
	e.writeRules(readFile(t, filepath.Join(exampleDir, "rules.yaml")))
	stays, goes := startStickyNode(t, e.rules), startStickyNode(t, e.rules)
	e.headgate = stays.process
	config := readFile(t, filepath.Join(exampleDir, "envoy.yaml"))
	endpoint := "              - endpoint:\n                  address:\n                    socket_address: {address: 127.0.0.1, port_value: 8081}\n"
	for from, to := range map[string]string{
		endpoint:            strings.Replace(endpoint, "8081", portOf(t, stays.grpcAddr), 1) + strings.Replace(endpoint, "8081", portOf(t, goes.grpcAddr), 1),
		"port_value: 10000": "port_value: 0",
		"port_value: 9901":  "port_value: 0",
		"port_value: 8000":  "port_value: " + portOf(t, backend.Listener.Addr().String()),
		"timeout: 0.02s":    "timeout: 10s", // a busy machine
		"timeout: 0.5s":     "timeout: 10s",
	} {
		if n := strings.Count(config, from); n != 1 {
			t.Fatalf("envoy.yaml holds %q %d times, want once", from, n)
		}
		config = strings.Replace(config, from, to, 1)
	}
	e.envoy = testserver.Envoy(t, config)
	healthy := func(n int64) func() bool {
		return func() bool { return e.envoy.Counter("cluster.headgate.membership_healthy") == n }
	}
	e.eventually("both nodes are asked", healthy(2))
	goes.process.Kill()
	e.eventually("one node is asked", healthy(1))
	for i := range 20 {
		resp := e.get("/orders", fmt.Sprint("key", i))
		if resp.StatusCode != http.StatusOK || resp.Header.Get("x-ratelimit-remaining") == "" {
			t.Errorf("request %d was not decided: %s", i+1, resp.Status)
		}
	}
	if failed := e.envoy.Counter(askedFailed); failed != 0 {
		t.Errorf("%d calls failed", failed)
	}
}
