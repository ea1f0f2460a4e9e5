package adminapi

import (
	"bytes"
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

// TestCertificateOfABrowser: a browser shows its certificate to whichever page asks; so what a
// page of another origin asks for by it is not done. A token, which no other page has, counts.
func TestCertificateOfABrowser(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	s.overTLS(tls.RequireAndVerifyClientCert)
	s.allowCertificate()
	s.want(s.send("PUT", "quotas/tenant:a", `{"tier":"pro"}`), 201)
	reset := func(header ...string) testReply { return s.send("POST", "usage/tenant:a/reset", "", header...) }
	s.want(reset(), 200)
	s.want(reset("Origin", s.url, "Sec-Fetch-Site", "same-origin"), 200)
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example"},
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
	} {
		if r := s.want(reset(header...), 403); !bytes.Contains(r.body, []byte("a page of another origin")) {
			t.Errorf("%q: %s", header, r.body)
		}
		s.want(reset(append(header, "Authorization", "Bearer "+s.tokens[Write])...), 200)
	}
	s.want(s.send("GET", "quotas/tenant:a", "", "Sec-Fetch-Site", "cross-site"), 200) // which the other page cannot read
}
