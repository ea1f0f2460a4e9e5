package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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

const bytesDir = "../../examples/envoy-bytes"

// startBytes starts the Envoy and the rules of examples/envoy-bytes, before a backend
// that sends as many bytes as the path ends with.
func startBytes(t *testing.T) (e *edge, httpAddr string) {
	t.Helper()
	return startExample(t, bytesDir, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(filepath.Base(r.URL.Path))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), n))
	}))
}

// startExample starts the Envoy and the rules in a directory of examples before a backend.
func startExample(t *testing.T, dir string, handler http.Handler) (e *edge, httpAddr string) {
	t.Helper()
	e = &edge{t: t, client: &http.Client{Timeout: patience}}
	t.Cleanup(e.client.CloseIdleConnections)
	backend := httptest.NewServer(handler)
	t.Cleanup(backend.Close)
	e.grpcAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	httpAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	e.headgate, err = testserver.StartProcess(exec.Command(path, "serve",
		"--rules", filepath.Join(dir, "rules.yaml"), "--store", "memory://",
		"--grpc-addr", e.grpcAddr, "--http-addr", httpAddr, "--ops-addr", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.headgate.Terminate)
	if err := e.headgate.Poll(func() error {
		resp, err := e.client.Get("http://" + httpAddr + "/healthcheck")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", resp.Status)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	config := readFile(t, filepath.Join(dir, "envoy.yaml"))
	config = with(t, config, map[string]string{
		"port_value: 10000": "port_value: 0",
		"port_value: 9901":  "port_value: 0",
		"port_value: 8000":  "port_value: " + portOf(t, backend.Listener.Addr().String()),
		"port_value: 8081":  "port_value: " + portOf(t, e.grpcAddr),
		"timeout: 0.1s":     "timeout: 10s",
	})
	e.envoy = testserver.Envoy(t, config)
	return e, httpAddr
}

// download gets so many bytes and returns the status.
func (e *edge) download(path string, n int, apiKey string) int {
	e.t.Helper()
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s%s/%d", e.envoy.Listener("edge"), path, n), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("x-api-key", apiKey)
	resp, err := e.client.Do(req)
	if err != nil {
		e.t.Fatalf("%v\nenvoy: %s", err, e.envoy.Output())
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		e.t.Fatal(err)
	}
	return resp.StatusCode
}

// left peeks at what a key has left of a limit.
func (e *edge) left(httpAddr, descriptor string) int64 {
	e.t.Helper()
	return e.leftIn(httpAddr, "bytes", descriptor)
}

// leftIn peeks at what a descriptor has left of its tightest limit.
func (e *edge) leftIn(httpAddr, domain, descriptor string) int64 {
	e.t.Helper()
	body := fmt.Sprintf(`{"domain":%q,"descriptors":[{"descriptor":%q,"hits":0}]}`, domain, descriptor)
	resp, err := e.client.Post("http://"+httpAddr+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Remaining int64 }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		e.t.Fatal(err)
	}
	return answer.Remaining
}

// A10: what Envoy has sent is charged when the stream is done, whether it fits or not,
// and who owes is not let in.
func TestA10EnvoyChargesBytesAtTheEnd(t *testing.T) {
	e, httpAddr := startBytes(t)
	if code := e.download("/files", 40_000, "alice"); code != http.StatusOK {
		t.Fatalf("the first one: %d", code)
	}
	const alice = "files:yes,api_key:alice"
	// A bucket fills up meanwhile, by 167 bytes in a second.
	e.eventually("40,000 bytes are charged", func() bool { n := e.left(httpAddr, alice); return n >= 60_000 && n < 100_000 })
	if code := e.download("/files", 300_000, "alice"); code != http.StatusOK {
		t.Fatalf("the second one: %d", code)
	}
	e.eventually("nothing is left", func() bool { return e.left(httpAddr, alice) == 0 })
	for range 3 {
		if code := e.download("/files", 10, "alice"); code != http.StatusTooManyRequests {
			t.Errorf("while bytes are owed: %d", code)
		}
	}
	if code := e.download("/files", 10, "bob"); code != http.StatusOK {
		t.Errorf("another key: %d", code)
	}
}

// A10: Envoy reserves at the start of a stream and settles at its end, by the id of the
// request alone.
//
//promise:usage-known-later
func TestA10EnvoySettlesReservations(t *testing.T) {
	e, httpAddr := startBytes(t)
	const alice = "reports:yes,api_key:alice"
	used := int64(0)
	for _, n := range []int{1_000, 50_000, 450_000} { // the last one is more than it reserved
		if code := e.download("/reports", n, "alice"); code != http.StatusOK {
			t.Fatalf("%d bytes: %d", n, code)
		}
		used += int64(n)
		e.eventually("it is settled", func() bool { return e.left(httpAddr, alice) == 1_000_000-used })
	}
	if code := e.download("/reports", 200_000, "alice"); code != http.StatusOK {
		t.Fatal(code)
	}
	e.eventually("it is settled", func() bool { return e.left(httpAddr, alice) == 299_000 })
	// 400,000 do not fit any more; who is denied is charged nothing, at the end either.
	for range 3 {
		if code := e.download("/reports", 10, "alice"); code != http.StatusTooManyRequests {
			t.Errorf("no room to reserve: %d", code)
		}
	}
	e.eventually("the ends of seven requests are told", func() bool { return e.envoy.Counter("cluster.headgate.upstream_rq_completed") == 14 })
	if left := e.left(httpAddr, alice); left != 299_000 {
		t.Errorf("after denials %d are left", left)
	}
}
