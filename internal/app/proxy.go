package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/costlimit"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/identityfile"
	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/proxy"
	"github.com/headgate/headgate/internal/reach"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/tlsfile"
)

// RunProxy forwards to a backend what may pass, by settings s until ctx ends, then
// stops gently. It returns nil when everything under way was finished.
func RunProxy(ctx context.Context, s config.Proxy, o Options) error {
	k, err := readKeys(&s.Settings, s.AdminHashKey)
	if err != nil {
		return err
	}
	p, err := newProcess(&s.Settings, proxyDoes, k, o)
	if err != nil {
		return err
	}
	defer p.leave()
	if err := p.loadRules(); err != nil {
		return err
	}
	forwarder, err := p.forwarder(&s)
	if err != nil {
		return err
	}
	operators, err := p.operators(&s.Admin, &s.Dashboard)
	if err != nil {
		return err
	}
	p.tellOpen(nil) // its clients are those of the backend
	return p.run(ctx, append([]front{forwarder}, operators...))
}

// proxyDoes are the roles of every proxy: who operates one asks it alone.
var proxyDoes = config.Does{Decide: true, Admin: true, Dashboard: true}

// forwarder returns the way in that forwards.
func (p *process) forwarder(s *config.Proxy) (front, error) {
	source, err := p.identity(s)
	if err != nil {
		return front{}, err
	}
	answer, err := answerOptions(&s.Settings)
	if err != nil {
		return front{}, err
	}
	limits, err := p.limits(s, source.Extractor, answer)
	if err != nil {
		return front{}, err
	}
	costs, err := p.costs(s, limits.options)
	if err != nil {
		return front{}, err
	}
	shed, err := p.shedding(&s.Shedding, source.Extractor.PeerTrusted)
	if err != nil {
		return front{}, err
	}
	to, err := s.Target()
	if err != nil {
		return front{}, err
	}
	var forward *proxy.Proxy
	forward, err = proxy.New(proxy.Options{
		To:          to,
		RewriteHost: s.RewriteHost,
		Timeout:     s.BackendTimeout,
		MaxBody:     int64(s.MaxBody),
		Wrap:        around(limits.Wrap, around(costs.wrap, shed)),
		PeerTrusted: source.Extractor.PeerTrusted,
		Identifying: source.Extractor.HeaderFields(),
		Errors:      answer.Body,
		OnTrouble:   sometimes(p.logger.Warn, backendLines, "the backend did not answer"),
		OnBackend:   p.metrics.WatchProxy(func() telemetry.Proxy { return proxied(forward.Stats(), limits.Stats(), costs.stats()) }),
		ErrorLog:    slog.NewLogLogger(p.logger.Handler(), slog.LevelDebug),
	})
	if err != nil {
		return front{}, err
	}
	clients := newHTTPServer(closing(&p.health.draining, forward), p.logger)
	// A body, and an answer, may be a stream without an end.
	clients.ReadTimeout, clients.WriteTimeout = 0, 0
	clients.MaxHeaderBytes = int(s.MaxHeader)
	clients.DisableGeneralOptionsHandler = true // OPTIONS * is the backend's to answer
	if clients.TLSConfig, err = p.tlsOf("http", "tls-cert, --tls-key", tlsfile.Files{Cert: s.TLSCert, Key: s.TLSKey}, tlsfile.Server{Protocols: alpn}); err != nil {
		return front{}, err
	}
	gentle := p.gentle("http", clients)
	return front{name: "http", addr: s.HTTPAddr, start: func(l net.Listener) server {
		return &proxyServer{gentle(l), forward, p.logger}
	}}, nil
}

// proxyServer ends the connections that were upgraded along with the others.
type proxyServer struct {
	server
	proxy  *proxy.Proxy
	logger *slog.Logger
}

// Shutdown implements server.
func (s *proxyServer) Shutdown(ctx context.Context) {
	var ending sync.WaitGroup
	ending.Go(func() { s.server.Shutdown(ctx) })
	if cut := s.proxy.Shutdown(ctx); cut > 0 {
		s.logger.Warn("upgraded connections were cut off", "connections", cut)
	}
	ending.Wait()
}

