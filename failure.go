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

// giveBackWithin bounds the time that giving back adds to a decision.
const giveBackWithin = 5 * time.Millisecond

// fallBack asks the fallback what the store could not decide of rules that fail
// locally. Those takes stay in order, and in groups among themselves. Their
// results keep the error of the store beside the decision.
func (l *Limiter) fallBack(ctx context.Context, p *plan) {
	if l.fallback == nil {
		clear(p.locally)
		return
	}
	for t := range p.takes {
		if p.locally[t] && p.results[t].Err != nil {
			p.again = append(p.again, p.takes[t])
			p.againOf = append(p.againOf, t)
		}
	}
	if cap(p.againResults) < len(p.again) {
		p.againResults = make([]store.Result, len(p.again))
	}
	p.againResults = p.againResults[:len(p.again)]
	l.take(ctx, l.fallback, p.again, p.againResults)
	for i, t := range p.againOf {
		r := &p.againResults[i]
		if p.locally[t] = r.Err == nil; p.locally[t] {
			p.results[t].Decision, p.results[t].Skipped = r.Decision, r.Skipped
		}
	}
}

// giveBack refunds what the store charged for requests that are denied although
// it denied none of their limits: one that it could not decide fails closed, or
// is over the node's share. A denied request burns nothing, and while one part
// of the store is away its clients would use up their quotas in the other one.
// What cannot be given back in time stays charged. p has been answered.
func (l *Limiter) giveBack(ctx context.Context, p *plan, responses []Response) {
	p.again = p.again[:0]
	for i := range responses {
		if takes := p.spans[i].takes; !responses[i].Allowed && p.fellApart(takes) {
			p.addRefunds(takes)
		}
	}
	if len(p.again) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackWithin)
	defer cancel()
	l.take(ctx, l.store, p.again, make([]store.Result, len(p.again))) // best effort
}

// fellApart reports whether the store could not decide some of the takes of one
// request, all or nothing, and denied none. Where it denied one, nothing is
// charged.
func (p *plan) fellApart(s span) (apart bool) {
	for t := s.from; t < s.to; t++ {
		r := &p.results[t]
		switch {
		case p.takes[t].Group == 0:
			return false
		case r.Err != nil:
			apart = true
		case r.Skipped || !r.Allowed && !p.takes[t].Shadow && p.takes[t].Op == store.Hit:
			return false
		}
	}
	return apart
}

// addRefunds appends the refunds of the takes that were charged.
func (p *plan) addRefunds(s span) {
	for t := s.from; t < s.to; t++ {
		take, r := p.takes[t], &p.results[t]
		if take.Op == store.Hit && take.Hits > 0 && r.Err == nil && r.Allowed && !take.Limit.CountDenied {
			take.Op, take.Group = store.Refund, 0
			p.again = append(p.again, take)
		}
	}
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
