package headgate

import (
	"context"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// degradedRetryAfter is what a request denied by failure mode closed is told to
// wait: about the time in which a store that blinked is back.
const degradedRetryAfter = time.Second

// wholeMode is how the fallback decides for failure mode open.
var wholeMode = &store.Mode{Whole: true}

// partOf returns by which part of a limit the fallback decides for a failure mode;
// ByStore is for none.
func partOf(mode rules.FailureMode) verdict.Decider {
	switch mode {
	case rules.FailLocal:
		return verdict.ByLocalShare
	case rules.Open:
		return verdict.ByLocalWhole
	}
	return verdict.ByStore
}

// fallBack asks the fallback what the store could not decide of rules that fail
// locally or open. Those takes stay in order, and in groups among themselves. Their
// results keep the error of the store beside the decision.
func (l *Limiter) fallBack(ctx context.Context, p *plan) {
	if l.fallback == nil {
		clear(p.locally)
		return
	}
	for t := range p.takes {
		if p.locally[t] != verdict.ByStore && (p.results[t].Err != nil || l.endsLocally(p.takes[t].Op)) {
			p.addAgain(t, p.takes[t])
		}
	}
	if p.fellBack = len(p.again) > 0; !p.fellBack {
		return
	}
	p.sayParts()
	l.takeAgain(ctx, l.fallback, p)
	for i, t := range p.againOf {
		r := &p.againResults[i]
		if r.Err != nil {
			p.locally[t] = verdict.ByStore
			continue
		}
		if p.results[t].Err != nil {
			p.results[t].Decision, p.results[t].Skipped = r.Decision, r.Skipped
		}
		if take := &p.takes[t]; take.Hold != 0 && take.Op != store.Release {
			l.heldLocally.Store(true)
		}
	}
}

// endsLocally reports whether the fallback is told of op though the store has decided
// it. What is released is released there too: the slot may have been taken while the
// store was away. What is reset is forgotten there too, or the next failure of the
// store would bring it back.
func (l *Limiter) endsLocally(op store.Op) bool {
	return op == store.Reset || op == store.Release && l.heldLocally.Load()
}

// sayParts tells the fallback, which is asked what is in p.again, for which takes the
// whole limit counts.
func (p *plan) sayParts() {
	for i, t := range p.againOf {
		if t >= 0 && p.locally[t] == verdict.ByLocalWhole {
			p.again[i].Mode = wholeMode
		}
	}
}

// takeAgain asks s what is in p.again.
func (l *Limiter) takeAgain(ctx context.Context, s store.Store, p *plan) {
	if cap(p.againResults) < len(p.again) {
		p.againResults = make([]store.Result, len(p.again))
	}
	p.againResults = p.againResults[:len(p.again)]
	clear(p.againResults) // it may hold those of a call before
	for i := range p.again {
		p.again[i].DryRun = p.dryRun
	}
	l.take(ctx, s, p.again, p.againResults)
}

// failLocally answers by the decision that the fallback made in place of the
// store, by a part of the limit. By the whole limit it lets pass what the store might
// deny, so its counts are told to nobody.
func (v *Verdict) failLocally(r *store.Result, op store.Op, part verdict.Decider) {
	d := settled(r.Decision, op)
	if part == verdict.ByLocalWhole {
		d = limit.Decision{Allowed: d.Allowed, Never: d.Never, Limit: d.Limit, RetryAfter: d.RetryAfter, Delay: d.Delay}
	}
	v.Degraded = store.ReasonOf(r.Err)
	v.decide(d, part, r.Skipped)
}

// fail answers in place of a store that did not.
func (v *Verdict) fail(op store.Op, reason store.Reason) {
	mode := rules.Open
	if v.Rule != nil {
		mode = v.Rule.Failure
	}
	v.Degraded = reason
	v.decide(failureDecision(v.Limit, mode, op), verdict.ByFailureMode, false)
}

// failureDecision is the one place where an error of a store meets a failure
// mode. It carries no counts. A refund and a reset are never denied. Where there
// is nothing to decide locally, requests pass.
func failureDecision(l *limit.Limit, mode rules.FailureMode, op store.Op) limit.Decision {
	d := limit.Decision{Allowed: true, Limit: ceiling(l)}
	if mode == rules.Closed && op == store.Hit {
		d.Allowed = false
		d.RetryAfter = degradedRetryAfter
	}
	return d
}

// ceiling returns what decisions of l call their Limit, by peeking at an unused
// bucket.
func ceiling(l *limit.Limit) int64 {
	_, unused := limit.Decide(l, limit.State{}, 0, 0)
	return unused.Limit
}
