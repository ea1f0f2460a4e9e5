package headgate

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
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
	if !fellBack && l.orphans.number.Load() == 0 && !p.owes(responses) {
		return
	}
	p.again, p.againOf = p.again[:0], p.againOf[:0]
	for _, t := range p.giveBack {
		p.addAgain(-1, t)
	}
	if p.hit.has(rules.Candidate) {
		p.addRetries(responses)
	}
	p.addCompensation(responses, whole, false)
	own := len(p.again)
	p.again = l.orphans.appendDue(p.again)
	l.compensateIn(ctx, l.store, &p.batch, own)
	if fellBack {
		p.again, p.againOf = p.again[:0], p.againOf[:0]
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
			l.orphans.add(t)
		case i >= own && !failed:
			l.orphans.freed(t)
		}
	}
}

// addCompensation appends what requests that are denied give back, and what counts
// towards bans, of what the store has decided, or when locally the fallback.
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
// but a slot is released, since nobody else will before its timeout.
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
			denied = denied || r.Skipped || !r.Allowed && !take.Shadow && take.Op == store.Hit
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

const (
	// maxOrphans bounds the slots that are remembered to be released, at some 200
	// bytes each: 2 MB. One more ends by its timeout.
	maxOrphans = 10_000
	// orphansPerCall is how many of them one call releases: a millisecond of work
	// for a store.
	orphansPerCall = 16
	// orphansEvery is the time between two such calls while they fail.
	orphansEvery = 200 * time.Millisecond
)

// orphans are slots that requests may have though they were denied, since the
// store could not say, and could not release them at once either: a store that
// stalls for a moment does so for both calls. Later calls of Check release them. So
// there is no goroutine behind it, and nothing is done while nobody asks.
type orphans struct {
	number atomic.Int64 // of slots
	mu     struct {
		sync.Mutex
		slots map[slotName]orphan
		due   time.Time
	}
}

// slotName is a slot: whose, and in which bucket.
type slotName struct {
	hold limit.Hold
	key  string
}

// orphan is what releases a slot, but for its key, until it has ended by itself.
type orphan struct {
	release store.Take
	until   time.Time
}

// add remembers what releases a slot.
func (o *orphans) add(release *store.Take) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if len(o.mu.slots) == maxOrphans {
		return
	}
	if len(o.mu.slots) == 0 {
		o.mu.slots, o.mu.due = map[slotName]orphan{}, now.Add(orphansEvery)
	}
	one := orphan{*release, now.Add(release.Limit.Period)}
	one.release.Key = nil
	o.mu.slots[slotName{release.Hold, string(release.Key)}] = one
	o.number.Store(int64(len(o.mu.slots)))
}

// forget drops the slots that takes ask for once more.
func (o *orphans) forget(takes []store.Take) {
	if o.number.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range takes {
		if t := &takes[i]; t.Hold != 0 {
			delete(o.mu.slots, slotName{t.Hold, string(t.Key)})
		}
	}
	o.number.Store(int64(len(o.mu.slots)))
}

// freed drops the slot that release has freed. The store is well: the next call may
// release more.
func (o *orphans) freed(release *store.Take) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.slots, slotName{release.Hold, string(release.Key)})
	o.mu.due = time.Time{}
	o.number.Store(int64(len(o.mu.slots)))
}

// appendDue appends what is to be released now, and drops what has ended.
func (o *orphans) appendDue(takes []store.Take) []store.Take {
	if o.number.Load() == 0 {
		return takes
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Before(o.mu.due) {
		return takes
	}
	o.mu.due = now.Add(orphansEvery)
	room := orphansPerCall
	for name, one := range o.mu.slots {
		if !one.until.After(now) {
			delete(o.mu.slots, name)
			continue
		}
		if room--; room < 0 {
			break
		}
		one.release.Key = []byte(name.key)
		takes = append(takes, one.release)
	}
	o.number.Store(int64(len(o.mu.slots)))
	return takes
}
