package audit

import (
	"time"

	"github.com/headgate/headgate/internal/view"
)

// Outcomes of events that are about no request: the limit of a rule, or of one of its keys,
// is raised for a time, or is no more before that time is over.
const (
	outcomeRaised     = "raised"
	outcomeRaiseEnded = "raise_ended"
)

// Raise is what events tell of a limit that is raised for a time.
type Raise struct {
	// Domain and Rule say whose limit it is; Domain is "" where the rule is not in force.
	Domain, Rule string
	// Key is the text of the key whose limit it is, "" for all keys of the rule.
	Key string
	// By is by how many per cent of the limit, Until the end.
	By    int
	Until time.Time
	// Actor is who has raised it, Reason why.
	Actor, Reason string
	// Ended says that it has ended before Until.
	Ended bool
}

// Raised leaves the event of a raise for Run; it counts as a decision that is always
// recorded. It never waits.
func (r *Recorder) Raised(raise Raise) { r.noteAll(&raise) }

// event completes e, which has what all events have.
func (x *Raise) event(e view.Event) view.Event {
	e.Domain, e.Rule, e.Key, e.Outcome, e.Allowed = x.Domain, x.Rule, x.Key, outcomeRaised, true
	if x.Ended {
		e.Outcome = outcomeRaiseEnded
	}
	e.Raise, e.Until, e.Actor, e.Reason = x.By, x.Until.UnixMilli(), x.Actor, x.Reason
	return e
}
