package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/customer"
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
	p.tasks = append(p.tasks, func(ctx context.Context) { p.reread(ctx, "the file of --usage-key", keys.Reload) })
	return nil
}

// customers puts what customers ask beside what those ask who want decisions.
func (p *process) customers(checks http.Handler) (http.Handler, error) {
	if p.usageKeys == nil {
		return checks, nil
	}
	p.refusals.Serve(refusals.Usage)
	usage, err := customer.New(customer.Options{Keys: p.usageKeys, Usage: p.usage, Refusals: p.refusals, OnError: func(err error) {
		p.logger.Error("a customer who asked for his usage was not answered", "error", err)
	}})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == customer.Path {
			usage.ServeHTTP(w, r)
			return
		}
		checks.ServeHTTP(w, r)
	}), nil
}
