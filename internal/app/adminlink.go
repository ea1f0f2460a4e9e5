package app

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/headgate/headgate/internal/adminlink"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/tlsfile"
)

// adminLink returns the way to the admin processes of s.
func (p *process) adminLink(s *config.Link) (*adminlink.Link, error) {
	addresses, err := s.Addresses()
	if err != nil {
		return nil, err
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.AdminURLsCA != "" {
		if settings.RootCAs, err = readAuthorities("admin-urls-ca", s.AdminURLsCA); err != nil {
			return nil, err
		}
	}
	if s.AdminURLsCert != "" {
		shown, err := p.certificates("admin-urls", "admin-urls-cert, --admin-urls-key", tlsfile.Files{Cert: s.AdminURLsCert, Key: s.AdminURLsKey})
		if err != nil {
			return nil, err
		}
		settings.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return shown.Client("").GetClientCertificate(asked)
		}
	}
	for _, u := range addresses {
		if u.Scheme == "http" && !config.Loopback(u.Host) {
			p.logger.Warn("an admin process is asked without TLS: tokens can be read on the way; hint: https:// in --admin-urls", "addr", u.Host)
		}
	}
	var lines linelimit.Limiter
	link, err := adminlink.New(adminlink.Options{URLs: addresses, TLS: settings, OnTrouble: func(address string, err error) {
		if untold, ok := lines.MayTell(fewLines, time.Now()); ok {
			p.logger.Warn("an admin process cannot be reached", "addr", address, "error", err, "others_since", untold)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("--admin-urls: %w", err)
	}
	return link, nil
}
