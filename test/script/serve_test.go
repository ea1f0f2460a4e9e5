package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/testserver"
)

const userRules = `domain: d
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1000000}
`

func writeRules(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func start(t *testing.T, args ...string) *server {
	t.Helper()
	s, err := startServer(t.TempDir(), environment(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("server log:\n%s", s.log.text())
		}
	})
	return s
}

// calls counts what callers met.
type calls struct {
	done, failed atomic.Int64
	first        sync.Once
	enough       chan struct{} // closed after many calls
}

func (c *calls) succeeded() {
	if c.done.Add(1) == 200 {
		close(c.enough)
	}
}

func (c *calls) fail(t *testing.T, what string, err error) {
	c.failed.Add(1)
	c.first.Do(func() { t.Logf("%s: %v", what, err) })
}

// drainDelay is so long that each caller asks once more within it, also on a machine that
// is busy with other things.
const drainDelay = "--drain-delay=2s"

// TestGracefulStopUnderLoad ends a headgate while callers over both protocols
// keep it busy. A caller that is told to go elsewhere goes; no call may fail.
func TestGracefulStopUnderLoad(t *testing.T) {
	for _, transport := range []string{"grpc-go", "h2"} {
		t.Run(transport, func(t *testing.T) { gracefulStopUnderLoad(t, "--grpc-transport="+transport) })
	}
}

func gracefulStopUnderLoad(t *testing.T, transport string) {
	s := start(t, "--rules", writeRules(t, userRules), drainDelay, transport)
	overHTTP, overGRPC := &calls{enough: make(chan struct{})}, &calls{enough: make(chan struct{})}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() { callHTTP(t, s.addrs["http"], overHTTP) })
		callers.Go(func() { callGRPC(t, s.addrs["grpc"], overGRPC) })
	}
	<-overHTTP.enough
	<-overGRPC.enough
	code, err := s.stop(syscall.SIGTERM)
	callers.Wait()
	if code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	for name, c := range map[string]*calls{"HTTP": overHTTP, "gRPC": overGRPC} {
		t.Logf("%s: %d calls", name, c.done.Load())
		if n := c.failed.Load(); n > 0 {
			t.Errorf("%s: %d of %d calls failed", name, n, c.done.Load())
		}
	}
}

// callHTTP asks over one connection until the server says that it closes it, or nobody
// listens any more.
func callHTTP(t *testing.T, addr string, c *calls) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	const body = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`
	for {
		response, err := client.Post("http://"+addr+"/v1/check", "application/json", strings.NewReader(body))
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err != nil {
			c.fail(t, "POST", err)
			return
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			c.fail(t, response.Status, err)
			return
		}
		c.succeeded()
		if response.Close {
			return
		}
	}
}

// callGRPC asks until nobody listens any more.
func callGRPC(t *testing.T, addr string, c *calls) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.fail(t, "client", err)
		return
	}
	defer conn.Close()
	client := rls.NewRateLimitServiceClient(conn)
	request := &rls.RateLimitRequest{Domain: "d", Descriptors: []*pb.RateLimitDescriptor{
		{Entries: []*pb.RateLimitDescriptor_Entry{{Key: "user", Value: "42"}}},
	}}
	for {
		answer, err := client.ShouldRateLimit(context.Background(), request)
		switch {
		case status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "connection refused"):
			return
		case err != nil:
			c.fail(t, "ShouldRateLimit", err)
			return
		case answer.OverallCode != rls.RateLimitResponse_OK:
			c.fail(t, answer.OverallCode.String(), nil)
			return
		}
		c.succeeded()
	}
}

// TestKilledAndStartedAgain holds that what a killed process leaves behind, its
// socket among it, does not keep the next one from serving.
func TestKilledAndStartedAgain(t *testing.T) {
	socket := filepath.Join(shortDir(t), "h.sock")
	s := start(t, "--http-addr=unix://"+socket)
	s.kill()
	if _, err := os.Stat(socket); err != nil {
		t.Fatalf("the test is void: %v", err)
	}
	s = start(t, "--http-addr=unix://"+socket)
	out, err := exec.Command("headgate", "check", "--addr=unix://"+socket, "--key=k", "--limit=1", "--window=1s").Output()
	if err != nil || !strings.HasPrefix(string(out), "allowed") {
		t.Errorf("%s %v", out, err)
	}
	if code, err := s.stop(syscall.SIGINT); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// shortDir returns a directory whose path leaves room for the name of a socket,
// which has about a hundred bytes in all.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestReloadUnderLoad reloads rules, good and bad ones, while a caller asks: no
// call fails, and the counter goes on.
func TestReloadUnderLoad(t *testing.T) {
	path := writeRules(t, userRules)
	s := start(t, "--rules", path, drainDelay)
	c := &calls{enough: make(chan struct{})}
	var caller sync.WaitGroup
	caller.Go(func() { callHTTP(t, s.addrs["http"], c) })
	for i := range 20 {
		text := strings.ReplaceAll(userRules, "1000000", fmt.Sprint(1000000+i))
		want := fmt.Sprintf("d.user: unit=HOUR requests_per_unit=%d,", 1000000+i)
		if i%2 == 1 {
			text = "domain: ["
			want = fmt.Sprintf("d.user: unit=HOUR requests_per_unit=%d,", 1000000+i-1)
		}
		// In one step, so that each change is one reload.
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		if err := s.log.await(reloaded, s.ended); err != nil {
			t.Fatal(err)
		}
		if got := get(t, "http://"+s.addrs["ops"]+"/rlconfig"); i%2 == 1 && !strings.HasPrefix(got, want) {
			t.Fatalf("after reload %d: %s, want %s", i, got, want)
		}
	}
	if code, err := s.stop(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	caller.Wait()
	if n := c.failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed", n, c.done.Load())
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestSettingsReachEnvoy holds that what is set for answers to Envoy is what
// Envoy gets, with a store that answers and with one that is away.
func TestSettingsReachEnvoy(t *testing.T) {
	rules := writeRules(t, `domain: d
