package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/tlsfile"
)

// Files say how to speak TLS with a server. The zero value trusts the authorities of the
// system and shows no certificate.
type Files struct {
	tlsfile.Files
	// ServerName is the name that the server's certificate must be for; "" means the host
	// that is dialled.
	ServerName string
	// MinVersion is the least version of TLS; 0 means 1.2.
	MinVersion uint16
}

// IsZero reports whether nothing is said.
func (f Files) IsZero() bool { return f == Files{} }

// TLS has the settings of each new connection: its files are looked at whenever one is
// made. Make one with Load. It is safe for concurrent use.
type TLS struct {
	files Files
	mu    sync.Mutex // held while files are read
	from  *tlsfile.Source
}

// Load reads the files. Errors name them.
func Load(f Files) (*TLS, error) {
	from, err := tlsfile.Load(f.Files)
	if err != nil {
		return nil, err
	}
	return &TLS{files: f, from: from}, nil
}

// Config returns the settings for a connection that is made now. The caller may change
// what it gets. The error says why files that have changed are not used, once that was
// found twice; the settings are those of before then.
func (t *TLS) Config() (*tls.Config, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.from.Reload(time.Now()) // State has it for longer
	config := t.from.Client(t.files.ServerName)
	config.MinVersion = max(t.files.MinVersion, config.MinVersion)
	return config, t.from.State().Refused
}

// Own returns the certificate that this client shows, nil without one.
func Own(c *tls.Config) *x509.Certificate {
	if c == nil || c.GetClientCertificate == nil {
		return nil
	}
	pair, err := c.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil || pair == nil {
		return nil
	}
	return pair.Leaf
}
