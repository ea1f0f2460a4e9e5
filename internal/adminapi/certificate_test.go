package adminapi

import (
	"crypto/tls"
	"testing"
)

// TestUnverifiedCertificateIsNobody: a server that asks for certificates and verifies
// none must not make whoever calls himself so an administrator.
func TestUnverifiedCertificateIsNobody(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	s.overTLS(tls.RequireAnyClientCert)
	s.allowCertificate()
	s.want(s.send("PUT", "quotas/tenant:a", `{"tier":"pro"}`), 401)
	s.want(s.do(Admin, "PUT", "quotas/tenant:a", `{"tier":"free"}`), 201) // a token counts all the same
}
