package app

import (
	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/refusals"
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
	if len(hooks.In) > 0 {
		p.administered = append(p.administered, func(o *adminapi.Options) {
			o.Billing = hooks.In
			p.refusals.Serve(refusals.Billing)
		})
	}
	if len(hooks.Out) == 0 {
		return nil
	}
	notifier := webhook.New(webhook.Options{Out: hooks.Out, OnError: sometimes(p.logger.Error, fewLines, "an event was given up")})
	p.tasks = append(p.tasks, notifier.Run)
	p.metrics.WatchHooks(func() telemetry.Hooks { return telemetry.Hooks(notifier.Stats()) })
	p.observer.rest = append(p.observer.rest, notifier)
	return nil
}
