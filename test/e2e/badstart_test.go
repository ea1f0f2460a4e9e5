package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// askedAs asks at /json for an address, and returns the status and what was said.
func (n *node) askedAs(t *testing.T, domain string) (int, string) {
	t.Helper()
	resp, err := http.Post("http://"+n.at(t, "http")+"/json", "application/json",
		strings.NewReader(fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}`, domain)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestBadFirstRules: under the name of envoyproxy/ratelimit a first file that is bad does not end
// the start. Every call is an error until the file is good, and health is as the environment says.
// `headgate serve` does not start.
func TestBadFirstRules(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(config, "rules"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("domain: [")
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "serve", "--compat", "envoy", "--rules", config, "--http-addr", "127.0.0.1:0", "--grpc-addr", "").CombinedOutput(); err == nil {
		t.Errorf("headgate serve starts: %s", out)
	}
	for healthy, want := range map[string]int{"false": http.StatusOK, "true": http.StatusInternalServerError} {
		t.Run("health waits: "+healthy, func(t *testing.T) {
			write("domain: [")
			n := startRatelimit(t, "RUNTIME_ROOT="+dir, "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED="+healthy)
			health := func() int {
				resp, err := http.Get("http://" + n.at(t, "http") + "/healthcheck")
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				return resp.StatusCode
			}
			if code, said := n.askedAs(t, "edge"); code != http.StatusServiceUnavailable || said != "no rate limit configuration loaded\n" {
				t.Errorf("%d %s", code, said)
			}
			const counted = `ratelimit_service_should_rate_limit_error{err_type="service_error"} 1`
			if got := n.shown(t, n.at(t, "metrics"), "/metrics", ""); !strings.Contains(got, counted+"\n") {
				t.Errorf("metrics do not say %s", counted)
			}
			if got := health(); got != want {
				t.Errorf("health is %d, want %d", got, want)
			}
			if output := n.process.Output(); !strings.Contains(output, "rules refused") {
				t.Errorf("the log does not say why: %s", output)
			}
			write(oldRules["edge"])
			eventually.True(t, "the good file is in force", func() bool { code, _ := n.askedAs(t, "edge"); return code != http.StatusServiceUnavailable })
			if got := health(); got != http.StatusOK {
				t.Errorf("health is %d", got)
			}
		})
	}
}

// TestDomainTwice: who has variables is told the one that lets two files have one domain, at the
// start, by /readyz and at a reload.
func TestDomainTwice(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(config, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a", oldRules["edge"])
	write("b", oldRules["edge"])
	const hint = "--merge-domains; hint: here --merge-domains stands for MERGE_DOMAIN_CONFIG=true"
	n := startRatelimit(t, "RUNTIME_ROOT="+dir)
	if output := n.process.Output(); strings.Count(output, hint) != 1 || !strings.Contains(output, "no rules are in force") {
		t.Errorf("the log of the start does not say %s once:\n%s", hint, output)
	}
	if got := n.shown(t, n.at(t, "ops"), "/readyz", ""); !strings.Contains(got, hint) {
		t.Errorf("/readyz does not say %s:\n%s", hint, got)
	}
	write("b", oldRules["hourly"])
	eventually.True(t, "the good files are in force", func() bool { code, _ := n.askedAs(t, "hourly"); return code == http.StatusOK })
	write("b", oldRules["edge"])
	eventually.True(t, "the log says that the files are bad again, and how they would be good", func() bool {
		_, after, _ := strings.Cut(n.process.Output(), "those in force stay")
		return strings.Contains(after, hint)
	})
}

// TestQuotaMode: with QUOTA_MODE a rule that is over denies nothing as long as another one is
// not, and all of them together do.
func TestQuotaMode(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "rules"), []byte(`domain: two
descriptors:
- key: a
  rate_limit: {unit: year, requests_per_unit: 1}
- key: b
  rate_limit: {unit: year, requests_per_unit: 2}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startRatelimit(t, "RUNTIME_ROOT="+dir, "QUOTA_MODE=true")
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		resp, err := http.Post("http://"+n.at(t, "http")+"/json", "application/json",
			strings.NewReader(`{"domain": "two", "descriptors": [{"entries": [{"key": "a", "value": "x"}]}, {"entries": [{"key": "b", "value": "x"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("request %d: %s, want %d", i+1, resp.Status, want)
		}
	}
}
