package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// proxyBefore is what the command line makes of these rules before a backend.
func proxyBefore(t *testing.T, to, rules string) config.Proxy {
	t.Helper()
	s := config.Proxy{Settings: shared(), To: to, HTTPAddr: "127.0.0.1:0", BackendTimeout: time.Minute, MaxHeader: 64 << 10}
	s.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(s.Rules, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

const twoADay = "domain: a\ndescriptors:\n  - {key: remote_address, rate_limit: {window: 365d, requests_per_unit: 2, algorithm: fixed_window}}\n"

func TestRunProxyRefusesToStart(t *testing.T) {
	certificates := testserver.NewCertificates(t)
	for _, tt := range []struct {
		name, rules string
		change      func(*config.Proxy)
		want        string
	}{
		{"two domains", twoADay, func(s *config.Proxy) {
			s.Rules = filepath.Dir(s.Rules)
			if err := os.WriteFile(filepath.Join(s.Rules, "b.yaml"), []byte(strings.Replace(twoADay, "domain: a", "domain: b", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, `--domain: the rules have the domains ["a" "b"]; hint:`},
		{"another domain", twoADay, func(s *config.Proxy) { s.Domain = "b" }, `--domain: "b" has no rules; hint: the rules have the domains ["a"]`},
		{"bad rules", "domain: a\nrules: 7\n", nil, "rules.yaml:2"},
		{"no identity", twoADay, func(s *config.Proxy) { s.Identity = "absent.yaml" }, "absent.yaml"},
		{"no certificate", twoADay, func(s *config.Proxy) { s.TLSCert, s.TLSKey = "absent.pem", "absent.key" }, "--tls-cert, --tls-key: stat absent.pem"},
		{"another key", twoADay, func(s *config.Proxy) {
			s.TLSCert, s.TLSKey = certificates.CertFile, testserver.NewCertificates(t).KeyFile
		}, "private key does not match"},
		{"rules of a database without a domain", twoADay, func(s *config.Proxy) {
			s.Rules, s.Tenants = "", databaseAt("sqlite://"+filepath.Join(t.TempDir(), "t.db"))
		}, "--domain: the rule files have none; hint: name the domain of the rules in the database"},
		{"rules of snapshots without a domain", twoADay, func(s *config.Proxy) {
			s.Rules, s.AdminURLs = "", "http://127.0.0.1:1"
			_, s.SnapshotKeys = testserver.SigningKeys(t)
		}, "--domain: the rule files have none; hint: name the domain of the rules in the database"},
		{"rules of a control plane without a domain", twoADay, func(s *config.Proxy) { s.Rules, s.XDSServer = "", "127.0.0.1:1" }, "--domain: --xds-server has sent no rules yet; hint: name"},
		{"bad headers", twoADay, func(s *config.Proxy) { s.Headers = "x" }, `"x"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := proxyBefore(t, "http://127.0.0.1:1", tt.rules)
			if tt.change != nil {
				tt.change(&s)
			}
			err := RunProxy(t.Context(), s, Options{Logger: quiet(), Out: io.Discard})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestProxyByRulesOfADatabase: rules that come after the start limit requests.
func TestProxyByRulesOfADatabase(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	s := proxyBefore(t, backend.URL, twoADay)
	dsn := "sqlite://" + filepath.Join(t.TempDir(), "t.db")
	s.Rules, s.Domain, s.Tenants = "", "a", databaseAt(dsn)
	db := openDatabase(t, dsn)
	p, err := newProcess(&s.Settings, config.Does{Decide: true}, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stack.Close()
	if err := p.loadRules(); err != nil {
		t.Fatal(err)
	}
	f, err := p.forwarder(&s)
	if err != nil {
		t.Fatal(err)
	}
	started := f.start(nil).(*proxyServer)
	defer started.proxy.Shutdown(t.Context())
	handler := started.server.(*gentleServer).server.(*http.Server).Handler
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.health.tenants.Watch(ctx) }()
	defer func() { cancel(); <-ended }()
	putDocument(t, db, sqltenant.RulesDocument, "a", twoADay)
	putUntil(t, http.StatusTooManyRequests, func() (int, string) {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	})
}

// TestProxyByRulesOfSnapshots: a proxy without credentials of the database limits by the rules in
// it, which an admin process gives it.
func TestProxyByRulesOfSnapshots(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	admin, token := adminSettings(t)
	admin.Roles, admin.TenantsDir = "admin", t.TempDir()
	s := proxyBefore(t, backend.URL, twoADay)
	admin.SnapshotSignKey, s.SnapshotKeys = testserver.SigningKeys(t)
	putDocument(t, openDatabase(t, admin.Tenants.Reveal()), sqltenant.RulesDocument, "a", twoADay)
	s.Rules, s.Domain = "", "a"
	s.AdminURLs, s.AdminURLsToken, s.TenantsDir = "http://"+startAuth(t, admin, quiet())["admin"], filepath.Join(t.TempDir(), "token"), t.TempDir()
	writeFile(t, s.AdminURLsToken, token)
	clients, _ := runProxy(t, s)
	putUntil(t, http.StatusTooManyRequests, func() (int, string) { return get(t, clients) })
}

// TestProxyAwaitsAControlPlane: a proxy whose rules come from a control plane starts before that has
// answered, and lets requests pass meanwhile.
func TestProxyAwaitsAControlPlane(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	s := proxyBefore(t, backend.URL, twoADay)
	s.Rules, s.Domain, s.XDSServer, s.XDSNode = "", "a", "127.0.0.1:1", "n"
	clients, ops := runProxy(t, s)
	if status, body := get(t, clients); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if _, metrics := get(t, ops+"/metrics"); !strings.Contains(metrics, "\nheadgate_rules_xds_connected 0\n") {
		t.Error("nothing says that the control plane is away")
	}
}

// TestProxyOverUnixSocket: whoever connects there counts as this machine.
func TestProxyOverUnixSocket(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("X-Forwarded-For"))
	}))
	defer backend.Close()
	s := proxyBefore(t, backend.URL, twoADay)
	s.HTTPAddr = "unix:///run/x.sock"
	p, err := newProcess(&s.Settings, config.Does{Decide: true}, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stack.Close()
	if err := p.loadRules(); err != nil {
		t.Fatal(err)
	}
	f, err := p.forwarder(&s)
	if err != nil {
		t.Fatal(err)
	}
	started := f.start(nil).(*proxyServer)
	defer started.proxy.Shutdown(t.Context())
	handler := started.server.(*gentleServer).server.(*http.Server).Handler
	for i, want := range []int{200, 200, 429} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "@"
		handler.ServeHTTP(w, r)
		if w.Code != want || w.Body.Len() > 0 && want == 200 {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
}

// TestProxyIsOperated: operators reach a proxy as they reach a node that is asked, with programs
// and with browsers, and what they switch holds for the clients of the backend.
func TestProxyIsOperated(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	s := proxyBefore(t, backend.URL, twoADay)
	s.NodeName, s.AuditBuffer, s.TopKeys = "door", 1024, 16
	s.AdminAddr, s.DashboardAddr, s.DashboardSession = "127.0.0.1:0", "127.0.0.1:0", time.Hour
	s.AdminTokens = filepath.Join(t.TempDir(), "tokens.yaml")
	token, lines, err := adminapi.NewToken("ann", adminapi.Admin, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.AdminTokens, "tokens:\n"+lines)
	at, _ := startRun(t, func(ctx context.Context, o Options) error { return RunProxy(ctx, s, o) }, quiet())
	ask := func(method, address, path, token, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+at[address]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = bearer(token)
		r.Header.Set("Content-Type", "application/json")
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
	for i, want := range []int{200, 200, 429} {
		if status, body := ask("GET", "http", "/", "", ""); status != want {
			t.Fatalf("request %d: %d %s", i, status, body)
		}
	}
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "overview", "", `"name":"door"`},
		{"GET", "overview", "", `"requests":{"allowed":2,"denied":1`},
		{"GET", "keys?by=denied", "", `"key":"remote_address:127.0.0.1"`},
		{"GET", "fleet", "", `"self":true`},
		{"POST", "explain", `{"domain":"a","descriptors":[{"entries":[{"key":"remote_address","value":"127.0.0.1"}]}]}`, `"allowed":false`},
	} {
		putUntil(t, http.StatusOK, func() (int, string) {
			status, body := ask(tt.method, "admin", adminapi.Prefix+tt.path, token, tt.body)
			if status == http.StatusOK && !strings.Contains(body, tt.want) {
				return 0, tt.path + " lacks " + tt.want + ": " + body
			}
			return status, body
		})
	}
	putUntil(t, http.StatusOK, func() (int, string) {
		status, body := ask("GET", "admin", adminapi.Prefix+"events?outcome=denied", token, "")
		if !strings.Contains(body, `"rule":"a.remote_address"`) {
			return 0, body
		}
		return status, body
	})
	// Through the address of browsers too, and to nobody without a token.
	if status, body := ask("GET", "dashboard", "/", "", ""); status != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("the dashboard: %d %s", status, body)
	}
	for address, path := range map[string]string{"admin": adminapi.Prefix, "dashboard": "/api/"} {
		if status, body := ask("GET", address, path+"overview", "", ""); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d %s", address, status, body)
		}
	}
	if status, body := ask("GET", "http", adminapi.Prefix+"overview", token, ""); status != http.StatusTooManyRequests {
		t.Errorf("the address of clients: %d %s", status, body)
	}
	if status, body := ask("PUT", "admin", adminapi.Prefix+"switches/rule:a.remote_address", token, `{"state":"off"}`); status != http.StatusCreated {
		t.Fatalf("switch: %d %s", status, body)
	}
	putUntil(t, http.StatusOK, func() (int, string) { return ask("GET", "http", "/", "", "") })
}

func TestUpgradesAreNotClosedWhileDraining(t *testing.T) {
	h := &health{}
	h.draining.Store(true)
	handler := closing(&h.draining, http.NotFoundHandler())
	for upgrade, want := range map[string]string{"": "close", "websocket": ""} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		if upgrade != "" {
			r.Header.Set("Upgrade", upgrade)
		}
		handler.ServeHTTP(w, r)
		if got := w.Header().Get("Connection"); got != want {
			t.Errorf("upgrade %q: Connection %q, want %q", upgrade, got, want)
		}
	}
}

func TestBackendTroubleIsToldNowAndThen(t *testing.T) {
	var log strings.Builder
	tell := sometimes(slog.New(slog.NewTextHandler(&log, nil)).Warn, backendLines, "the backend did not answer")
	for range 1000 {
		tell(io.ErrUnexpectedEOF)
	}
	if lines := strings.Count(log.String(), "\n"); lines < 2 || lines > 6 {
		t.Errorf("%d lines", lines)
	}
}
