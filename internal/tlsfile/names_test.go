package tlsfile_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/tlsfile"
)

func certificate(t *testing.T, cn string, names ...string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{Subject: pkix.Name{CommonName: cn}}
	for _, n := range names {
		if u, err := url.Parse(n); err == nil && strings.Contains(n, "://") {
			c.URIs = append(c.URIs, u)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	return c
}

func TestMatch(t *testing.T) {
	envoy := certificate(t, "envoy", "A.Edge.internal", "spiffe://prod/ns/edge/sa/envoy")
	for pattern, want := range map[string]bool{
		"cn:envoy":                           true,
		"cn:Envoy":                           false,
		"dns:envoy":                          false, // the common name is no DNS name
		"dns:a.edge.internal":                true,
		"dns:A.EDGE.internal":                true,
		"dns:*.edge.internal":                true,
		"dns:*.internal":                     false,
		"dns:edge.internal":                  false,
		"uri:spiffe://prod/ns/edge/sa/envoy": true,
		"spiffe://prod/ns/edge/sa/envoy":     true,
		"spiffe://prod/ns/edge/*":            true,
		"uri:spiffe://prod/*":                true,
		"spiffe://prod/ns/edge":              false,
		"spiffe://prod/ns/edg/*":             false,
		"spiffe://prod/ns/edge/sa/envoy/*":   false,
		"cn:*":                               false, // no pattern
	} {
		n, err := tlsfile.ParseName(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		if got := n.Match(envoy); got != want {
			t.Errorf("%s: %v", pattern, got)
		}
		if again, err := tlsfile.ParseName(n.String()); err != nil || again != n {
			t.Errorf("%s is written %s, which reads as %v, %v", pattern, n, again, err)
		}
	}
	edge, err := tlsfile.ParseName("spiffe://prod/ns/edge/*")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"spiffe://prod/ns/edge/..a": true, "spiffe://prod/ns/edge/../admin": false, "spiffe://prod/ns/edge/sa/..": false,
		"spiffe://prod/ns/edge/./a": false, "spiffe://prod/ns/edge/%2e%2E/admin": false, "spiffe://prod/ns/edge/.%2e/admin": false,
	} {
		if got := edge.Match(certificate(t, "", name)); got != want {
			t.Errorf("%s is below edge: %v", name, got)
		}
	}
	if (tlsfile.Name{}).Match(certificate(t, "", "")) {
		t.Error("the zero name is that of a certificate")
	}
	names := tlsfile.NamesOf(envoy)
	if want := []string{"uri:spiffe://prod/ns/edge/sa/envoy", "dns:a.edge.internal", "cn:envoy"}; !slices.Equal(names, want) {
		t.Errorf("names %q", names)
	}
}

func TestBadNames(t *testing.T) {
	for _, text := range []string{
		"", "envoy", "dns:", "cn:", "uri:", "uri:envoy", "dns:*", "dns:*.", "dns:.", "dns:.internal", "dns:a*.internal", "dns:*.*.internal",
		"spiffe://prod/*/envoy", "email:a@b", "cn:a\nb", "cn:a,b", "dns:a b", "cn:" + strings.Repeat("x", tlsfile.MaxName),
	} {
		if n, err := tlsfile.ParseName(text); err == nil || !strings.Contains(err.Error(), "hint") {
			t.Errorf("%q: %v, %v", text, n, err)
		}
	}
}

// FuzzParseName: what is read is written in a form that reads as the same, and is the
// name of no certificate without names.
func FuzzParseName(f *testing.F) {
	for _, text := range []string{"cn:envoy", "dns:*.edge.internal", "spiffe://prod/ns/*", "uri:https://a", "dns:*", "uri:/*", "dns:.*"} {
		f.Add(text)
	}
	nobody := &x509.Certificate{}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := tlsfile.ParseName(text)
		if err != nil {
			return
		}
		if again, err := tlsfile.ParseName(n.String()); err != nil || again != n {
			t.Errorf("%q is written %q, which reads as %v, %v", text, n, again, err)
		}
		if n.Match(nobody) {
			t.Errorf("%q is a name of nobody", text)
		}
	})
}
