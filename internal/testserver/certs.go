package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are a certificate authority made for one test and what it has
// signed: a server certificate for localhost and 127.0.0.1.
type Certificates struct {
	CAFile, CertFile, KeyFile string // PEM files
	pool                      *x509.CertPool
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
	return c
}

// Client returns the settings of a client that trusts the authority.
func (c *Certificates) Client() *tls.Config {
	return &tls.Config{RootCAs: c.pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}
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
