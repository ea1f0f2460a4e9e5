package headgate

import (
	"context"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// degradedRetryAfter is what a request denied by failure mode closed is told to
// wait: about the time in which a store that blinked is back.
const degradedRetryAfter = time.Second

// fallBack asks the fallback what the store could not decide of rules that fail
// locally. Those takes stay in order, and in groups among themselves. Their
// results keep the error of the store beside the decision. What is released is
// released there in any case: the slot may have been taken while the store was
// away.
func (l *Limiter) fallBack(ctx context.Context, p *plan) {
	if l.fallback == nil {
		clear(p.locally)
		return
	}
	for t := range p.takes {
		if p.locally[t] && (p.results[t].Err != nil || p.takes[t].Op == store.Release) {
			p.again = append(p.again, p.takes[t])
			p.againOf = append(p.againOf, t)
		}
	}
	p.fellBack = len(p.again) > 0
	l.takeAgain(ctx, l.fallback, p)
	for i, t := range p.againOf {
		r := &p.againResults[i]
		if p.locally[t] = r.Err == nil; p.locally[t] && p.results[t].Err != nil {
			p.results[t].Decision, p.results[t].Skipped = r.Decision, r.Skipped
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
	if p.supposes {
		l.supposeAgain(ctx, s, p)
		return
	}
	l.take(ctx, s, p.again, p.againResults)
}

// failLocally answers by the decision that the fallback made in place of the
// store.
func (v *Verdict) failLocally(r *store.Result, op store.Op) {
	v.Degraded, v.Local = store.ReasonOf(r.Err), true
	v.Decision, v.Skipped = settled(r.Decision, op), r.Skipped
}

// fail answers in place of a store that did not.
func (v *Verdict) fail(op store.Op, reason store.Reason) {
	mode := rules.Open
	if v.Rule != nil {
		mode = v.Rule.Failure
	}
	v.Degraded = reason
	v.Decision = failureDecision(v.Limit, mode, op)
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
