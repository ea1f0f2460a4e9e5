package headgate

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
)

// SetSwitches swaps in what operators have switched; with nil, and before the first
// call, nothing is. Requests under way finish with the old. Buckets keep their state.
//
// A rule that is off takes no part in deciding hits, and answers do not name it. What
// is in flight is still renewed and released there, and refunds and resets reach it.
// A switch for all is for limits that callers name too. Where Options.Shadow is set,
// nothing is enforced whatever is switched.
func (l *Limiter) SetSwitches(s *switches.Set) { l.switches.Store(s) }

// Switches returns what SetSwitches was given last.
func (l *Limiter) Switches() *switches.Set { return l.switches.Load() }

// Peek tells what Check would say, without charging anything: all hits and Ops of the
// requests, which it changes, become peeks. It tells no observer, and rules that are
// switched off answer too, by what they have counted.
func (l *Limiter) Peek(ctx context.Context, requests []Request, responses []Response) error {
	return l.decideUnseen(ctx, "peek", store.Hit, requests, responses)
}

// Forget is Check for the resets of operators, who ask for no decision: all Ops of the
// requests, which it changes, become resets. It tells no observer, and reaches rules that
// are switched off too.
func (l *Limiter) Forget(ctx context.Context, requests []Request, responses []Response) error {
	return l.decideUnseen(ctx, "forget", store.Reset, requests, responses)
}

// decideUnseen decides op, without hits, and tells no observer.
func (l *Limiter) decideUnseen(ctx context.Context, what string, op store.Op, requests []Request, responses []Response) error {
	if len(requests) != len(responses) {
		return fmt.Errorf("%s: %d requests but %d responses", what, len(requests), len(responses))
	}
	for i := range requests {
		for j := range requests[i].Descriptors {
			d := &requests[i].Descriptors[j]
			d.Op, d.Hits = op, 0
		}
		if err := requests[i].validate(); err != nil {
			return fmt.Errorf("%s: request %d: %w", what, i, err)
		}
	}
	l.decide(ctx, requests, responses, nil, &everyRight)
	return nil
}
