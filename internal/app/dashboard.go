package app

import (
	"net/http"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/dashboard"
	"github.com/headgate/headgate/internal/hostguard"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/tlsfile"
)

// dashboard returns the way in for operators with a browser, over what answers those
// with a program; none when it is off.
func (p *process) dashboard(s *config.Dashboard, api http.Handler) ([]front, error) {
	if s.DashboardAddr == "" {
		return nil, nil
	}
	pages, err := dashboard.New(dashboard.Options{API: api, Session: s.DashboardSession, Refusals: p.refusals})
	if err != nil {
		return nil, err
	}
	browsers := newOperatorServer(closing(&p.health.draining, pages), p.logger)
	if browsers.TLSConfig, err = p.tlsOf("dashboard", "dashboard-tls-cert, --dashboard-tls-key", tlsfile.Files{Cert: s.DashboardTLSCert, Key: s.DashboardTLSKey}, tlsfile.Server{Protocols: alpn}); err != nil {
		return nil, err
	}
	if browsers.TLSConfig == nil {
		browsers.Handler = hostguard.Handler(s.DashboardAddr, p.settings.AllowedHosts, browsers.Handler, p.refusedHost(refusals.Dashboard))
	}
	if browsers.TLSConfig == nil && !config.Loopback(s.DashboardAddr) {
		p.logger.Warn("the dashboard is served without TLS beyond this machine: tokens can be read on the way; hint: --dashboard-tls-cert and --dashboard-tls-key", "addr", s.DashboardAddr)
	}
	p.refusals.Serve(refusals.Dashboard)
	gentle := p.gentle("dashboard", browsers)
	return []front{{name: "dashboard", addr: s.DashboardAddr, start: gentle}}, nil
}
