package app

import (
	"fmt"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/dashboard"
	"github.com/headgate/headgate/internal/oidclogin"
)

// dashboardIssuer returns by whom people log in to the dashboard; nil for tokens alone. The
// issuer is not asked before somebody does.
func (p *process) dashboardIssuer(s *config.DashboardOIDC) (*dashboard.Issuer, error) {
	if s.OIDCIssuer == "" {
		return nil, nil
	}
	client, err := oidclogin.New(oidclogin.Options{
		Issuer: s.OIDCIssuer, ID: s.OIDCClient, SecretFile: s.OIDCSecret, Scopes: s.ScopeList(), Redirect: s.Home() + dashboard.CallbackPath,
		Tell: failing(p.logger, "logins to the dashboard by its issuer fail; those by tokens work", "logins to the dashboard by its issuer work again"),
	})
	if err != nil {
		return nil, fmt.Errorf("--dashboard-oidc-%w", err) // it begins with what is wrong
	}
	return &dashboard.Issuer{Client: client, URL: s.Home()}, nil
}

// warnOfIssuer logs that nobody who logs in by the issuer will be let in, because the file of
// tokens does not know it. That is no error: the file is read again when it changes.
func (p *process) warnOfIssuer(s *config.DashboardOIDC, tokens *adminapi.Tokens) {
	if s.OIDCIssuer == "" || tokens.Takes(s.OIDCIssuer, s.OIDCClient) {
		return
	}
	p.logger.Warn("nobody who logs in to the dashboard by its issuer is let in: the file of --admin-tokens does not have this issuer with this audience; hint: name both under oidc, letter by letter, with scopes",
		"issuer", s.OIDCIssuer, "audience", s.OIDCClient)
}