// identity returns what tells who asks.
func (p *process) identity(s *config.Proxy) (*identityfile.Source, error) {
	trusted, err := s.Trusted()
	if err != nil {
		return nil, err
	}
	o := identityfile.Options{Path: s.Identity, Proxies: trusted}
	if network, _, err := config.ListenAddress(s.HTTPAddr); err == nil && network == "unix" {
		// Whoever connects is on this machine.
		o.LocalPeer = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return p.who(o)
}

// requestLimits is the middleware that lets requests pass, or not, and what it was made of.
type requestLimits struct {
	*httplimit.Middleware
	options httplimit.Options
}

func (p *process) limits(s *config.Proxy, who *identity.Extractor, answer httpanswer.Options) (requestLimits, error) {
	domain, err := p.domain(s.Domain)
	if err != nil {
		return requestLimits{}, err
	}
	p.refusals.Serve(refusals.Proxy)
	p.watching.reach.Watch(reach.Use{File: s.Identity, Extractor: who, Domain: domain}, p.limiter.Rules())
	// Clients cannot ask for anything but to pass. It is the middleware that gives hits
	// back, of a client who leaves while it is held back.
	options := httplimit.Options{
		Domain:   domain,
		Now:      p.stack.wall.Now,
		Identify: httplimit.Identity(who),
		OnError:  p.refusedBy(who),
		Answer: httplimit.Answer{
			Generation: answer.Generation, OmitX: answer.OmitX, Reset: answer.Reset,
			Body: answer.Body, Jitter: toldJitter(answer.Jitter), WindowReset: answer.WindowReset, PartitionKey: answer.PartitionKey, DecisionID: answer.DecisionID,
		},
		// Only a token can be refused, and only where the file says so.
		Challenge: "Bearer",
		// Else a backend that limits too would add its fields to ours.
		Override: true,
		// The shedders behind the limits take the priorities of rules from it.
		PassResult: s.Shedding.On(),
	}
	limits, err := httplimit.New(p.doors.open("proxy", headgate.Rights{Check: true, GiveBack: true}), options)
	return requestLimits{limits, options}, err
}

// domain returns the domain of the rules that requests are limited by.
func (p *process) domain(named string) (string, error) {
	domains, fed := p.domains(), p.settings.XDSServer != ""
	stored := p.settings.Tenants != (config.DatabaseURL{}) || p.settings.Follows()
	switch {
	case named != "" && (stored || fed):
		return named, nil // its rules may be there, now or later
	case len(domains) == 0 && stored:
		return "", errors.New("--domain: the rule files have none; hint: name the domain of the rules in the database")
	case len(domains) == 0 && fed:
		return "", errors.New("--domain: --xds-server has sent no rules yet; hint: name the domain of those that it will send")
	case named != "" && !slices.Contains(domains, named):
		return "", fmt.Errorf("--domain: %q has no rules; hint: the rules have the domains %q", named, domains)
	case named != "":
		return named, nil
	case len(domains) == 0:
		return "", errors.New("--rules: there is no rule; hint: `headgate rules explain` shows what files hold")
	case len(domains) > 1:
		return "", fmt.Errorf("--domain: the rules have the domains %q; hint: name the one that requests are limited by", domains)
	}
	return domains[0], nil
}

// proxied returns what metrics show of the proxy and of the limits in it.
func proxied(p proxy.Stats, l httplimit.Stats, c costlimit.Stats) telemetry.Proxy {
	return telemetry.Proxy{
		Answered: p.Answered, Broken: p.Broken, Unreachable: p.Unreachable, TimedOut: p.TimedOut,
		TooLarge: p.TooLarge, BadBody: p.BadBody, NotForwarded: p.NotForwarded,
		Denied: l.Denied + c.Limits.Denied, Unavailable: l.Unavailable + c.Limits.Unavailable,
		Refused: l.Refused + c.Limits.Refused + c.Unreadable, Left: p.Left + l.GaveUp + c.Limits.GaveUp,
		InFlight: p.InFlight, Upgraded: p.Upgraded,
	}
}

// backendLines bounds the log lines about the backend: while it is away, every
// request has the same to say.
var backendLines = linelimit.PerMinute(6, 2)

// toldJitter returns j as the middleware is told of it, whose 0 is the default.
func toldJitter(j httpanswer.Jitter) float64 {
	if j.Share == 0 {
		return httplimit.ExactRetry
	}
	return j.Share
}
