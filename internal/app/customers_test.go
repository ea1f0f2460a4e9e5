package app

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/customer"
	"github.com/headgate/headgate/tenant"
)

const testKey = "0123456789abcdef0123456789abcdef\n"

// operator asks the admin API.
type operator struct{ base, token string }

func (o operator) ask(t *testing.T, method, path, kind, body string) (int, string) {
	t.Helper()
	return o.send(t, method, adminapi.Prefix+path, kind, body)
}

func (o operator) send(t *testing.T, method, path, kind, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, o.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+o.token)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// startOperated starts a process with rules and the admin API, once it knows the
// database.
func startOperated(t *testing.T, s config.Serve, logger *slog.Logger) (map[string]string, operator) {
	t.Helper()
	token, lines, err := adminapi.NewToken("ann", adminapi.Admin, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.AdminTokens, "tokens:\n"+lines)
	at := startAuth(t, s, logger)
	o := operator{"http://" + at["admin"], token}
	putUntil(t, http.StatusOK, func() (int, string) { return o.ask(t, http.MethodGet, "quotas", "", "") })
	return at, o
}

// A customer reads his usage by a token that the admin API has made, at an address where
// nothing else is served; where decisions are asked for it is not.
func TestCustomersReadTheirUsage(t *testing.T) {
	s, _ := adminSettings(t)
	s.UsageKey, s.Rules = filepath.Join(t.TempDir(), "usage.key"), tenantSettings(t).Rules
	writeFile(t, s.UsageKey, testKey)
	s.UsageAddr = "127.0.0.1:0"
	var log syncBuffer
	at, o := startOperated(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	status, body := o.ask(t, http.MethodPost, "usage-tokens/tenant:acme", "application/json", `{"ttl":"1h"}`)
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s (%v)", status, body, err)
	}
	ask := func(token string) (int, string) {
		return operator{base: "http://" + at["usage"], token: token}.send(t, http.MethodGet, customer.Path, "", "")
	}
	if status, body := ask(made.Token); status != http.StatusOK || !strings.Contains(body, `"tenant:acme"`) || strings.Contains(body, "api.tenant") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask("wrong"); status != http.StatusUnauthorized {
		t.Errorf("with a bad token: %d", status)
	}
	for base, path := range map[string]string{at["http"]: customer.Path, at["usage"]: "/v1/check"} {
		if status, body := get(t, "http://"+base+path); status != http.StatusNotFound {
			t.Errorf("%s at %s: %d %s", path, base, status, body)
		}
	}
	writeFile(t, s.UsageKey, strings.ToUpper(testKey))
	putUntil(t, http.StatusUnauthorized, func() (int, string) { return ask(made.Token) })
	if strings.Contains(log.String(), made.Token) {
		t.Error("a token is in the log")
	}
	s.UsageKey += ".none"
	if err := Run(t.Context(), s, Options{Logger: quiet(), Out: io.Discard}); err == nil || !strings.Contains(err.Error(), "--usage-key") {
		t.Errorf("%v", err)
	}
}

// The admin API checks documents beside all that is in force, says where rules come
// from, and resets what was used.
func TestOperatorsChangeRules(t *testing.T) {
	s, _ := adminSettings(t)
	s.Rules = tenantSettings(t).Rules
	_, o := startOperated(t, s, quiet())
	put := func(name, text string) (int, string) {
		return o.ask(t, http.MethodPut, "rules/documents/"+name, "application/yaml", text)
	}
	if status, body := put("shop", "domain: shop\ndescriptors: [{key: cart, rate_limit: {unit: hour, requests_per_unit: 3}}]"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	for text, want := range map[string]string{
		"domain: api\ndescriptors: [{key: x, rate_limit: {unit: hour, requests_per_unit: 3}}]":      "the rule files have domain api already",
		"domain: bad\ndescriptors: [{key: x, rate_limit: {unit: fortnight, requests_per_unit: 3}}]": `"line":2`,
	} {
		if status, body := put("bad", text); status != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
	putUntil(t, http.StatusOK, func() (int, string) {
		status, body := o.ask(t, http.MethodGet, "rules", "", "")
		if !strings.Contains(body, `"source":"document"`) || !strings.Contains(body, `"source":"file"`) {
			return 0, body
		}
		return status, body
	})
	if status, body := o.ask(t, http.MethodPost, "usage/tenant:acme/reset", "application/json", "{}"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if status, body := o.ask(t, http.MethodDelete, "rules/documents/shop", "", ""); status != http.StatusNoContent {
		t.Errorf("%d %s", status, body)
	}
}

// Who is named in --hooks is told when a tenant comes near to the end of a limit.
func TestHooksAreTold(t *testing.T) {
	told := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		told <- string(body)
	}))
	defer receiver.Close()
	s, dir := tenantSettings(t), t.TempDir()
	s.Tiers, s.Hooks = "", filepath.Join(dir, "hooks.yaml")
	writeFile(t, filepath.Join(dir, "hooks.key"), testKey)
	writeFile(t, s.Hooks, "out: [{url: "+receiver.URL+", secret_file: hooks.key}]\n")
	dsn := "sqlite://" + filepath.Join(dir, "tenants.db")
	s.Tenants = databaseAt(dsn)
	putAccount(t, dsn, "acme", 10)
	r := run(t, s, nil)
	defer r.end(t)
	r.counts(t, "acme", 10)
	r.ask(t, `{"domain":"api","descriptors":[{"entries":[{"key":"tenant","value":"acme"}],"hits":8}]}`)
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	select {
	case body := <-told:
		if !strings.Contains(body, "quota.near_exhaustion") || !strings.Contains(body, "acme") {
			t.Error(body)
		}
	case <-timeout.C:
		t.Fatal("nobody was told")
	}
	r.shows(t, "/metrics", "headgate_webhook_sent_total 1")
	s.Hooks += ".none"
	if err := Run(t.Context(), s, Options{Logger: quiet(), Out: io.Discard}); err == nil || !strings.Contains(err.Error(), "--hooks") {
		t.Errorf("%v", err)
	}
}

// TestUsageByTheClockOfTheNode: what tenants have used is told by the wall clock by which the
// node decides, also while a drill has that be wrong.
func TestUsageByTheClockOfTheNode(t *testing.T) {
	s := settings()
	p, err := newProcess(&s.Settings, config.Does{Decide: true}, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer p.leave()
	p.stack.setClock(time.Hour)
	used, err := p.usage.Usage(t.Context(), []tenant.Subject{{Key: "tenant", Value: "acme"}})
	if err != nil || len(used) != 1 {
		t.Fatal(used, err)
	}
	if ahead := time.Until(used[0].At); ahead <= 0 {
		t.Errorf("usage is told as of %v, %v before the clock of the node", used[0].At, time.Hour-ahead)
	}
}
