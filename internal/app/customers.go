package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/customer"
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
	p.tasks = append(p.tasks, func(ctx context.Context) { p.watchUsageKeys(ctx, keys) })
	return nil
}

// watchUsageKeys keeps keys as their file has them until ctx ends.
func (p *process) watchUsageKeys(ctx context.Context, keys *usagetoken.Keys) {
	tick := time.NewTicker(tokensEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if changed, err := keys.Reload(); err != nil {
			p.logger.Error("the file of --usage-key has changed and cannot be used; the keys before stay, also those that should go", "error", err)
		} else if changed {
			p.logger.Info("the file of --usage-key was read again")
		}
	}
}

// customers puts what customers ask beside what those ask who want decisions.
func (p *process) customers(checks http.Handler) (http.Handler, error) {
	if p.usageKeys == nil {
		return checks, nil
	}
	usage, err := customer.New(customer.Options{Keys: p.usageKeys, Usage: p.limiter, OnError: func(err error) {
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
