package e2e

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// TestN6Load: headgate load asks a process over HTTP and over gRPC, sees that its limits hold, and
// says so where more passes than rules may let pass.
func TestN6Load(t *testing.T) {
	binary, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, quota string) string {
		path := filepath.Join(t.TempDir(), name)
		text := "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: " + quota + ", algorithm: fixed_window}}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules, stricter := write("rules.yaml", "5"), write("stricter.yaml", "2")
	n := launch(t, "--rules", rules, "--store", "memory://", "--http-addr", "127.0.0.1:0")
	var at []string
	if err := n.process.Poll(func() error {
		if at = regexp.MustCompile(`headgate ready http=(\S+) grpc=(\S+)`).FindStringSubmatch(n.process.Output()); at == nil {
			return errors.New("not ready")
		}
		return nil
	}); err != nil {
		t.Fatalf("%v: %s", err, n.process.Output())
	}
	load := func(args ...string) (code int, out string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
		defer cancel()
		text, err := exec.CommandContext(ctx, binary, append([]string{"load", "--domain", "d", "--rate", "400", "--for", "500ms", "--keys", "4", "--timeout", "20s"}, args...)...).CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		return code, string(text)
	}
	for _, step := range []struct {
		name string
		code int
		args []string
		want []string
	}{
		{"HTTP", 0, []string{"--addr", "http://" + at[1], "--descriptor", "user:a{key}", "--rules", rules, "--slow", "0.1", "--slow-by", "10ms"}, []string{"sent       200 ", "allowed    20 of 200", "200: 20, 429: 180", "bounds     0 of 4 buckets broken"}},
		{"gRPC", 0, []string{"--addr", "grpc://" + at[2], "--descriptor", "user:b{key}", "--rules", rules, "--shape", "burst"}, []string{"allowed    20 of 200", "OK: 20, OVER_LIMIT: 180", "bounds     0 of 4 buckets broken"}},
		{"stricter rules", 1, []string{"--addr", "http://" + at[1], "--descriptor", "user:c{key}", "--rules", stricter, "--shape", "ramp", "--rate", "800"}, []string{"bounds     4 of 4 buckets broken", "rule d.user, user:c0: 5 hits passed, at most 4 may, by 2 per 365d"}},
		{"another domain", 0, []string{"--addr", "http://" + at[1], "--domain", "e", "--descriptor", "user:d{key}", "--json"}, []string{`"allowed": 200`, `"judged": 0`, `"unmatched": 200`}},
		{"no rule", 0, []string{"--addr", "http://" + at[1], "--descriptor", "usr:{key}"}, []string{"allowed    200 of 200; no rule is for 200 of them"}},
		{"nobody there", 2, []string{"--addr", "http://127.0.0.1:1", "--descriptor", "user:{key}"}, []string{"cannot dial: 200", "nothing was decided"}},
		{"no address", 2, []string{"--descriptor", "user:{key}"}, []string{"--addr"}},
		{"no way to ask", 2, []string{"--addr", "redis://" + at[1], "--descriptor", "user:{key}"}, []string{"http, https, grpc or grpcs"}},
		{"one key", 2, []string{"--addr", "http://" + at[1], "--descriptor", "user:x"}, []string{"it has no {key}"}},
		{"too much", 2, []string{"--addr", "http://" + at[1], "--descriptor", "user:{key}", "--rate", "5000"}, []string{"--unguarded"}},
		{"too many hits over gRPC", 2, []string{"--addr", "grpc://" + at[2], "--descriptor", "user:{key}", "--hits", "4294967296"}, []string{"--hits", "4294967295 at most"}},
		{"slow over gRPC", 2, []string{"--addr", "grpc://" + at[2], "--descriptor", "user:{key}", "--slow", "0.5"}, []string{"--slow"}},
	} {
		code, out := load(step.args...)
		for _, want := range step.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", step.name, want, out)
			}
		}
		if code != step.code {
			t.Errorf("%s: exit code %d, want %d\n%s", step.name, code, step.code, out)
		}
	}
}

// TestLoadAsksNoProxy: what is asked over gRPC goes to the address that was named, whatever proxy the environment has.
func TestLoadAsksNoProxy(t *testing.T) {
	binary, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	load := exec.CommandContext(ctx, binary, "load", "--addr", "grpc://nobody.invalid:8081", "--domain", "d", "--descriptor", "user:{key}", "--rate", "10", "--for", "100ms")
	load.Env = append(os.Environ(), "HTTPS_PROXY=http://"+proxy.Addr().String(), "HTTP_PROXY=http://"+proxy.Addr().String(), "NO_PROXY=")
	if out, err := load.CombinedOutput(); err == nil || !strings.Contains(string(out), "nothing was decided") {
		t.Fatalf("%v\n%s", err, out)
	}
	// The first connection to the proxy is this one, made after the command has ended.
	own, err := net.Dial("tcp", proxy.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := proxy.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("the proxy was asked")
	}
}
