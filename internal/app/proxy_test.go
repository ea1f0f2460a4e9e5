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
		{"no certificate", twoADay, func(s *config.Proxy) { s.TLSCert, s.TLSKey = "absent.pem", "absent.key" }, "--tls-cert, --tls-key: open absent.pem"},
		{"another key", twoADay, func(s *config.Proxy) {
			s.TLSCert, s.TLSKey = certificates.CertFile, testserver.NewCertificates(t).KeyFile
		}, "private key does not match"},
		{"rules of a database without a domain", twoADay, func(s *config.Proxy) {
			s.Rules, s.Tenants = "", config.NewDatabaseURL("sqlite://"+filepath.Join(t.TempDir(), "t.db"))
		}, "--domain: the rule files have none; hint: name the domain of the rules in the database"},
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
	s.Rules, s.Domain, s.Tenants = "", "a", config.NewDatabaseURL(dsn)
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
	handler := started.server.(*gentleServer).Handler
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
	handler := started.server.(*gentleServer).Handler
	for i, want := range []int{200, 200, 429} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "@"
		handler.ServeHTTP(w, r)
		if w.Code != want || w.Body.Len() > 0 && want == 200 {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
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
	r := &backendReporter{logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 1000 {
		r.report(io.ErrUnexpectedEOF)
	}
	if lines := strings.Count(log.String(), "\n"); lines < 2 || lines > 6 {
		t.Errorf("%d lines", lines)
	}
}
