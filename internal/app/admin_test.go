package app

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// adminSettings serve the admin API on a database of SQLite, and return a token that
// may write.
func adminSettings(t *testing.T) (s config.Serve, token string) {
	t.Helper()
	s = settings()
	dir := t.TempDir()
	s.AdminAddr, s.AdminTokens = "127.0.0.1:0", filepath.Join(dir, "tokens.yaml")
	s.Tenants = databaseAt("sqlite://" + filepath.Join(dir, "tenants.db"))
	s.Tiers = filepath.Join(dir, "tiers.yaml")
	writeFile(t, s.Tiers, "tiers: {free: {default: {requests_per_unit: 1, unit: hour}}, pro: {default: {requests_per_unit: 9, unit: hour}}}")
	token, lines, err := adminapi.NewToken("ann", adminapi.Write, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.AdminTokens, "tokens:\n"+lines)
	return s, token
}

func putTier(t *testing.T, client *http.Client, base, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+adminapi.Prefix+"quotas/tenant:acme", strings.NewReader(`{"tier":"pro"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(r)
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

// putUntil waits until put answers with a status, and asks no more often than the
// admin API allows.
func putUntil(t *testing.T, want int, put func() (int, string)) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		status, body := put()
		if status == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %d: %s, want %d", status, body, want)
		}
	}
}

// TestAdminAPI: the API is a listener of its own, works once the database is open, and
// its file of tokens is read again.
func TestAdminAPI(t *testing.T) {
	s, token := adminSettings(t)
	var log syncBuffer
	at := startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	base := "http://" + at["admin"]
	putUntil(t, http.StatusCreated, func() (int, string) { return putTier(t, http.DefaultClient, base, token) })
	for _, other := range []string{at["http"], at["ops"]} {
		if status, _ := putTier(t, http.DefaultClient, "http://"+other, token); status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			t.Errorf("the admin API is on %s: %d", other, status)
		}
	}
	fresh, lines, err := adminapi.NewToken("ben", adminapi.Write, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.AdminTokens, "tokens:\n"+lines)
	putUntil(t, http.StatusOK, func() (int, string) { return putTier(t, http.DefaultClient, base, fresh) })
	// Until the next second it may be told that it has asked too often with a bad token.
	putUntil(t, http.StatusUnauthorized, func() (int, string) { return putTier(t, http.DefaultClient, base, token) })
	if strings.Contains(log.String(), token) || strings.Contains(log.String(), fresh) {
		t.Error("a token is in the log")
	}
}

// TestAdminAPIOverTLS: with --admin-client-ca nobody is served without a certificate.
func TestAdminAPIOverTLS(t *testing.T) {
	s, token := adminSettings(t)
	certs := testserver.NewCertificates(t)
	s.AdminTLSCert, s.AdminTLSKey, s.AdminClientCA = certs.CertFile, certs.KeyFile, certs.CAFile
	at := startAuth(t, s, slog.New(slog.DiscardHandler))
	pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	known, stranger := certs.Client(), certs.Client()
	known.Certificates = []tls.Certificate{pair}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: known}}
	defer client.CloseIdleConnections()
	putUntil(t, http.StatusCreated, func() (int, string) { return putTier(t, client, "https://"+at["admin"], token) })
	nobody := &http.Client{Transport: &http.Transport{TLSClientConfig: stranger}}
	if resp, err := nobody.Get("https://" + at["admin"] + adminapi.Prefix + "tiers"); err == nil {
		resp.Body.Close()
		t.Errorf("without a certificate: %s", resp.Status)
	}
}

// TestAdminAuthoritiesAreReadAgain: another file of --admin-client-ca counts without a restart,
// and who has a certificate of the authority before is served no longer.
func TestAdminAuthoritiesAreReadAgain(t *testing.T) {
	s, token := adminSettings(t)
	before, after := testserver.NewCertificates(t), testserver.NewCertificates(t)
	s.AdminTLSCert, s.AdminTLSKey, s.AdminClientCA = before.CertFile, before.KeyFile, filepath.Join(t.TempDir(), "ca.pem")
	trust := func(file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, s.AdminClientCA, string(text))
	}
	trust(before.CAFile)
	at := startAuth(t, s, quiet())
	served := func(certs *testserver.Certificates) bool {
		pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		config := before.Client() // the server goes on with its certificate
		config.Certificates = []tls.Certificate{pair}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: waits.Patience}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at["admin"]+adminapi.Prefix+"me", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(r)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	if !served(before) || served(after) {
		t.Fatal("a client of the authority is not served, or a stranger is")
	}
	trust(after.CAFile)
	waits.True(t, "the new authority counts", func() bool { return served(after) })
	if served(before) {
		t.Error("a client of the authority before is still served")
	}
}

// TestDashboardByCertificate: with --dashboard-client-ca nobody is served without a certificate,
// and who has one still logs in.
func TestDashboardByCertificate(t *testing.T) {
	s, _ := adminSettings(t)
	certs := testserver.NewCertificates(t)
	s.DashboardAddr, s.DashboardTLSCert, s.DashboardTLSKey, s.DashboardClientCA = "127.0.0.1:0", certs.CertFile, certs.KeyFile, certs.CAFile
	at := startAuth(t, s, quiet())
	status := func(config *tls.Config, path string) int {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: waits.Patience}
		resp, err := client.Get("https://" + at["dashboard"] + path)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	shown := certs.ClientWith(t, certs.CertFile, certs.KeyFile)
	if page, api := status(shown, "/"), status(shown, "/api/me"); page != http.StatusOK || api != http.StatusUnauthorized {
		t.Errorf("with a certificate: %d, and without a login %d", page, api)
	}
	if got := status(certs.Client(), "/"); got != 0 {
		t.Errorf("without a certificate: %d", got)
	}
}

// TestChangesUnderWayAreMadeAtTheEnd: a change whose body is still coming when the process
// is to end finds the database open.
func TestChangesUnderWayAreMadeAtTheEnd(t *testing.T) {
	s, token := adminSettings(t)
	s.DrainTimeout = time.Minute
	at, stop := startUntil(t, s, slog.New(slog.DiscardHandler))
	base := "http://" + at["admin"]
	putUntil(t, http.StatusCreated, func() (int, string) { return putTier(t, http.DefaultClient, base, token) })

	conn, err := net.Dial("tcp", at["admin"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const body = `{"tier":"free"}`
	fmt.Fprintf(conn, "PUT %squotas/tenant:late HTTP/1.1\r\nHost: headgate\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", adminapi.Prefix, token, len(body), body[:1])
	stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C { // until nobody new is served
		other, err := net.Dial("tcp", at["admin"])
		if err != nil {
			break
		}
		other.Close()
		if time.Now().After(deadline) {
			t.Fatal("it goes on listening")
		}
	}
	fmt.Fprint(conn, body[1:])
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Errorf("%s", answer.Status)
	}
}

func TestBadAdminFiles(t *testing.T) {
	byIssuer := func(s *config.Serve) {
		s.DashboardAddr, s.DashboardURL, s.OIDCIssuer, s.OIDCClient = "127.0.0.1:0", "https://gate.example", "https://login.example", "headgate"
	}
	for name, spoil := range map[string]func(*config.Serve){
		"--dashboard-oidc-secret: password file":   func(s *config.Serve) { byIssuer(s); s.OIDCSecret = s.AdminTokens + ".none" },
		"--dashboard-oidc-issuer: it is not https": func(s *config.Serve) { byIssuer(s); s.OIDCIssuer = "http://login.example" },
		"--dashboard-oidc-scopes: ":                func(s *config.Serve) { byIssuer(s); s.OIDCScopes = "a b" },
		"--admin-tokens":                           func(s *config.Serve) { s.AdminTokens += ".none" },
		"--admin-hash-key":                         func(s *config.Serve) { s.AdminHashKey = s.AdminTokens + ".none" },
		"--admin-tls-cert":                         func(s *config.Serve) { s.AdminTLSCert, s.AdminTLSKey = s.AdminTokens, s.AdminTokens },
		"--admin-client-ca": func(s *config.Serve) {
			c := testserver.NewCertificates(t)
			s.AdminTLSCert, s.AdminTLSKey, s.AdminClientCA = c.CertFile, c.KeyFile, s.AdminTokens
		},
	} {
		s, _ := adminSettings(t)
		spoil(&s)
		err := Run(t.Context(), s, Options{Logger: slog.New(slog.DiscardHandler), Out: io.Discard})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
