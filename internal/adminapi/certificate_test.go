package adminapi

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// TestUnverifiedCertificateIsNobody: a server that asks for certificates and verifies
// none must not make whoever calls himself so an administrator.
func TestUnverifiedCertificateIsNobody(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	certs := testserver.NewCertificates(t)
	pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	s.write(string(text) + "certificates:\n  - {subject: localhost, scopes: [write]}\n")
	if _, err := s.handler.options.Tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s.handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	client := certs.Client()
	client.Certificates = []tls.Certificate{pair}
	s.url, s.client = server.URL, &http.Client{Transport: &http.Transport{TLSClientConfig: client}}
	t.Cleanup(s.client.CloseIdleConnections)
	s.want(s.send("PUT", "quotas/tenant:a", `{"tier":"pro"}`), 401)
	s.want(s.do(Admin, "PUT", "quotas/tenant:a", `{"tier":"free"}`), 201) // a token counts all the same
}
