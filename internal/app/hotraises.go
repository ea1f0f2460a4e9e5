package app

import (
	"context"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/hotraise"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// watchHotRaises raises the limits of hot keys whose rules say so, where there is a store
// by which all nodes hear of it.
func (p *process) watchHotRaises() {
	register, shares := p.stack.backends[0].Store.(store.Register)
	if !shares || p.stack.backends[0].inMemory() {
		return
	}
	var raised, full atomic.Uint64
	raiser := hotraise.New(hotraise.Options{
		Register: register,
		Rules:    func() *rules.Set { return p.limiter.Rules() },
		Node:     p.watching.node.Name,
		OnRaise: func(r hotraise.Raise, key []byte) {
			raised.Add(1)
			p.watching.hotRaised(&r, key)
			p.logger.Info("the limit of a hot key is raised", "rule", r.Rule, "key_hash", hex.EncodeToString(r.Key[:]), "by_percent", r.By,
				"until", r.Until, "not_again_before", r.Again)
		},
		OnFull: func(rule string) {
			full.Add(1)
			if untold, ok := p.hot.lines.MayTell(hotLines, time.Now()); ok {
				p.logger.Warn("a hot key is not raised: too many are raised or pause", "rule", rule, "most", hotraise.MaxKeys, "others_since", untold)
			}
		},
		Logger: p.logger,
	})
	p.hot.raiser = raiser
	p.metrics.WatchHotRaises(func() telemetry.HotRaises {
		return telemetry.HotRaises{InForce: len(raiser.List()), Raised: raised.Load(), Full: full.Load()}
	})
	p.before = append(p.before, func(ctx context.Context) { raiser.Start(ctx) })
	p.tasks = append(p.tasks, raiser.Run)
}

// inForce is what the admin API shows of hot keys that are raised.
func (r *hotReporter) inForce() view.HotRaises {
	shown := view.HotRaises{Raises: []view.HotRaise{}}
	for _, one := range r.raiser.List() {
		shown.Raises = append(shown.Raises, view.HotRaise{
			Rule: one.Rule, KeyHash: hex.EncodeToString(one.Key[:]), Raise: one.By, From: one.From, Until: one.Until, NotAgainBefore: one.Again, Node: one.Node,
		})
	}
	return shown
}

// hotRaised makes an event of a raise of the bucket with a key, which this node has begun.
func (w *watching) hotRaised(r *hotraise.Raise, key []byte) {
	domain, text := keyname.OfBucket(key)
	w.events.Raised(audit.Raise{
		Domain: domain, Rule: r.Rule, Key: text, By: r.By, Until: r.Until, Actor: "raise_hot_keys", Reason: "the key is hot",
	})
}

// raised makes events of a raise by an operator: one for each key that it names.
func (w *watching) raised(r switchboard.Raise) {
	event := audit.Raise{Domain: r.Domain, Rule: r.Target.Raise, By: r.Raise, Until: r.Until, Actor: r.Actor, Reason: r.Reason, Ended: r.Ended}
	if len(r.Tenants) == 0 {
		w.events.Raised(event)
	}
	for i := range r.Tenants {
		event.Key = string(keyname.AppendText(nil, r.Tenants[i:i+1]))
		w.events.Raised(event)
	}
}
