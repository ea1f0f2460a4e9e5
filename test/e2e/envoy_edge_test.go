package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// patience bounds what must happen soon on any machine, and pause is the time
// between two looks.
const (
	patience = 30 * time.Second
	pause    = 20 * time.Millisecond
)

// edge is a backend, a Headgate and an Envoy in front of them, as
// examples/envoy sets them up.
type edge struct {
	t        *testing.T
	rules    string // the rule file that Headgate watches
	grpcAddr string
	args     []string // more settings of Headgate
	headgate *testserver.Process
	envoy    *testserver.EnvoyServer
	client   *http.Client
	// slow counts the requests for slowPath that have reached the backend. It
	// answers them when finish is closed.
	slow   atomic.Int64
	finish chan struct{}
}

// slowPath is what the backend does not answer before it is told to.
const slowPath = "/reports/slow"

const exampleDir = "../../examples/envoy"

// overEach runs a test over each transport of gRPC, of which it gets the setting.
func overEach(t *testing.T, test func(t *testing.T, transport string)) {
	for _, name := range []string{"grpc-go", "h2"} {
		t.Run(name, func(t *testing.T) { test(t, "--grpc-transport="+name) })
	}
}

// startEdge is startEdgeThatWaits for so long that no answer is missed: a test on a busy machine
// is about answers, not about their time.
func startEdge(t *testing.T, args ...string) *edge {
	t.Helper()
	return startEdgeThatWaits(t, 10*time.Second, args...)
}

// startEdgeThatWaits starts the three. Nothing of the example is changed but its ports,
// and how long Envoy waits for an answer.
func startEdgeThatWaits(t *testing.T, wait time.Duration, args ...string) *edge {
	t.Helper()
	e := &edge{t: t, args: args, rules: filepath.Join(t.TempDir(), "rules.yaml"), client: &http.Client{Timeout: patience}, finish: make(chan struct{})}
	t.Cleanup(e.client.CloseIdleConnections)
	e.writeRules(readFile(t, filepath.Join(exampleDir, "rules.yaml")))

	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == slowPath {
			e.slow.Add(1)
			select {
			case <-e.finish:
			case <-r.Context().Done():
			}
		}
		fmt.Fprintln(w, "backend", r.URL.Path)
	}))
	t.Cleanup(backend.Close)
	e.grpcAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	e.startHeadgate()

	config := readFile(t, filepath.Join(exampleDir, "envoy.yaml"))
	config = with(t, config, map[string]string{
		"port_value: 10000": "port_value: 0",
		"port_value: 9901":  "port_value: 0",
		"port_value: 8000":  "port_value: " + portOf(t, backend.Listener.Addr().String()),
		"port_value: 8081":  "port_value: " + portOf(t, e.grpcAddr),
		"timeout: 0.1s":     fmt.Sprintf("timeout: %gs", wait.Seconds()),
	})
	e.envoy = testserver.Envoy(t, config)
	return e
}

func TestMain(m *testing.M) {
	if orders := os.Getenv(holderVariable); orders != "" {
		os.Exit(runHolder(orders))
	}
	testserver.RunTests(m)
}

// with returns a configuration with each of the texts that are keys replaced, which it holds once.
func with(t *testing.T, config string, changes map[string]string) string {
	t.Helper()
	for from, to := range changes {
		if n := strings.Count(config, from); n != 1 {
			t.Fatalf("envoy.yaml holds %q %d times, want once", from, n)
		}
		config = strings.Replace(config, from, to, 1)
	}
	return config
}

// healthy returns what reports whether Envoy takes so many nodes for healthy.
func (e *edge) healthy(nodes int64) func() bool {
	return func() bool { return e.envoy.Counter("cluster.headgate.membership_healthy") == nodes }
}

// startHeadgate runs `headgate serve` and waits until it is healthy.
func (e *edge) startHeadgate() {
	e.t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		e.t.Fatal(err)
	}
	e.headgate, err = testserver.StartProcess(exec.Command(path, append([]string{"serve",
		"--rules", e.rules, "--store", "memory://", "--grpc-addr", e.grpcAddr,
		"--http-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--rules-poll", "100ms",
		"--no-caller-limits", // Envoy's own calls take no right
	}, e.args...)...))
	if err != nil {
		e.t.Fatalf("start headgate: %v", err)
	}
	e.t.Cleanup(e.headgate.Terminate)
	conn, err := grpc.NewClient(e.grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		e.t.Fatal(err)
	}
	defer conn.Close()
	err = e.headgate.Poll(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "ratelimit"})
		if err == nil && answer.Status != healthpb.HealthCheckResponse_SERVING {
			err = fmt.Errorf("health is %v", answer.Status)
		}
		return err
	})
	if err != nil {
		e.t.Fatalf("start headgate: %v", err)
	}
}

// writeRules puts the rule file in place in one step.
func (e *edge) writeRules(text string) {
	e.t.Helper()
	if err := replaceFile(e.rules, text); err != nil {
		e.t.Fatal(err)
	}
}

// get asks the Envoy for a path, with that API key unless it is "".
func (e *edge) get(path, apiKey string) *http.Response {
	e.t.Helper()
	resp, err := e.try(path, apiKey)
	if err != nil {
		e.t.Fatalf("GET %s: %v\nenvoy: %s\nheadgate: %s", path, err, e.envoy.Output(), e.headgate.Output())
	}
	return resp
}

// try is get for callers that may not end the test.
func (e *edge) try(path, apiKey string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+e.envoy.Listener("edge")+path, nil)
	if err != nil {
		return nil, err
	}
	if apiKey != "" {
		req.Header.Set("x-api-key", apiKey)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	return resp, resp.Body.Close()
}

// eventually waits until condition holds.
func (e *edge) eventually(what string, condition func() bool) {
	e.t.Helper()
	if !eventually.Holds(condition) {
		e.t.Fatalf("not in %v: %s\nheadgate: %s", eventually.Patience, what, e.headgate.Output())
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