match: path
descriptors:
  - {key: none, metadata: {plan: free}, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: some, metadata: {plan: free}, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: login, sensitive: true, rate_limit: {unit: hour, requests_per_unit: 9}}
`)
	const away = "--store=redis://127.0.0.1:1/0"
	for _, tt := range []struct {
		name string
		args []string
		key  string
		want string // "CODE header,header metadata", or an error's code
	}{
		{"plain", nil, "some", "OK  "},
		{"denied", nil, "none", "OVER_LIMIT  "},
		{"shadow", []string{"--shadow"}, "none", "OK  "},
		{"envoy headers", []string{"--rls-headers=envoy"}, "some", "OK ratelimit-limit,ratelimit-remaining,ratelimit-reset "},
		{"http headers", []string{"--rls-headers=http", "--no-x-ratelimit"}, "some", "OK ratelimit,ratelimit-policy "},
		{"draft 6", []string{"--rls-headers=http", "--no-x-ratelimit", "--headers=draft-6"}, "some", "OK ratelimit-limit,ratelimit-policy,ratelimit-remaining,ratelimit-reset "},
		{"metadata", []string{"--rls-metadata"}, "some", "OK  metadata"},
		{"open", []string{away}, "some", "OK  "},
		{"closed", []string{away}, "login", "OVER_LIMIT  "},
		{"closed as error", []string{away, "--rls-closed=error"}, "login", "Unavailable"},
		{"closed as error over h2", []string{away, "--rls-closed=error", "--grpc-transport=h2"}, "login", "Unavailable"},
		{"all over h2", []string{"--rls-headers=envoy", "--rls-metadata", "--grpc-transport=h2"}, "some", "OK ratelimit-limit,ratelimit-remaining,ratelimit-reset metadata"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, append([]string{"--rules", rules}, tt.args...)...)
			conn, err := grpc.NewClient(s.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
				Domain: "d", Descriptors: []*pb.RateLimitDescriptor{{Entries: []*pb.RateLimitDescriptor_Entry{{Key: tt.key, Value: "1"}}}},
			})
			if got := summary(answer, err); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func summary(answer *rls.RateLimitResponse, err error) string {
	if err != nil {
		return status.Code(err).String()
	}
	var names []string
	for _, h := range answer.ResponseHeadersToAdd {
		if name := strings.ToLower(h.Key); name != "retry-after" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	text := answer.OverallCode.String() + " " + strings.Join(names, ",") + " "
	if answer.DynamicMetadata != nil {
		text += "metadata"
	}
	return text
}

// TestStoreKey asks Redis for what a check has left there.
func TestStoreKey(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	rules := writeRules(t, userRules)
	key := func() string {
		t.Helper()
		var stderr bytes.Buffer
		cmd := exec.Command("headgate", "store", "key", "--store", redis.URL(), "--rules", rules, "--domain=d", "user:42")
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		return string(out)
	}
	if got := key(); !strings.Contains(got, "not there: as if unused") {
		t.Errorf("before: %s", got)
	}
	s := start(t, "--rules", rules, "--store", redis.URL(), "--store-budget=10s")
	for range 3 {
		if out, err := exec.Command("headgate", "check", "--addr=http://"+s.addrs["http"], "--timeout=20s", "--domain=d", "user:42").CombinedOutput(); err != nil || !strings.Contains(string(out), "remaining") {
			t.Fatalf("%s %v", out, err)
		}
	}
	got := key()
	for _, want := range []string{"d.user", `key    "hg:`, "999997 of 1000000 remaining"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
