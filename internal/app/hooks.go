package app

import (
	"time"

	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/webhook"
	"github.com/headgate/headgate/limit"
)

// hookLines is how many lines events that were given up get in the log.
var hookLines = limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Minute, Burst: 5})

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
	var lines linelimit.Limiter
	notifier := webhook.New(webhook.Options{Out: hooks.Out, OnError: func(err error) {
		if untold, ok := lines.MayTell(hookLines, limit.MicrosOf(time.Now())); ok {
			p.logger.Error("an event was given up", "error", err, "untold", untold)
		}
	}})
	p.tasks = append(p.tasks, notifier.Run)
	p.metrics.WatchHooks(func() telemetry.Hooks { return telemetry.Hooks(notifier.Stats()) })
	p.observer.rest = append(p.observer.rest, notifier)
	return nil
}
