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
	config = with(t, config, map[string]string{
		endpoint:            strings.Replace(endpoint, "8081", portOf(t, stays.grpcAddr), 1) + strings.Replace(endpoint, "8081", portOf(t, goes.grpcAddr), 1),
		"port_value: 10000": "port_value: 0",
		"port_value: 9901":  "port_value: 0",
		"port_value: 8000":  "port_value: " + portOf(t, backend.Listener.Addr().String()),
		"timeout: 0.1s":     "timeout: 10s", // a busy machine
		"timeout: 0.5s":     "timeout: 10s",
	})
	e.envoy = testserver.Envoy(t, config)
	e.eventually("both nodes are asked", e.healthy(2))
	goes.process.Kill()
	e.eventually("one node is asked", e.healthy(1))
	decided := func() error { // also after Envoy has told its workers, for which it takes up to a second
		for i := range 20 {
			if resp := e.get("/orders", fmt.Sprint("key", i)); resp.Header.Get("x-ratelimit-remaining") == "" { // a denial has it too
				return fmt.Errorf("request %d was not decided: %s", i+1, resp.Status)
			}
		}
		return nil
	}
	e.eventually("all requests are decided", func() bool { return decided() == nil })
	before := e.envoy.Counter(askedFailed)
	if err := decided(); err != nil {
		t.Error(err)
	}
	if failed := e.envoy.Counter(askedFailed) - before; failed != 0 {
		t.Errorf("%d calls failed", failed)
	}
}
