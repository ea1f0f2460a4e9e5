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

// compensateWithin bounds the time that what is done after the answers adds to them.
const compensateWithin = 5 * time.Millisecond

// compensate does, in one more call, what only the answers tell: what was taken for
// requests that are denied is given back, denials are counted towards bans, and hits
// that only a main limit denied towards the candidate on trial. p has been answered;
// fellBack says that the fallback has decided some of it, and whole that nothing at all
// is kept of a request that is denied.
// It is done as well as it can be in time: a refund that fails stays charged, a slot is
// orphaned until the next call, a denial is not counted.
func (l *Limiter) compensate(ctx context.Context, p *plan, responses []Response, fellBack, whole bool) {
	if !fellBack && !l.orphans.Any() && !p.owes(responses) {
		return
	}
	p.clearAgain()
	for _, t := range p.giveBack {
		p.addAgain(-1, t)
	}
	if p.hit.has(rules.Candidate) {
		p.addRetries(responses)
	}
	p.addCompensation(responses, whole, false)
	own := len(p.again)
	p.again = l.orphans.AppendDue(p.again)
	l.compensateIn(ctx, l.store, &p.batch, own)
	if fellBack {
		p.clearAgain()
		p.addCompensation(responses, whole, true)
		p.sayParts()
		l.compensateIn(ctx, l.fallback, &p.batch, len(p.again))
		l.tellPassed(&p.batch)
	}
}

// owes reports whether there may be something to give back, or to count.
func (b *batch) owes(responses []Response) bool {
	if len(b.giveBack) > 0 || b.hit.has(rules.Candidate) || b.hit.has(rules.Banning) {
		return true
	}
	for i := range responses {
		if !responses[i].Allowed {
			return true
		}
	}
	return false
}

// compensateIn asks s what is in b.again. The first so many of it are of this call, the
// others are slots that calls before have left.
func (l *Limiter) compensateIn(ctx context.Context, s store.Store, b *batch, own int) {
	if len(b.again) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), compensateWithin)
	defer cancel()
	l.takeAgain(ctx, s, b)
	b.retold()
	for i := range b.again {
		t, failed := &b.again[i], b.againResults[i].Err != nil
		switch {
		case t.Hold == 0:
		case i < own && failed:
			l.orphans.Add(t)
		case i >= own && !failed:
			l.orphans.Freed(t)
		}
	}
}

// addCompensation appends what denied requests give back, and the denials that count towards bans.
// It looks at what the store has decided, or with locally at what the fallback has.
func (b *batch) addCompensation(responses []Response, whole, locally bool) {
	for i := range responses {
		if !responses[i].Allowed {
			b.addGiveBacks(b.spans[i].takes, whole, locally)
		}
		if b.hit.has(rules.Banning) {
			b.addDenials(&responses[i], b.spans[i].verdicts, locally)
		}
	}
}

// addGiveBacks appends what gives back the takes of a request that is denied.
//
// Slots are always released: a denied request holds nothing. Hits are refunded
// where a request that is all or nothing fell apart: the store denied none of it,
// but could not decide some. While one part of the store is away, clients would
// else use up their quotas in the other one. Where it denied one of a group it has
// charged nothing of it. A reservation, which is whole, gives back all in any case.
//
// What the store has not answered may be charged or not: hits stay what they are,
// but a slot is released, because nobody else will before its timeout.
func (b *batch) addGiveBacks(s span, whole, locally bool) {
	apart, denied := b.fate(s, locally)
	apart = apart || whole
	for t := s.from; t < s.to; t++ {
		take, r := &b.takes[t], &b.results[t]
		if !locally && r.Err != nil && mayHold(take, r.Err) {
			b.addAgain(t, take.Undo())
			continue
		}
		if !b.decided(t, locally) || !charged(take, r) || take.Group != 0 && denied {
			continue
		}
		if take.Limit.Algorithm == limit.Concurrency || apart && take.Group != 0 && !take.Limit.CountDenied {
			b.addAgain(t, take.Undo())
		}
	}
}

// charged reports whether a take that was answered by r has charged hits, or taken a slot.
func charged(take *store.Take, r *store.Result) bool {
	switch take.Limit.Algorithm {
	case limit.Ban:
		return false
	case limit.Concurrency:
		if take.Hold == 0 {
			return false
		}
	}
	return take.Op == store.Hit && take.Hits > 0 && r.Allowed && !r.Skipped
}

// mayHold reports whether a take that ended with err may have taken a slot: the
// answer alone may have been late, or lost.
func mayHold(take *store.Take, err error) bool {
	reason := store.ReasonOf(err)
	return take.Op == store.Hit && take.Hits > 0 && take.Hold != 0 && (reason == store.Timeout || reason == store.Unavailable)
}

// fate reports of the takes of one request whether the store could not decide some
// of them, and whether it, or when locally the fallback, denied one of the group.
func (b *batch) fate(s span, locally bool) (apart, denied bool) {
	for t := s.from; t < s.to; t++ {
		take, r := &b.takes[t], &b.results[t]
		apart = apart || r.Err != nil
		if take.Group != 0 && b.decided(t, locally) {
			denied = denied || r.Skipped || holdsBack(take, r)
		}
	}
	return apart, denied
}

// addDenials appends one denial for each ban of which another limit of the rule
// has denied the request, in shadow mode too.
func (b *batch) addDenials(resp *Response, s span, locally bool) {
	denied := false
	for i := range resp.Verdicts {
		v, t := &resp.Verdicts[i], b.verdictTake[s.from+i]
		if i > 0 && (v.Rule != resp.Verdicts[i-1].Rule || v.Descriptor != resp.Verdicts[i-1].Descriptor) {
			denied = false
		}
		if t < 0 || b.takes[t].Op != store.Hit || !v.decided() && !(v.Role == rules.Banning && v.By == verdict.BySkipping) {
			// A ban is not looked at where the denial is known beforehand; it is
			// counted there all the same.
			continue
		}
		if v.Role != rules.Banning {
			denied = denied || !v.Decision.Allowed && v.Effect != verdict.Trial
			continue
		}
		if denied && v.Decision.Allowed && v.Hits > 0 && b.decided(t, locally) && !slices.Contains(b.againOf, t) {
			take := b.takes[t]
			take.Op, take.Hits, take.Group, take.Shadow = store.Charge, 1, 0, false
			b.addAgain(t, take)
		}
	}
}
