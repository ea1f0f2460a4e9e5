package headgate

import (
	"context"
	"fmt"
	"slices"

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
	if len(requests) != len(responses) {
		return fmt.Errorf("peek: %d requests but %d responses", len(requests), len(responses))
	}
	for i := range requests {
		for j := range requests[i].Descriptors {
			d := &requests[i].Descriptors[j]
			d.Op, d.Hits = store.Hit, 0
		}
		if err := requests[i].validate(); err != nil {
			return fmt.Errorf("peek: request %d: %w", i, err)
		}
	}
	l.decide(ctx, requests, responses, nil, &everyRight)
	return nil
}

// askedFor returns what switches and canaries are asked about m: the tenant that its
// descriptor names, and the share of that tenant. Where no rule says which entry that
// is, it is one that has a switch, and the share is that of the whole descriptor.
func (p *plan) askedFor(m *match) *switches.Asked {
	if p.askedOf != m.descriptor+1 {
		p.askedOf = m.descriptor + 1
		entries := p.request.Descriptors[m.descriptor].Entries
		p.asked = switches.Asked{Now: p.instant()}
		if by, ok := p.domain(m.Rule.Domain).Tenant(entries, p.limiter.now); ok {
			entries = entries[by.Depth-1 : by.Depth]
			p.asked.Tenant = entries[0]
		} else if i := slices.IndexFunc(entries, p.switches.Names); i >= 0 {
			p.asked.Tenant = entries[i]
		}
		p.asked.Share = switches.ShareOf(entries)
	}
	p.asked.Rule = m.Rule.ID
	return &p.asked
}

// callerLimits returns what the switches make of limits that callers name.
func (p *plan) callerLimits(op store.Op) switches.State {
	if p.switches == nil {
		return switches.On
	}
	state, _ := p.switches.Of(&switches.Asked{Now: p.instant()})
	if state == switches.Off && !charges(op) {
		return switches.Shadow
	}
	return state
}

// charges reports whether op is for hits that a limit which is off does not count.
func charges(op store.Op) bool { return op == store.Hit || op == store.Charge }
