package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// oldRules are rules in the format of envoyproxy/ratelimit. The first domain is that of the
// example of Envoy; what is counted there ends with a year, so that no test meets its end.
var oldRules = map[string]string{
	"edge": `
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: year, requests_per_unit: 3}
`,
	"hourly": `
domain: hourly
descriptors:
  - key: remote_address
    rate_limit: {unit: hour, requests_per_unit: 3}
`,
}

// startRatelimit runs headgate under the name of envoyproxy/ratelimit's program, with an
// environment of that alone, and waits until it is ready.
func startRatelimit(t *testing.T, environment ...string) *node {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, rules := filepath.Join(dir, "ratelimit"), filepath.Join(dir, "data", "ratelimit", "config")
	if err := os.MkdirAll(rules, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range oldRules { // any name will do
		if err := os.WriteFile(filepath.Join(rules, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(path, program); err != nil {
		t.Fatal(err)
	}
	redis := testserver.Redis(t, testserver.RedisConfig{})
	command := exec.Command(program)
	command.Env = append([]string{
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "LOG_LEVEL=info",
		"USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0",
		"RUNTIME_ROOT=" + filepath.Join(dir, "data"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.Addr, "HEADGATE_STORE_BUDGET=10s",
	}, environment...)
	n := new(node)
	if n.process, err = testserver.StartProcess(command); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.process.Terminate)
	n.at(t, "http")
	return n
}

// The process takes the environment of envoyproxy/ratelimit and serves what its users ask
// for: answers over HTTP, health, the rules, figures, and metrics at a port of their own.
//
//promise:envoy-drop-in
func TestInPlaceOfRatelimit(t *testing.T) {
	n := startRatelimit(t, "STATSD_PORT=tcp://10.0.0.1:8125", "REDIS_POOL_SIZE=20", "HEADGATE_PORT=tcp://10.0.0.2:8080", "HEADGATE_SERVICE_HOST=10.0.0.2")
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		resp, err := http.Post("http://"+n.at(t, "http")+"/json", "application/json",
			strings.NewReader(`{"domain": "edge", "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("request %d: %s %s", i+1, resp.Status, body)
		}
	}
	if got := n.shown(t, n.at(t, "http"), "/healthcheck", ""); got != "OK" {
		t.Errorf("health is %q", got)
	}
	ops := n.at(t, "ops")
	if got := n.shown(t, ops, "/rlconfig", ""); got != "edge.remote_address: unit=YEAR requests_per_unit=3, shadow_mode: false, quota_mode: false\n"+
		"hourly.remote_address: unit=HOUR requests_per_unit=3, shadow_mode: false, quota_mode: false\n" {
		t.Errorf("/rlconfig says %q", got)
	}
	const over = `ratelimit_service_rate_limit_over_limit{domain="edge",key1="remote_address"}`
	if got := n.shown(t, ops, "/stats", ""); !strings.Contains(got, over+": 1\n") {
		t.Errorf("/stats does not say %s: 1", over)
	}
	metrics := n.at(t, "metrics")
	if got := n.shown(t, metrics, "/metrics", ""); !strings.Contains(got, over+" 1\n") {
		t.Errorf("metrics do not say %s 1", over)
	}
	if resp, err := http.Get("http://" + metrics + "/debug/pprof/"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("profiles at the port of metrics: %v, %v", resp, err)
	}
	output := n.process.Output()
	for _, want := range []string{"STATSD_PORT: ignored", "REDIS_POOL_SIZE: has no effect"} {
		if !strings.Contains(output, want) {
			t.Errorf("the log does not say %q:\n%s", want, output)
		}
	}
	if strings.Contains(output, "misspelt") {
		t.Errorf("links of Kubernetes are taken for settings:\n%s", output)
	}
}

// Who relied on Envoy's failure_mode_deny has every rule fail closed, and an error for each call
// that Redis does not decide.
func TestRatelimitWithoutRedisIsAnError(t *testing.T) {
	t.Parallel()
	nobody := net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	for mode, want := range map[string]int{"": http.StatusOK, "closed": http.StatusServiceUnavailable} {
		environment := []string{"REDIS_URL=" + nobody}
		if mode != "" {
			environment = append(environment, "HEADGATE_FAILURE_MODE="+mode, "HEADGATE_RLS_CLOSED=error")
		}
		n := startRatelimit(t, environment...)
		resp, err := http.Post("http://"+n.at(t, "http")+"/json", "application/json",
			strings.NewReader(`{"domain": "edge", "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("failure mode %q: %s %s, want %d", mode, resp.Status, body, want)
		}
	}
}

// What cannot be used ends the start with a line that names the variable.
func TestRatelimitRefusesItsEnvironment(t *testing.T) {
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, "ratelimit")
	command.Env = []string{"GRPC_PORT=http", "REDIS_AUTH=geheim"}
	out, err := command.CombinedOutput()
	if want := "headgate: GRPC_PORT: \"http\" is not what it takes\nheadgate: hint: a port, from 0 to 65535\n"; command.ProcessState.ExitCode() != 2 || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// startMutual starts an Envoy in front of a backend that asks about a domain over TLS at
// grpcAddr, and shows that certificate, none if it is "".
func startMutual(t *testing.T, domain, grpcAddr string, c *testserver.Certificates, certFile, keyFile string) *testserver.EnvoyServer {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "backend") }))
	t.Cleanup(backend.Close)
	shown := ""
	if certFile != "" {
		shown = fmt.Sprintf("\n            tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]", certFile, keyFile)
	}
	config := readFile(t, filepath.Join(exampleDir, "envoy.yaml"))
	config = with(t, config, map[string]string{
		"port_value: 10000":        "port_value: 0",
		"port_value: 9901":         "port_value: 0",
		"port_value: 8000":         "port_value: " + portOf(t, backend.Listener.Addr().String()),
		"port_value: 8081":         "port_value: " + portOf(t, grpcAddr),
		"timeout: 0.1s":            "timeout: 10s",
		"failure_mode_deny: false": "failure_mode_deny: true",
		"domain: edge":             "domain: " + domain,
		"connect_timeout: 0.25s": `connect_timeout: 10s
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          common_tls_context:
            validation_context: {trusted_ca: {filename: ` + c.CAFile + `}}` + shown,
	})
	return testserver.Envoy(t, config)
}

// An Envoy whose certificate is of the right authority is answered, with the header fields
// that Envoy Gateway's own tests ask for; one with another certificate, or with none, is not.
func TestRatelimitByMutualTLS(t *testing.T) {
	ours, others := testserver.NewCertificates(t), testserver.NewCertificates(t)
	n := startRatelimit(t, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+ours.CertFile, "GRPC_SERVER_TLS_KEY="+ours.KeyFile,
		"GRPC_CLIENT_TLS_CACERT="+ours.CAFile, "GRPC_CLIENT_TLS_SAN=envoy.internal")
	right, rightKey := ours.Issue(t, testserver.Leaf{DNS: []string{"envoy.internal"}})
	wrongName, wrongNameKey := ours.Issue(t, testserver.Leaf{DNS: []string{"other.internal"}})
	stranger, strangerKey := others.Issue(t, testserver.Leaf{DNS: []string{"envoy.internal"}})
	get := func(envoy *testserver.EnvoyServer) *http.Response {
		resp, err := http.Get("http://" + envoy.Listener("edge") + "/")
		if err != nil {
			t.Fatalf("%v\nenvoy: %s", err, envoy.Output())
		}
		resp.Body.Close()
		return resp
	}
	known := startMutual(t, "edge", n.at(t, "grpc"), ours, right, rightKey)
	for i := range 4 {
		resp := get(known)
		want := http.StatusOK
		if i == 3 {
			want = http.StatusTooManyRequests
		}
		if resp.StatusCode != want {
			t.Errorf("request %d: %s", i+1, resp.Status)
		}
	}
	hourly := get(startMutual(t, "hourly", n.at(t, "grpc"), ours, right, rightKey))
	if got := hourly.Header.Get("x-ratelimit-limit"); hourly.StatusCode != http.StatusOK || got != "3, 3;w=3600" {
		t.Errorf("%s, x-ratelimit-limit: %s", hourly.Status, got)
	}
	for name, files := range map[string][2]string{
		"without a certificate": {}, "of another authority": {stranger, strangerKey}, "of another name": {wrongName, wrongNameKey},
	} {
		if resp := get(startMutual(t, "edge", n.at(t, "grpc"), ours, files[0], files[1])); resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("an Envoy %s gets %s", name, resp.Status)
		}
	}
}
