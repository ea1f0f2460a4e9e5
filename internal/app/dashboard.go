package app

import (
	"net/http"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/dashboard"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/tlsfile"
)

// dashboard returns the way in for operators with a browser, over what answers those
// with a program; none when it is off.
func (p *process) dashboard(s *config.Dashboard, api http.Handler) ([]front, error) {
	if s.DashboardAddr == "" {
		return nil, nil
	}
	issuer, err := p.dashboardIssuer(&s.DashboardOIDC)
	if err != nil {
		return nil, err
	}
	pages, err := dashboard.New(dashboard.Options{API: api, Session: s.DashboardSession, Issuer: issuer, Refusals: p.refusals})
	if err != nil {
		return nil, err
	}
	browsers := newOperatorServer(closing(&p.health.draining, pages), p.logger)
	if browsers.TLSConfig, err = p.tlsOf("dashboard", "dashboard-tls-cert, --dashboard-tls-key, --dashboard-client-ca",
		tlsfile.Files{Cert: s.DashboardTLSCert, Key: s.DashboardTLSKey, CA: s.DashboardClientCA}, tlsfile.Server{Protocols: alpn}); err != nil {
		return nil, err
	}
	return p.forOperators("dashboard", "the dashboard", s.DashboardAddr, refusals.Dashboard, browsers), nil
}
