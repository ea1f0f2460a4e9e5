package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

const stickyDir = "../../examples/envoy-sticky"

// stickyNode is a node of examples/envoy-sticky that counts in its own memory.
type stickyNode struct {
	process        *testserver.Process
	grpcAddr, http string
}

func startStickyNode(t *testing.T, rules string) stickyNode {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	n := stickyNode{grpcAddr: net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))}
	n.process, err = testserver.StartProcess(exec.Command(path, "serve", "--rules", rules, "--store", "memory://",
		"--grpc-addr", n.grpcAddr, "--http-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.process.Terminate)
	ready := regexp.MustCompile(`headgate ready http=(\S+)`)
	if err := n.process.Poll(func() error {
		found := ready.FindStringSubmatch(n.process.Output())
		if found == nil {
			return io.EOF
		}
		n.http = found[1]
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// left is what this node has left of a key, of which it counts what it was asked itself.
func (n stickyNode) left(e *edge, key string) int64 {
	return e.leftIn(n.http, "edge", "api_key:"+key)
}

// D7: with the consistent hash of the example all checks of a key go to one node, keys are
// shared by both, and those of a node that has gone are decided by the other one.
func TestD7ChecksOfAKeyStick(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(backend.Close)
	e := &edge{t: t, rules: filepath.Join(t.TempDir(), "rules.yaml"), client: &http.Client{Timeout: patience}}
	e.writeRules(strings.Replace(readFile(t, filepath.Join(stickyDir, "rules.yaml")), "unit: minute", "unit: year", 1)) // no window ends meanwhile
	nodes := []stickyNode{startStickyNode(t, e.rules), startStickyNode(t, e.rules)}
	e.headgate = nodes[0].process
	t.Cleanup(e.client.CloseIdleConnections)
	config := readFile(t, filepath.Join(stickyDir, "envoy.yaml"))
	config = with(t, config, map[string]string{
		"port_value: 10000":                     "port_value: 0",
		"port_value: 9901":                      "port_value: 0",
		"port_value: 8000":                      "port_value: " + portOf(t, backend.Listener.Addr().String()),
		"port_value: 8081":                      "port_value: " + portOf(t, nodes[0].grpcAddr),
		"port_value: 8082":                      "port_value: " + portOf(t, nodes[1].grpcAddr),
		"timeout: 0.1s":                         "timeout: 10s", // a busy machine
		"- timeout: 1s\n          interval: 2s": "- timeout: 1s\n          interval: 0.1s",
	})
	e.envoy = testserver.Envoy(t, config)
	e.eventually("both nodes are asked", e.healthy(2))

	const keys, checks, limit = 24, 3, 6000
	asked := make([]int, len(nodes))
	for k := range keys {
		key := fmt.Sprint("key", k)
		for range checks {
			resp := e.get("/", key)
			if resp.StatusCode != http.StatusOK || resp.Header.Get("x-ratelimit-remaining") == "" {
				t.Fatalf("%s: %s, remaining %q", key, resp.Status, resp.Header.Get("x-ratelimit-remaining"))
			}
		}
		left := []int64{nodes[0].left(e, key), nodes[1].left(e, key)}
		switch {
		case left[0] == limit-checks && left[1] == limit:
			asked[0]++
		case left[1] == limit-checks && left[0] == limit:
			asked[1]++
		default:
			t.Errorf("%s: the nodes have %v left", key, left)
		}
	}
	if asked[0] == 0 || asked[1] == 0 {
		t.Errorf("keys by node: %v", asked)
	}

	nodes[0].process.Terminate()
	e.eventually("one node is asked", e.healthy(1))
	for k := range keys {
		if resp := e.get("/", fmt.Sprint("key", k)); resp.Header.Get("x-ratelimit-remaining") == "" {
			t.Errorf("key%d was not decided: %s", k, resp.Status)
		}
	}
}
