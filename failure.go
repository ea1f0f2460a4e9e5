package headgate

import (
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// degradedRetryAfter is what a request denied by failure mode closed is told to
// wait: about the time in which a store that blinked is back.
const degradedRetryAfter = time.Second

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
// mode. It carries no counts. A refund and a reset are never denied.
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
