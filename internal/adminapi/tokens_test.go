package adminapi

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// TestTokensAreRotated: a name may have several tokens, a file that changes counts,
// and one that is bad changes nothing.
func TestTokensAreRotated(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	tokens := s.handler.options.Tokens
	old, oldLines, _ := NewToken("ann", Read, s.now.Add(time.Hour))
	fresh, freshLines, _ := NewToken("ann", Read, time.Time{})
	status := func(token string) int {
		t.Helper()
		return s.send("GET", "tiers", "", "Authorization", "Bearer "+token).status
	}
	reload := func(text string, wantErr string) {
		t.Helper()
		s.write(text)
		changed, err := tokens.Reload()
		if !changed || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("Reload: %v, %v; want %q", changed, err, wantErr)
		}
		if changed, err := tokens.Reload(); changed || err != nil {
			t.Fatalf("Reload of the same: %v, %v", changed, err)
		}
	}
	reload("tokens:\n"+oldLines+freshLines, "")
	if status(old) != 200 || status(fresh) != 200 {
		t.Error("of two tokens of one name, one is not good")
	}
	reload("tokens:\n  - name: ann\n", "tokens[0]: sha256")
	if status(old) != 200 {
		t.Error("a bad file took a token away")
	}
	s.mu.Lock()
	s.now = s.now.Add(2 * time.Hour)
	s.mu.Unlock()
	if status(old) != 401 || status(fresh) != 200 {
		t.Error("an expired token is good, or another one expired with it")
	}
	reload("tokens:\n"+oldLines, "")
	if status(fresh) != 401 {
		t.Error("a token that was taken out is good")
	}
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	if changed, err := tokens.Reload(); !changed || err == nil {
		t.Errorf("without a file: %v, %v", changed, err)
	}
}

func TestTokenFile(t *testing.T) {
	digest := hex.EncodeToString(make([]byte, sha256.Size))
	for _, c := range []struct{ text, want string }{
		{"", "no tokens; hint"},
		{"tokens: [{name: a, sha256: abc, scopes: [read]}]", "tokens[0]: sha256: not 64 hexadecimal digits"},
		{"tokens: [{name: a, sha256: " + strings.Repeat("zz", 32) + ", scopes: [read]}]", "tokens[0]: sha256"},
		{"tokens: [{name: a, sha256: '" + digest + "', scopes: [all]}]", `tokens[0]: unknown scope; hint`},
		{"tokens: [{name: a, sha256: '" + digest + "'}]", "tokens[0]: no scopes; hint"},
		{"tokens: [{name: 'a b', sha256: '" + digest + "', scopes: [read]}]", "tokens[0]: the name of a token; hint"},
		{"tokens: [{name: 'cert:a', sha256: '" + digest + "', scopes: [read]}]", "tokens[0]: the name of a token; hint"},
		{"tokens: [{name: a, token: abc}]", "unknown key; hint: there is name, sha256"},
		{"tokens:\n- {name: a, sha256: '" + digest + "', scopes: [read]}\n- {name: b, sha256: '" + digest + "', scopes: [read]}", "tokens[1]: the same token twice"},
		{"certificates: [{subject: '', scopes: [read]}]", "certificates[0]: the subject"},
		{"certificates: [{subject: a, scopes: [read]}, {subject: a, scopes: [read]}]", "certificates[1]: the same subject twice"},
	} {
		if _, err := parseTokens([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

// overTLS has s served over TLS, to clients that are asked for certificates as ask says, and
// s.client show one: its common name is localhost.
func (s *testServer) overTLS(ask tls.ClientAuthType) *testserver.Certificates {
	s.t.Helper()
	certs := testserver.NewCertificates(s.t)
	pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	if err != nil {
		s.t.Fatal(err)
	}
	client := certs.Client()
	client.Certificates = []tls.Certificate{pair}
	server := httptest.NewUnstartedServer(s.handler)
	server.TLS = &tls.Config{Certificates: client.Certificates, ClientCAs: client.RootCAs, ClientAuth: ask}
	server.StartTLS()
	s.t.Cleanup(server.Close)
	s.url, s.client = server.URL, &http.Client{Transport: &http.Transport{TLSClientConfig: client}}
	s.t.Cleanup(s.client.CloseIdleConnections)
	return certs
}

// allowCertificate gives whoever has the certificate of overTLS the right to write.
func (s *testServer) allowCertificate() {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(string(text) + "certificates:\n  - {subject: localhost, scopes: [write]}\n")
	if _, err := s.handler.options.Tokens.Reload(); err != nil {
		s.t.Fatal(err)
	}
}

// TestClientCertificate: with mutual TLS the common name of a certificate that the
// file names is who asks, unless a token says another name.
func TestClientCertificate(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	certs := s.overTLS(tls.RequireAndVerifyClientCert)
	s.want(s.send("PUT", "quotas/tenant:a", `{"tier":"pro"}`), 401) // it is not in the file
	s.allowCertificate()
	r := s.want(s.send("PUT", "quotas/tenant:a", `{"tier":"pro"}`), 201)
	if r.header.Get("Strict-Transport-Security") == "" {
		t.Error("no Strict-Transport-Security")
	}
	s.want(s.send("POST", "import", `{"name":"tenant:a","tier":"free"}`), 403)
	s.want(s.do(Admin, "PUT", "quotas/tenant:a", `{"tier":"free"}`), 200)
	s.want(s.send("PUT", "quotas/tenant:a", `{"tier":"free"}`, "Authorization", "Bearer wrong"), 401)
	entries, err := s.db.Changes(t.Context(), 0, 10)
	if err != nil || len(entries) != 2 || entries[0].Actor != "cert:localhost" || entries[1].Actor != "test-admin" {
		t.Errorf("%+v, %v", entries, err)
	}
	none := certs.Client()
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: none}}
	if resp, err := s.client.Get(s.url + Prefix + "tiers"); err == nil {
		resp.Body.Close()
		t.Errorf("without a certificate: %s", resp.Status)
	}
}

// FuzzTokenFile: a file is refused, or each of its tokens has a name and a scope.
func FuzzTokenFile(f *testing.F) {
	f.Add("tokens:\n  - {name: a, sha256: " + strings.Repeat("0a", 32) + ", scopes: [read, admin], expires_at: 2026-01-01T00:00:00Z}\ncertificates: [{subject: a, scopes: [read]}]")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseTokens([]byte(text))
		if err != nil {
			return
		}
		for i := range k.tokens {
			if c := &k.tokens[i]; c.scope == None || c.actor == "" {
				t.Errorf("%+v", c)
			}
		}
	})
}
