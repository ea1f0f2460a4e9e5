package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/xdsrules"
)

// controlPlane is the part of Envoy Gateway that rate limiters ask for rules: a snapshot, which
// every stream gets when it begins and whenever it changes.
type controlPlane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	addr string

	mu        sync.Mutex
	version   int // 0: there is no snapshot yet
	resources []*anypb.Any
	changed   chan struct{}
	acked     string
	nodes     []string
}

// startControlPlane serves by TLS 1.3, to clients with a certificate of the same authority.
func startControlPlane(t *testing.T, c *testserver.Certificates) *controlPlane {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(readFile(t, c.CAFile)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &controlPlane{addr: l.Addr().String(), changed: make(chan struct{})}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})))
	discovery.RegisterAggregatedDiscoveryServiceServer(server, g)
	go func() { _ = server.Serve(l) }() // until it is stopped
	t.Cleanup(server.Stop)
	return g
}

// set makes a snapshot of resources and returns its version.
func (g *controlPlane) set(resources ...*anypb.Any) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version++
	g.resources = resources
	close(g.changed)
	g.changed = make(chan struct{})
	return fmt.Sprint(g.version)
}

// accepted waits until a version is in force.
func (g *controlPlane) accepted(t *testing.T, version string) {
	t.Helper()
	eventually.True(t, "version "+version+" is accepted", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.acked == version
	})
}

func (g *controlPlane) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			g.mu.Lock()
			g.nodes = append(g.nodes, r.GetNode().GetId())
			if r.GetErrorDetail() == nil && r.GetResponseNonce() != "" {
				g.acked = r.GetVersionInfo()
			}
			g.mu.Unlock()
		}
	}()
	for {
		g.mu.Lock()
		changed, version, resources := g.changed, g.version, g.resources
		g.mu.Unlock()
		if version > 0 {
			r := &discovery.DiscoveryResponse{VersionInfo: fmt.Sprint(version), Nonce: fmt.Sprint("n", version), TypeUrl: xdsrules.TypeURL, Resources: resources}
			if err := stream.Send(r); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// level is a descriptor of a RateLimitConfig, and what is below it.
type level struct {
	key, value string
	perYear    uint64 // 0: no limit here; of a year, so that no test meets its end
	shadow     bool
	below      []level
}

// message returns l in the wire format.
func (l level) message() []byte {
	b := appendText(appendText(nil, 1, l.key), 2, l.value)
	if l.perYear > 0 {
		b = appendMessage(b, 3, appendNumber(appendNumber(nil, 1, 6), 2, l.perYear))
	}
	for _, child := range l.below {
		b = appendMessage(b, 4, child.message())
	}
	if l.shadow {
		b = appendNumber(b, 5, 1)
	}
	return b
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendMessage(b []byte, number protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), m)
}

func appendNumber(b []byte, number protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
}

// configOf is a RateLimitConfig of a domain, whose name it has too.
func configOf(domain string, levels ...level) *anypb.Any {
	b := appendText(appendText(nil, 1, domain), 2, domain)
	for _, l := range levels {
		b = appendMessage(b, 3, l.message())
	}
	return &anypb.Any{TypeUrl: xdsrules.TypeURL, Value: b}
}

// gatewayRule is a RateLimitConfig as Envoy Gateway makes one of a policy: a route, below it a
// match, and a limit for each year.
func gatewayRule(name string, requests uint64) *anypb.Any {
	return configOf(name, level{key: "route", value: "route", below: []level{{key: "rule-0-match-0", value: "rule-0-match-0", perYear: requests}}})
}

// gatewaysLimiter returns what starts a process with the environment that Envoy Gateway gives
// the container, word by word but for ports and files. All share one Redis and what they keep.
func gatewaysLimiter(t *testing.T, g *controlPlane, certificates *testserver.Certificates) (start func() *node) {
	t.Helper()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "ratelimit")
	if err := os.Symlink(path, program); err != nil {
		t.Fatal(err)
	}
	cert, key := certificates.Issue(t, testserver.Leaf{CommonName: "*"})
	return func() *node {
		command := exec.Command(program)
		command.Env = []string{
			"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info",
			"USE_STATSD=false", "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=localhost:" + portOf(t, g.addr), "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
			"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + cert, "GRPC_SERVER_TLS_KEY=" + key, "GRPC_SERVER_TLS_CA_CERT=" + certificates.CAFile,
			"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + cert, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + key,
			"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + certificates.CAFile, "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.Addr,
			"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
			"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0",
			"HEADGATE_STATE_DIR=" + filepath.Join(dir, "state"), "HEADGATE_STORE_BUDGET=10s",
		}
		n := new(node)
		if n.process, err = testserver.StartProcess(command); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.process.Terminate)
		n.at(t, "http")
		return n
	}
}

