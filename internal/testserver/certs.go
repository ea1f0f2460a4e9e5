package testserver

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are a certificate authority made for one test and what it has
// signed: a server certificate for localhost and 127.0.0.1.
type Certificates struct {
	CAFile, CertFile, KeyFile string // PEM files
	// Mutual has servers that show these certificates want one of the same authority
	// of their clients.
	Mutual bool

	pool   *x509.CertPool
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	issued int64
}

// Leaf is what a further certificate says. The zero value says nothing and is valid as
// long as its authority.
type Leaf struct {
	CommonName string
	DNS, URIs  []string
	// NotAfter is when it expires.
	NotAfter time.Time
}

// NewCertificates makes an authority and a server certificate, with which a server
// may also call another one, in a folder of the test. They are valid for one day.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	caKey, serverKey := newKey(t), newKey(t)
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test authority"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "localhost"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	caDER := sign(t, ca, ca, &caKey.PublicKey, caKey)
	serverDER := sign(t, server, ca, &serverKey.PublicKey, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		t.Fatalf("encode the key of a test certificate: %v", err)
	}
	c := &Certificates{
		CAFile:   writePEM(t, dir, "ca.pem", "CERTIFICATE", caDER),
		CertFile: writePEM(t, dir, "server.pem", "CERTIFICATE", serverDER),
		KeyFile:  writePEM(t, dir, "server.key", "PRIVATE KEY", keyDER),
		pool:     x509.NewCertPool(),
	}
	parsed, err := x509.ParseCertificate(caDER)
	if err != nil {
		t.Fatalf("read back a test certificate: %v", err)
	}
	c.pool.AddCert(parsed)
	c.ca, c.caKey, c.issued = parsed, caKey, 2
	return c
}

// Issue returns the files of one more certificate of the authority, of a server for
// localhost and of a client alike, in a folder of its own.
func (c *Certificates) Issue(t testing.TB, l Leaf) (certFile, keyFile string) {
	t.Helper()
	c.issued++
	key := newKey(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(c.issued),
		Subject:      pkix.Name{CommonName: l.CommonName},
		NotBefore:    c.ca.NotBefore,
		NotAfter:     c.ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     append([]string{"localhost"}, l.DNS...),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if !l.NotAfter.IsZero() {
		leaf.NotAfter = l.NotAfter
	}
	for _, text := range l.URIs {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatalf("URI of a test certificate: %v", err)
		}
		leaf.URIs = append(leaf.URIs, u)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("encode the key of a test certificate: %v", err)
	}
	dir := t.TempDir()
	return writePEM(t, dir, "leaf.pem", "CERTIFICATE", sign(t, leaf, c.ca, &key.PublicKey, c.caKey)),
		writePEM(t, dir, "leaf.key", "PRIVATE KEY", keyDER)
}

// ClientWith is Client with a certificate of the files that Issue returned.
func (c *Certificates) ClientWith(t testing.TB, certFile, keyFile string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatalf("read a test certificate: %v", err)
	}
	config := c.Client()
	config.Certificates = []tls.Certificate{pair}
	return config
}

// SigningKeys returns the files of an Ed25519 key that signs and of the one that verifies
// what it has signed, in a folder of their own.
func SigningKeys(t testing.TB) (sign, verify string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	secret, err1 := x509.MarshalPKCS8PrivateKey(private)
	known, err2 := x509.MarshalPKIXPublicKey(public)
	if err := errors.Join(err, err1, err2); err != nil {
		t.Fatalf("make a test key: %v", err)
	}
	dir := t.TempDir()
	return writePEM(t, dir, "sign.pem", "PRIVATE KEY", secret), writePEM(t, dir, "verify.pem", "PUBLIC KEY", known)
}

// Client returns the settings of a client that trusts the authority and, with Mutual,
// shows the certificate of the server.
func (c *Certificates) Client() *tls.Config {
	config := &tls.Config{RootCAs: c.pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	if c.Mutual {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			return &pair, err
		}
	}
	return config
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	return key
}

func sign(t testing.TB, cert, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, public, signer)
	if err != nil {
		t.Fatalf("sign a test certificate: %v", err)
	}
	return der
}

func writePEM(t testing.TB, dir, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatalf("write a test certificate: %v", err)
	}
	return path
}

// HTTPServer is a server of HTTPS that shows the certificate and ends with the test.
func (c *Certificates) HTTPServer(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}
