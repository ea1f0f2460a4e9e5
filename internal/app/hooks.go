package app

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/webhook"
	"github.com/headgate/headgate/limit"
)

// hookLines is how many lines events that were given up get in the log.
var hookLines = limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Minute, Burst: 5})

// watchHooks makes those who are told what tenants have used, if settings name any,
// and has them see decisions.
func (p *process) watchHooks() (headgate.Observer, error) {
	if p.settings.Hooks == "" {
		return p.observer, nil
	}
	hooks, err := webhook.Load(p.settings.Hooks)
	if err != nil {
		return nil, err
	}
	p.hooks = hooks
	if len(hooks.Out) == 0 {
		return p.observer, nil
	}
	var lines lineLimit
	notifier := webhook.New(webhook.Options{Out: hooks.Out, OnError: func(err error) {
		if untold, ok := lines.mayTell(hookLines, limit.MicrosOf(time.Now())); ok {
			p.logger.Error("an event was given up", "error", err, "untold", untold)
		}
	}})
	p.tasks = append(p.tasks, notifier.Run)
	p.metrics.WatchHooks(func() telemetry.Hooks { return telemetry.Hooks(notifier.Stats()) })
	return hookedObserver{p.observer, notifier}, nil
}

// hookedObserver counts decisions, and tells others of some.
type hookedObserver struct {
	observer
	hooks *webhook.Notifier
}

// Decided implements headgate.Observer.
func (o hookedObserver) Decided(request *headgate.Request, response *headgate.Response, took time.Duration) {
	o.observer.Decided(request, response, took)
	o.hooks.Decided(request, response, took)
}
