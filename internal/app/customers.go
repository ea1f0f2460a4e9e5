package app

import (
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/customer"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/usagetoken"
	"github.com/headgate/headgate/tenant"
)

// loadUsageKeys reads the keys that tokens of customers are signed with, and keeps them as
// their file has them; nil where there are to be none. Operators make tokens with them.
func (p *process) loadUsageKeys(s *config.Serve) (*usagetoken.Keys, error) {
	if s.UsageKey == "" {
		return nil, nil
	}
	keys, err := usagetoken.Load(s.UsageKey)
	if err != nil {
		return nil, fmt.Errorf("--usage-key: %w", err)
	}
	p.keepFresh("usage_key", "the file of --usage-key", keys.Reload)
	p.administered = append(p.administered, func(o *adminapi.Options) {
		o.SignUsageToken = func(subject tenant.Subject, ttl time.Duration) (string, time.Time, error) {
			until := time.Now().Add(ttl).Truncate(time.Second)
			token, err := keys.Sign(subject, until)
			return token, until, err
		}
	})
	return keys, nil
}

// customers returns the way in of customers, who read what they have used; none without
// keys for their tokens. It is never that of those who ask for decisions.
func (p *process) customers(s *config.Serve, keys *usagetoken.Keys) ([]front, error) {
	if keys == nil || s.UsageAddr == "" {
		return nil, nil
	}
	p.refusals.Serve(refusals.Usage)
	usage, err := customer.New(customer.Options{Keys: keys, Usage: p.usage, Refusals: p.refusals, Now: p.stack.wall.Now, OnError: func(err error) {
		p.logger.Error("a customer who asked for his usage was not answered", "error", err)
	}})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(customer.Path, usage)
	server := newHTTPServer(closing(&p.health.draining, problems.Mux(mux)), p.logger)
	server.TLSConfig, err = p.callersTLS(&s.CallersTLS, "usage", s.UsageAddr)
	if server.TLSConfig == nil && !config.Loopback(s.UsageAddr) {
		p.logger.Warn("customers are answered without TLS beyond this machine: their tokens can be read on the way; hint: --tls-cert and --tls-key, or an address such as 127.0.0.1:8083", "addr", s.UsageAddr)
	}
	return []front{{name: "usage", addr: s.UsageAddr, start: p.gentle("usage", server)}}, err
}
