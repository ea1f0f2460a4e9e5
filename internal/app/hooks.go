package app

import (
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/webhook"
)

// watchHooks makes those who are told what tenants have used, if settings name any,
// and has them see decisions.
func (p *process) watchHooks() error {
	if p.settings.Hooks == "" {
		return nil
	}
	hooks, err := webhook.Load(p.settings.Hooks)
	if err != nil {
		return err
	}
	p.hooks = hooks
	if len(hooks.Out) == 0 {
		return nil
	}
	notifier := webhook.New(webhook.Options{Out: hooks.Out, OnError: sometimes(p.logger.Error, fewLines, "an event was given up")})
	p.tasks = append(p.tasks, notifier.Run)
	p.metrics.WatchHooks(func() telemetry.Hooks { return telemetry.Hooks(notifier.Stats()) })
	p.observer.rest = append(p.observer.rest, notifier)
	return nil
}
