package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/hostguard"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/tenantsource"
	"github.com/headgate/headgate/internal/tlsfile"
)

const (
	// tokensEvery is how often files of tokens and keys are compared with those in force.
	tokensEvery = time.Second
	// maxAuthorities bounds the file of authorities, in bytes.
	maxAuthorities = 1 << 20
)

// adminAPI returns what answers operators: programs at an address of its own, and
// browsers through the dashboard; nil when neither is served.
func (p *process) adminAPI(a *config.Admin, d *config.Dashboard) (http.Handler, error) {
	if a.AdminAddr == "" && d.DashboardAddr == "" {
		return nil, nil
	}
	tokens, err := adminapi.LoadTokens(a.AdminTokens)
	if err != nil {
		return nil, fmt.Errorf("--admin-tokens: %w", err)
	}
	p.warnOfIssuer(&d.DashboardOIDC, tokens)
	p.keepFresh("admin_tokens", "the file of tokens", tokens.Reload)
	p.tasks = append(p.tasks, func(ctx context.Context) {
		tokens.Run(ctx, failing(p.logger, "logins for the admin API cannot be checked", "the issuers of logins for the admin API answer again"))
	})
	return adminapi.New(p.adminOptions(tokens))
}

// admin returns the way in for programs of operators; none when it is off.
func (p *process) admin(s *config.Admin, api http.Handler) ([]front, error) {
	if s.AdminAddr == "" {
		return nil, nil
	}
	var err error
	operators := newOperatorServer(closing(&p.health.draining, api), p.logger)
	operators.DisableGeneralOptionsHandler = true // OPTIONS * needs a token too
	if operators.TLSConfig, err = p.adminTLS(s); err != nil {
		return nil, err
	}
	return p.forOperators("admin", "the admin API", s.AdminAddr, refusals.Admin, operators), nil
}

// forOperators returns the way in of operators at addr; what it is, is for the log. Without
// TLS it answers only to hosts by whose names they ask.
func (p *process) forOperators(name, what, addr string, door refusals.Door, server *http.Server) []front {
	if server.TLSConfig == nil {
		server.Handler = hostguard.Handler(addr, p.settings.AllowedHosts, server.Handler, p.refusedHost(door))
		if !config.Loopback(addr) {
			p.logger.Warn(fmt.Sprintf("%s is served without TLS beyond this machine: tokens can be read on the way; hint: --%s-tls-cert and --%[2]s-tls-key", what, name), "addr", addr)
		}
	}
	p.refusals.Serve(door)
	return []front{{name: name, addr: addr, start: p.gentle(name, server)}}
}

// adminOptions returns what the API shows and changes.
func (p *process) adminOptions(tokens *adminapi.Tokens) adminapi.Options {
	o := adminapi.Options{
		Tokens:     tokens,
		Watch:      p.watching.shown(),
		Draining:   p.watching.draining,
		Limiter:    p.limiter,
		CheckRules: tenantsource.Checker(p.health.rules),
		Tenants:    p.limiter.Tenants,
		Unfit:      p.stack.unfit,
		RuleSource: tenantsource.RuleOrigin,
		Candidates: p.limiter.Candidates,
		Hasher:     p.keys.hasher,
		Refusals:   p.refusals,
		OnError:    func(err error) { p.logger.Error("a request to the admin API failed", "error", err) },
	}
	if p.health.rules != nil {
		o.Drafts = tenantsource.Drafts{Source: p.health.rules}
	}
	if p.counts() {
		o.Usage = p.usage
	}
	if p.settings.Tenants != (config.DatabaseURL{}) {
		from := p.health.tenants
		o.Accounts = func() adminapi.Accounts {
			if db := from.Database(); db != nil {
				return db
			}
			return nil // and no interface that holds one
		}
		o.Tiers = from.TiersInForce
	}
	for _, add := range p.administered {
		add(&o)
	}
	return o
}

// keepFresh keeps what a file of credentials says as it has it, and shows it under name in metrics.
func (p *process) keepFresh(name, file string, reload func() (changed bool, err error)) {
	noted := p.credentials.noted(name, reload)
	p.tasks = append(p.tasks, func(ctx context.Context) {
		p.reread(ctx, file, "what it said before stays, also what should go", noted)
	})
}

// reread keeps what a file of secrets says as it has it until ctx ends. What stays in force
// where that cannot be used is for the log.
func (p *process) reread(ctx context.Context, file, stays string, reload func() (changed bool, err error)) {
	for range sleep.Every(ctx, tokensEvery) {
		if changed, err := reload(); err != nil {
			p.logger.Error(file+" has changed and cannot be used; "+stays, "error", err)
		} else if changed {
			p.logger.Info(file + " was read again")
		}
	}
}

// adminTLS returns how operators are served by TLS, nil when they are not.
func (p *process) adminTLS(s *config.Admin) (*tls.Config, error) {
	return p.tlsOf("admin", "admin-tls-cert, --admin-tls-key, --admin-client-ca",
		tlsfile.Files{Cert: s.AdminTLSCert, Key: s.AdminTLSKey, CA: s.AdminClientCA}, tlsfile.Server{Protocols: alpn})
}

// readAuthorities reads the file of a setting.
func readAuthorities(setting, path string) (*x509.CertPool, error) {
	text, err := regular.Read(path, maxAuthorities)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s: no certificate in it; hint: PEM", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", setting, err)
	}
	return pool, nil
}