// TestEnvoyGatewaysEnvironment: with the environment that Envoy Gateway gives the container,
// word by word but for ports and files, the process gets its rules from the control plane by
// mutual TLS, follows each change, and keeps them while the control plane is away and over a
// restart.
func TestEnvoyGatewaysEnvironment(t *testing.T) {
	certificates := testserver.NewCertificates(t)
	g := startControlPlane(t, certificates)
	start := gatewaysLimiter(t, g, certificates)
	// ask asks n times about a domain and returns how many pass.
	ask := func(n *node, domain string, times int) (passed int) {
		for range times {
			resp, err := http.Post("http://"+n.at(t, "http")+"/json", "application/json", strings.NewReader(
				`{"domain": "`+domain+`", "descriptors": [{"entries": [{"key": "route", "value": "route"}, {"key": "rule-0-match-0", "value": "rule-0-match-0"}]}]}`))
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				passed++
			case http.StatusTooManyRequests:
			default:
				t.Fatalf("%s %s", resp.Status, body)
			}
		}
		return passed
	}
	n := start()
	if got := n.shown(t, n.at(t, "http"), "/healthcheck", ""); got != "OK" {
		t.Errorf("health before the first rules is %q", got)
	}
	if code, said := n.askedAs(t, "ns/gateway/http"); code != http.StatusServiceUnavailable || said != "no rate limit configuration loaded\n" {
		t.Errorf("before the first rules: %d %s", code, said)
	}
	g.accepted(t, g.set(gatewayRule("ns/gateway/http", 3)))
	if got := ask(n, "ns/gateway/http", 5); got != 3 {
		t.Errorf("%d of 5 pass, want 3", got)
	}
	g.accepted(t, g.set(gatewayRule("ns/other/http", 1), gatewayRule("ns/gateway/http", 3)))
	if first, other := ask(n, "ns/gateway/http", 2), ask(n, "ns/other/http", 2); first != 0 || other != 1 {
		t.Errorf("after a change that is about others %d pass, and %d of those, want 0 and 1", first, other)
	}
	const answers = `headgate_rules_xds_answers_total{outcome="accepted"} 2`
	if shown := n.shown(t, n.at(t, "metrics"), "/metrics", ""); !strings.Contains(shown, answers) || !strings.Contains(shown, "headgate_rules_xds_connected 1") {
		t.Errorf("metrics do not say %s", answers)
	}
	g.mu.Lock()
	for _, id := range g.nodes {
		if id != "envoy-ratelimit" {
			t.Errorf("asks as %q", id)
		}
	}
	g.mu.Unlock()
	n.process.Terminate()
	g.mu.Lock()
	g.version, g.resources = 0, nil // the control plane was started again, and knows nothing yet
	g.mu.Unlock()
	n = start()
	if got := ask(n, "ns/gateway/http", 2); got != 0 {
		t.Errorf("after a restart %d pass, want none: the rules are kept", got)
	}
	g.accepted(t, g.set())
	if got := ask(n, "ns/gateway/http", 2); got != 2 {
		t.Errorf("after the last policy is gone %d of 2 pass", got)
	}
}
