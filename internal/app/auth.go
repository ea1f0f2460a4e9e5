package app

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/extauthz"
	"github.com/headgate/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/identityfile"
	"github.com/headgate/headgate/internal/reach"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/telemetry"
)

const (
	// maxAuthHeaderBytes bounds the header of a sub-request, which holds that of a
	// client. It is more than gateways take of their clients (servers in Go 1 MiB,
	// others less): one that fails open takes it for an outage when it cannot ask.
	maxAuthHeaderBytes = 2 << 20
	// authIdleTimeout is longer than gateways keep idle connections (Envoy an hour): one
	// that is closed just as a question is on its way looks like an outage, too.
	authIdleTimeout = 2 * time.Hour
)

// gatewayPatience is the shortest time for which a gateway of examples/gateways waits for
// an answer over HTTP, where it tells nobody how long that is; readingGrace is what a
// decision may take beyond --store-budget on a busy machine.
const (
	gatewayPatience = 100 * time.Millisecond
	readingGrace    = 20 * time.Millisecond
)

// tellBudget warns where gateways may give up, and let requests pass that rules would
// deny, before the store has been given up on.
func (p *process) tellBudget() {
	if p.stack.longest+readingGrace <= gatewayPatience || p.stack.backends[0].inMemory() {
		return
	}
	p.logger.Warn("gateways may stop waiting before Headgate has given up on a store that hangs, and then let requests pass that rules with failure_mode closed would deny, until the breaker opens",
		"store_budget", p.stack.longest, "gateways_wait", gatewayPatience,
		"hint", fmt.Sprintf("--store-budget %v or less, and so in the file of --stores, or longer timeouts in the gateways", gatewayPatience-readingGrace))
}

// gateways returns the ways in for gateways that ask about each request: over HTTP
// on an address of its own, and on that of Envoy, which envoy gets. None when it is
// off.
func (p *process) gateways(s *config.Serve, answer httpanswer.Options, envoy *rls.Options) ([]front, error) {
	if s.AuthAddr == "" {
		return nil, nil
	}
	p.tellBudget()
	if err := p.checkAuthDomain(s.AuthDomain); err != nil {
		return nil, err
	}
	peers, err := s.Peers()
	if err != nil {
		return nil, err
	}
	source, err := p.who(identityfile.Options{
		Path: s.Identity, Proxies: peers, LocalPeer: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Vouched: forwardauth.Vouched,
	})
	if err != nil {
		return nil, err
	}
	p.watching.reach.Watch(reach.Use{File: s.Identity, Extractor: source.Extractor}, p.limiter.Rules())
	encoder, err := httpanswer.New(answer)
	if err != nil {
		return nil, err
	}
	asks, calls := p.gatewayCallers()
	authorizer, err := forwardauth.New(forwardauth.Options{
		Checker:   p.doors.open("auth", headgate.Rights{Check: true}),
		Extractor: source.Extractor,
		Answer:    encoder,
		Turns:     p.doors.turns,
		Peers:     forwardauth.NewPeers(peers),
		Enter:     asks,
		Domain:    s.AuthDomain,
		IDHeader:  s.CheckIDHeader,
		Rules:     p.limiter.Rules,
		Now:       p.stack.wall.Now,
		OnRefused: p.refusedClient,
		OnTrouble: func(err error, count uint64) {
			p.logger.Warn("a gateway was not answered as it asked", "error", err, "count", count)
		},
	})
	if err != nil {
		return nil, err
	}
	p.metrics.WatchGateways(func() telemetry.Gateways {
		s := authorizer.Stats()
		return telemetry.Gateways{Strangers: s.Strangers, Refused: s.Refused, Skipped: s.Skipped}
	})
	p.refusals.Serve(refusals.Gateway)
	authorization := extauthz.New(authorizer, extauthz.Options{Enter: calls, OnPanic: envoy.OnPanic})
	envoy.Serve(authorization.Register, extauthz.Method, authorization.Enter)
	server := newHTTPServer(closing(&p.health.draining, authorizer), p.logger)
	server.MaxHeaderBytes, server.IdleTimeout = maxAuthHeaderBytes, authIdleTimeout
	server.TLSConfig, err = p.callersTLS(&s.CallersTLS, "auth", s.AuthAddr)
	return []front{{name: "auth", addr: s.AuthAddr, start: p.gentle("auth", server)}}, err
}

// checkAuthDomain says whether it is known which rules gateways ask for.
func (p *process) checkAuthDomain(domain string) error {
	domains := p.domains()
	switch {
	case domain == "" && len(domains) > 1:
		return fmt.Errorf("--auth-domain: the rules have the domains %q; hint: name the one that gateways ask for", domains)
	case domain != "" && !slices.Contains(domains, domain):
		p.logger.Warn("gateways ask for a domain that has no rules, so that everything passes; hint: --auth-domain", "domain", domain, "domains", domains)
	}
	return nil
}

// printAuthHint prints a command that asks as a gateway does; nothing where no
// gateways are served, or on a socket.
func printAuthHint(w io.Writer, listener net.Listener, tls bool) {
	if listener != nil && listener.Addr().Network() == "tcp" {
		scheme := "http"
		if tls {
			scheme = "https"
		}
		fmt.Fprintf(w, "As a gateway would ask about a client's request:\n\n  curl -i -H 'X-Forwarded-Method: GET' -H 'X-Forwarded-Uri: /orders/7' -H 'X-Forwarded-For: 203.0.113.9' %s://%s%straefik\n\n",
			scheme, reachable(listener), forwardauth.Prefix)
	}
}
