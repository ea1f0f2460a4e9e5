package tlsfile

import "crypto/tls"

// Client returns how the server of that name is asked, by the files as they are now: call
// it anew for every connection. The certificate of the server has to have serverName, a
// host or an IP address, and to be of the authorities, or of those of the system where no
// file names any. The least version is TLS 1.2.
func (s *Source) Client(serverName string) *tls.Config {
	m := s.current.Load()
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: serverName,
		RootCAs:    m.authorities,
	}
	if m.pair != nil {
		// Not in Certificates: of those the library sends none where the server's list of
		// authorities has not the one that signed it, and the refusal says nothing then.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.pair, nil }
	}
	return config
}
