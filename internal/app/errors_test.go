package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/usagetoken"
)

// wrongCall is one that a front answers by an error.
type wrongCall struct {
	front, method, path, body string
	header                    http.Header
	status                    int
	// text says that the page names the path as one that is answered by a line of text.
	text bool
}

// TestErrorsAreProblems: every HTTP front answers a call that was wrong as docs/errors.md says,
// by a problem whose type is a heading of that page, and by text where the page names the path.
func TestErrorsAreProblems(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	s := settings()
	dir := t.TempDir()
	s.Rules = filepath.Join(dir, "rules.yaml")
	writeFile(t, s.Rules, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 5}}]\n")
	s.AuthAddr, s.AuthPeers = "127.0.0.1:0", "192.0.2.0/24" // nobody who asks here
	s.HealthAddr, s.MetricsAddr, s.MetricsPath, s.DashboardAddr = "127.0.0.1:0", "127.0.0.1:0", "/metrics", "127.0.0.1:0"
	s.UsageAddr, s.UsageKey = "127.0.0.1:0", filepath.Join(dir, "usage.key")
	writeFile(t, s.UsageKey, testKey)
	keys, err := usagetoken.Load(s.UsageKey)
	if err != nil {
		t.Fatal(err)
	}
	customer, err := keys.Sign(descriptor.Entry{Key: "tenant", Value: "acme"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s.AdminAddr, s.AdminTokens = "127.0.0.1:0", filepath.Join(dir, "tokens.yaml")
	operator, lines, err := adminapi.NewToken("ann", adminapi.Read, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.AdminTokens, "tokens:\n"+lines)
	caller, lines, err := callers.NewToken("gateway", []string{"check", "explain"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	s.Callers.Callers = filepath.Join(dir, "callers.yaml")
	writeFile(t, s.Callers.Callers, "tokens:\n"+lines)
	at := startAuth(t, s, quiet())

	known, gateway, foreign := bearer(caller), http.Header{callers.TokenHeader: {caller}}, http.Header{"Host": {"evil.com"}}
	for _, c := range []wrongCall{
		{"http", "POST", "/v1/check", "{}", nil, 401, false},
		{"http", "POST", "/v1/check", "{", known, 400, false},
		{"http", "GET", "/v1/check", "", known, 405, false},
		{"http", "POST", "/nosuch", "{}", known, 404, false},
		{"http", "PUT", "/v1/openapi.json", "", known, 405, false},
		{"http", "POST", "/v1/explain", "{}", nil, 401, false},
		{"http", "POST", "/v1/explain", "{", known, 400, false},
		{"http", "GET", "/v1/explain", "", known, 405, false},
		{"http", "POST", "/json", "{}", nil, 401, true},
		{"http", "POST", "/json", "{", known, 400, true},
		{"auth", "GET", "/auth/nginx", "", nil, 403, false},
		{"auth", "GET", "/auth/nosuch", "", gateway, 404, false},
		{"auth", "GET", "/auth/nosuch", "", nil, 403, false},
		{"ops", "GET", "/nosuch", "", nil, 404, false},
		{"ops", "POST", "/readyz", "", nil, 405, false},
		{"ops", "PUT", "/metrics", "", nil, 405, false},
		{"ops", "GET", "/dual-run", "", nil, 404, false},
		{"ops", "POST", "/v1/explain", "{", nil, 400, false},
		{"ops", "GET", "/v1/explain", "", nil, 405, false},
		{"ops", "GET", "/", "", foreign, 421, false},
		{"health", "GET", "/nosuch", "", nil, 404, false},
		{"health", "POST", "/healthz", "", nil, 405, false},
		{"metrics", "GET", "/nosuch", "", nil, 404, false},
		{"metrics", "POST", "/metrics", "", nil, 405, false},
		{"usage", "GET", "/v1/usage", "", nil, 401, false},
		{"usage", "POST", "/v1/usage", "", bearer(customer), 405, false},
		{"usage", "GET", "/nosuch", "", nil, 404, false},
		{"admin", "GET", "/admin/v1/nosuch", "", nil, 401, false},
		{"admin", "GET", "/admin/v1/nosuch", "", bearer(operator), 404, false},
		{"admin", "PATCH", "/admin/v1/rules", "", bearer(operator), 405, false},
		{"admin", "GET", "/nosuch", "", bearer(operator), 404, false},
		{"dashboard", "GET", "/nosuch", "", nil, 404, false},
		{"dashboard", "PUT", "/", "", nil, 405, false},
	} {
		t.Run(c.front+" "+c.method+c.path, func(t *testing.T) { c.check(t, at[c.front], string(page)) })
	}
}

// check asks the front at addr, and compares its answer with the page.
func (c *wrongCall) check(t *testing.T, addr, page string) {
	r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = c.header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Host = c.header.Get("Host") // "" is the address
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != c.status {
		t.Errorf("status %d, want %d", resp.StatusCode, c.status)
	}
	if c.status == http.StatusMethodNotAllowed && resp.Header.Get("Allow") == "" {
		t.Error("there is no Allow")
	}
	media := resp.Header.Get("Content-Type")
	if c.text {
		exceptions, _, _ := strings.Cut(page, "\n## ")
		if !strings.Contains(exceptions, "\n- `"+c.path+"`") || !strings.HasPrefix(media, "text/plain") {
			t.Errorf("%s: the page has to name what is no problem", media)
		}
		return
	}
	var body problems.Body
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || media != problems.MediaType {
		t.Fatalf("%s is no %s: %v", media, problems.MediaType, err)
	}
	_, section, _ := strings.Cut(body.Type, "docs/errors.md#")
	_, about, found := strings.Cut(page, "\n## "+section+"\n")
	if about, _, _ = strings.Cut(about, "\n## "); !found || !strings.Contains(about, fmt.Sprintf("**%d.**", c.status)) {
		t.Errorf("the page does not say of %s that it is %d", body.Type, c.status)
	}
	if body.Status != c.status || body.Detail == "" || body.Title != http.StatusText(c.status) {
		t.Errorf("%+v", body)
	}
}
