package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// authzNode is a node that Envoy's ext_authz asks.
type authzNode struct {
	process          *testserver.Process
	http, grpc, auth string // ports
}

func startAuthzNode(t *testing.T) authzNode {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	port := func() string { return strconv.Itoa(testserver.FreePort(t)) }
	n := authzNode{http: port(), grpc: port(), auth: port()}
	at := func(port string) string { return net.JoinHostPort("127.0.0.1", port) }
	n.process, err = testserver.StartProcess(exec.Command(path, "serve", "--store", "memory://",
		"--rules", filepath.Join(gatewaysDir, "rules.yaml"), "--identity", filepath.Join(gatewaysDir, "identity.yaml"),
		"--http-addr", at(n.http), "--grpc-addr", at(n.grpc), "--auth-addr", at(n.auth), "--ops-addr", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.process.Terminate)
	return n
}

// Of two nodes that ext_authz asks one is killed: Envoy notices, and then no request passes
// without a decision because of it.
func TestEnvoyAuthorizesWithoutANodeThatIsGone(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"grpc.yaml", "http.yaml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			t.Cleanup(app.Close)
			stays, goes := startAuthzNode(t), startAuthzNode(t)
			e := &edge{t: t, headgate: stays.process, client: &http.Client{Timeout: patience}}
			t.Cleanup(e.client.CloseIdleConnections)
			e.envoy = testserver.Envoy(t, authzConfig(t, file, portOf(t, app.Listener.Addr().String()), []authzNode{stays, goes}))
			e.eventually("both nodes are asked", e.healthy(2))
			goes.process.Kill()
			e.eventually("one node is asked", e.healthy(1))
			decided := func() error { // also after Envoy has told its workers, for which it takes up to a second
				for i := range 20 {
					if resp := e.get(fmt.Sprint("/orders/", i), ""); resp.Header.Get("RateLimit") == "" { // a denial has it too
						return fmt.Errorf("request %d was not decided: %s", i+1, resp.Status)
					}
				}
				return nil
			}
			e.eventually("all requests are decided", func() bool { return decided() == nil })
			if err := decided(); err != nil {
				t.Error(err)
			}
		})
	}
}

// authzConfig is the sample with an endpoint of the cluster headgate for each node.
func authzConfig(t *testing.T, file, app string, nodes []authzNode) string {
	t.Helper()
	config := readFile(t, filepath.Join(gatewaysDir, "envoy-ext-authz", file))
	cluster := strings.Index(config, "        cluster_name: headgate\n")
	endpoint := cluster + strings.Index(config[cluster:], "              - endpoint:\n")
	config, sample := config[:endpoint], config[endpoint:]
	for _, n := range nodes {
		config += strings.NewReplacer("8080", n.http, "8081", n.grpc, "9091", n.auth).Replace(sample)
	}
	return strings.NewReplacer(
		"0.0.0.0, port_value: 8088", "127.0.0.1, port_value: 0", "port_value: 9901", "port_value: 0", "port_value: 8000", "port_value: "+app,
		"timeout: 0.1s", "timeout: 10s", "timeout: 0.5s", "timeout: 10s", // a busy machine
	).Replace(config)
}
