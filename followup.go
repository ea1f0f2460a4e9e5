package headgate

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// followUpWithin bounds the time that what is done after the answers adds to them.
const followUpWithin = 5 * time.Millisecond

// followUp does, in one more call, what only the answers tell: what was taken for
// requests that are denied is given back, and denials are counted towards bans, and hits
// that only a main limit denied towards the candidate that watches. p has been answered.
// It is done as well as it can be in time: a refund that fails stays charged, a slot is
// left over for the next call, a denial is not counted.
func (l *Limiter) followUp(ctx context.Context, p *plan, responses []Response) {
	l.followUpIn(ctx, l.store, p, responses, false)
	if p.fellBack {
		l.followUpIn(ctx, l.fallback, p, responses, true)
	}
}

// followUpIn is followUp in the store, where it also releases what is left over from
// calls before, or, when locally, for what the fallback decided.
func (l *Limiter) followUpIn(ctx context.Context, s store.Store, p *plan, responses []Response, locally bool) {
	p.again, p.againOf = p.again[:0], p.againOf[:0]
	if !locally {
		for _, t := range p.undo {
			p.addAgain(-1, t)
		}
	}
	for i := range responses {
		if !responses[i].Allowed {
			p.addGiveBacks(p.spans[i].takes, locally)
		}
		if !responses[i].Allowed && p.mayTry && !locally {
			p.addRetries(&responses[i], p.spans[i].verdicts)
		}
		if p.mayBan {
			p.addDenials(&responses[i], p.spans[i].verdicts, locally)
		}
	}
	own := len(p.again)
	if locally {
		p.sayParts()
	} else {
		p.again = l.leftovers.appendDue(p.again)
	}
	if len(p.again) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followUpWithin)
	defer cancel()
	l.takeAgain(ctx, s, p)
	p.retold()
	for i := range p.again {
		t, failed := &p.again[i], p.againResults[i].Err != nil
		switch {
		case t.Hold == 0:
		case i < own && failed:
			l.leftovers.add(t)
		case i >= own && !failed:
			l.leftovers.freed(t)
		}
	}
}

// decided reports whether the store, or when locally the fallback, decided take t.
func (p *plan) decided(t int, locally bool) bool {
	failed := p.results[t].Err != nil
	return failed == locally && (!locally || p.locally[t] != verdict.ByStore)
}

// addGiveBacks appends what gives back the takes of a request that is denied.
//
// Slots are always released: a denied request holds nothing. Hits are refunded
// where a request that is all or nothing fell apart: the store denied none of it,
// but could not decide some. While one part of the store is away, clients would
// else use up their quotas in the other one. Where it denied one of a group it has
// charged nothing of it.
//
// What the store has not answered may be charged or not: hits stay what they are,
// but a slot is released, since nobody else will before its timeout.
func (p *plan) addGiveBacks(s span, locally bool) {
	apart, denied := p.fate(s, locally)
	for t := s.from; t < s.to; t++ {
		take, r := &p.takes[t], &p.results[t]
		if !locally && r.Err != nil && mayHold(take, r.Err) {
			p.addAgain(t, take.Undo())
			continue
		}
		if !p.decided(t, locally) || take.Op != store.Hit || take.Hits == 0 || !r.Allowed || r.Skipped || take.Group != 0 && denied {
			continue
		}
		switch take.Limit.Algorithm {
		case limit.Concurrency:
			if take.Hold == 0 {
				continue
			}
		case limit.Ban:
			continue
		default:
			if !apart || take.Group == 0 || take.Limit.CountDenied {
				continue
			}
		}
		p.addAgain(t, take.Undo())
	}
}

// mayHold reports whether a take that ended with err may have taken a slot: the
// answer alone may have been late, or lost.
func mayHold(take *store.Take, err error) bool {
	reason := store.ReasonOf(err)
	return take.Op == store.Hit && take.Hits > 0 && take.Hold != 0 && (reason == store.Timeout || reason == store.Unavailable)
}

// fate reports of the takes of one request whether the store could not decide some
// of them, and whether it, or when locally the fallback, denied one of the group.
func (p *plan) fate(s span, locally bool) (apart, denied bool) {
	apart = p.reserves // nothing is reserved for a request that is denied, by whatever
	for t := s.from; t < s.to; t++ {
		take, r := &p.takes[t], &p.results[t]
		apart = apart || r.Err != nil
		if take.Group != 0 && p.decided(t, locally) {
			denied = denied || r.Skipped || !r.Allowed && !take.Shadow && take.Op == store.Hit
		}
	}
	return apart, denied
}

// addDenials appends one denial for each ban of which another limit of the rule
// has denied the request, in shadow mode too.
func (p *plan) addDenials(resp *Response, s span, locally bool) {
	denied := false
	for i := range resp.Verdicts {
		v, t := &resp.Verdicts[i], p.verdictTake[s.from+i]
		if i > 0 && (v.Rule != resp.Verdicts[i-1].Rule || v.Descriptor != resp.Verdicts[i-1].Descriptor) {
			denied = false
		}
		if t < 0 || p.takes[t].Op != store.Hit || !v.decided() && !(v.Role == rules.Banning && v.By == verdict.BySkipping) {
			// A ban is not looked at where the denial is known beforehand; it is
			// counted there all the same.
			continue
		}
		if v.Role != rules.Banning {
			denied = denied || !v.Decision.Allowed && v.Effect != verdict.Trial
			continue
		}
		if denied && v.Decision.Allowed && v.Hits > 0 && p.decided(t, locally) && !slices.Contains(p.againOf, t) {
			take := p.takes[t]
			take.Op, take.Hits, take.Group, take.Shadow = store.Charge, 1, 0, false
			p.addAgain(t, take)
		}
	}
}

// addAgain appends take, made of take t.
func (p *plan) addAgain(t int, take store.Take) {
	p.again, p.againOf = append(p.again, take), append(p.againOf, t)
}
