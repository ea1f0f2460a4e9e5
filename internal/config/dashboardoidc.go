package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// DashboardOIDC are the settings of logins to the dashboard by an issuer of OpenID Connect.
// What somebody may do whom it vouches for is in the file of AdminTokens. The zero value has
// no such logins.
type DashboardOIDC struct {
	// DashboardURL is where browsers reach the dashboard.
	DashboardURL string `group:"admin" name:"dashboard-url" placeholder:"URL" help:"Address by which browsers reach the dashboard, with --dashboard-oidc-issuer: https://headgate.example.com. The issuer has to know it with /login/oidc/callback after it."`
	// OIDCIssuer is the name of the issuer; "" is none.
	OIDCIssuer string `group:"admin" name:"dashboard-oidc-issuer" placeholder:"URL" help:"Issuer of OpenID Connect by which people log in to the dashboard, beside tokens. What they may do says oidc in the file of --admin-tokens. Default: none."`
	// OIDCClient is what the issuer calls the dashboard.
	OIDCClient string `group:"admin" name:"dashboard-oidc-client" placeholder:"ID" help:"Client that the dashboard is at --dashboard-oidc-issuer. Its ID tokens have it as aud."`
	// OIDCSecret is a file; "" is a client without a secret.
	OIDCSecret string `group:"admin" name:"dashboard-oidc-secret" placeholder:"FILE" help:"File with the secret of --dashboard-oidc-client. Read again for every login. Default: a public client, which has none."`
	// OIDCScopes are what the issuer is asked for, with commas between.
	OIDCScopes string `group:"admin" name:"dashboard-oidc-scopes" placeholder:"SCOPE,..." help:"Scopes that --dashboard-oidc-issuer is asked for. Default: openid,email,profile."`
}

// ScopeList returns OIDCScopes one by one.
func (o *DashboardOIDC) ScopeList() []string {
	return slices.DeleteFunc(words(o.OIDCScopes), func(name string) bool { return name == "" })
}

// validate looks at what the rooms that use the settings do not.
func (o *DashboardOIDC) validate() error {
	if o.OIDCIssuer == "" {
		return unused("dashboard-oidc-issuer", "nobody logs in by an issuer", given{"dashboard-url", o.DashboardURL != ""},
			given{"dashboard-oidc-client", o.OIDCClient != ""}, given{"dashboard-oidc-secret", o.OIDCSecret != ""}, given{"dashboard-oidc-scopes", o.OIDCScopes != ""})
	}
	u, err := url.Parse(o.DashboardURL)
	return errors.Join(
		refuse(o.OIDCClient == "", "--dashboard-oidc-client: missing; hint: the client that the issuer has for the dashboard"),
		refuse(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "",
			"--dashboard-url: no address of the dashboard, to which the issuer could send browsers back; hint: https://headgate.example.com, with no path"),
	)
}

// Home returns DashboardURL without a slash at its end.
func (o *DashboardOIDC) Home() string { return strings.TrimRight(o.DashboardURL, "/") }
