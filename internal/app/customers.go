package app

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/customer"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/usagetoken"
)

// loadUsageKeys reads the keys that tokens of customers are signed with, if there are
// to be any, and keeps them as their file has them.
func (p *process) loadUsageKeys(s *config.Serve) error {
	if s.UsageKey == "" {
		return nil
	}
	keys, err := usagetoken.Load(s.UsageKey)
	if err != nil {
		return fmt.Errorf("--usage-key: %w", err)
	}
	p.usageKeys = keys
	p.keepFresh("usage_key", "the file of --usage-key", keys.Reload)
	return nil
}

// customers returns the way in of customers, who read what they have used; none without
// keys for their tokens. It is never that of those who ask for decisions.
func (p *process) customers(s *config.Serve) ([]front, error) {
	if p.usageKeys == nil || s.UsageAddr == "" {
		return nil, nil
	}
	p.refusals.Serve(refusals.Usage)
	usage, err := customer.New(customer.Options{Keys: p.usageKeys, Usage: p.usage, Refusals: p.refusals, Now: p.stack.wall.Now, OnError: func(err error) {
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
