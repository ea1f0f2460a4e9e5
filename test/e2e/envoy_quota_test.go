package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// startQuotas is startEdge with the admin API, and returns a token for that.
func startQuotas(t *testing.T) (e *edge, token string) {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	made, err := exec.Command(path, "admin", "token", "ann", "--scope", "write").Output()
	if err != nil {
		t.Fatal(err)
	}
	token, lines, _ := strings.Cut(string(made), "\n")
	for name, text := range map[string]string{"tokens.yaml": "tokens:\n" + lines, "hash.key": "a key for nothing but this test\n"} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return startEdge(t, "--tenants", "sqlite://"+in("tenants.db"), "--admin-hash-key", in("hash.key"),
		"--admin-addr", "127.0.0.1:0", "--admin-tokens", in("tokens.yaml"), "--log-level", "debug", "--denial-lines", "100"), token
}

// at returns an address of Headgate.
func (e *edge) at(name string) string {
	e.t.Helper()
	found := regexp.MustCompile(`headgate ready.* ` + name + `=(\S+)`).FindStringSubmatch(e.headgate.Output())
	if found == nil {
		e.t.Fatalf("no address %s: %s", name, e.headgate.Output())
	}
	return found[1]
}

// I2: a quota that was set for an API key limits what Envoy sends with that key as it
// is. Nobody has hashed anything, and the key is in no log.
func TestI2EnvoyIsLimitedByTheQuotaOfAKey(t *testing.T) {
	e, token := startQuotas(t)
	put, err := http.NewRequest(http.MethodPut, "http://"+e.at("admin")+"/admin/v1/quotas/alice-of-quotas",
		strings.NewReader(`{"overrides":[{"descriptor":"default","requests_per_unit":2,"unit":"minute"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	put.Header.Set("Authorization", "Bearer "+token)
	put.Header.Set("Content-Type", "application/json")
	e.eventually("the quota is written", func() bool { // once the database is open
		resp, err := e.client.Do(put)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		put.Body, _ = put.GetBody()
		return resp.StatusCode == http.StatusCreated || resp.StatusCode == http.StatusOK
	})
	const peek = `{"domain":"edge","descriptors":[{"descriptor":"route:orders,api_key:alice-of-quotas","hits":0}]}`
	e.eventually("the quota is in force", func() bool {
		resp, err := e.client.Post("http://"+e.at("http")+"/v1/check", "application/json", strings.NewReader(peek))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(answer), `"limit":2,`)
	})
	for i, want := range []int{200, 200, 429} {
		if resp := e.get("/orders", "alice-of-quotas"); resp.StatusCode != want || !strings.HasPrefix(resp.Header.Get("x-ratelimit-limit"), "2, 2;w=60") {
			t.Errorf("request %d: %s, %v", i+1, resp.Status, resp.Header)
		}
	}
	if resp := e.get("/orders", "bob"); resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("x-ratelimit-limit"), "5, 5;w=60") {
		t.Errorf("another key: %s, %v", resp.Status, resp.Header)
	}
	if out := e.headgate.Output(); strings.Contains(out, "alice-of-quotas") || !strings.Contains(out, "denied") {
		t.Errorf("the key is in the log, or no denial: %s", out)
	}
	if out := fmt.Sprint(e.envoy.Counter(askedFailed)); out != "0" {
		t.Errorf("envoy counted %s errors", out)
	}
}
