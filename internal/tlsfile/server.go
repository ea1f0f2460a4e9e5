package tlsfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Server says how clients are served.
type Server struct {
	// Protocols are those of ALPN, the preferred one first.
	Protocols []string
	// Optional lets clients in that show no certificate, where authorities are named;
	// one that is shown has to be good.
	Optional bool
	// Names are those that a client's certificate must have one of; none lets everybody
	// in whom the authorities have signed.
	Names []Name
}

// errStranger is why a certificate that an authority has signed is refused: it has none
// of the names that may come.
var errStranger = errors.New("the certificate has no name that may connect")

var errNoCertificate = errors.New("tls: no certificate to serve with")

// Server returns how clients are served: by the files as they are when a client comes.
// The least version is TLS 1.2.
//
// Where clients show certificates there are no session tickets: they would let a client
// back in by a certificate, an authority or a name that has been taken back since.
func (s *Source) Server(o Server) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: o.Protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return s.current.Load().serve(&o)
		},
	}
}

func (m *material) serve(o *Server) (*tls.Config, error) {
	if m.pair == nil {
		return nil, errNoCertificate
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   o.Protocols,
		Certificates: []tls.Certificate{*m.pair},
	}
	if m.authorities == nil {
		return config, nil
	}
	config.ClientCAs, config.ClientAuth = m.authorities, tls.RequireAndVerifyClientCert
	if o.Optional {
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	config.SessionTicketsDisabled = true
	if len(o.Names) > 0 {
		config.VerifyConnection = func(c tls.ConnectionState) error { return admit(o.Names, c.PeerCertificates) }
	}
	return config, nil
}

// admit refuses a certificate without one of these names. The library has verified it.
func admit(names []Name, shown []*x509.Certificate) error {
	if len(shown) == 0 {
		return nil // it may be left out, or the library has refused that
	}
	for i := range names {
		if names[i].Match(shown[0]) {
			return nil
		}
	}
	return fmt.Errorf("%w: %.200q", errStranger, NamesOf(shown[0]))
}
