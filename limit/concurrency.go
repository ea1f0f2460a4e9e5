package limit

import "time"

// Concurrency.
//
// At most Quota requests are in flight at one time. Each holds a slot by a Hold
// of its own until it releases it; Period is the timeout after which a slot whose
// holder has fallen silent is free again. A holder that is still at work renews
// its slot before that. A slot counts while
//
//	until > now        until = the instant of Acquire or Renew + Period
//	allowed  iff  slots that count < Quota
//
// The number of hits says nothing here: a request holds one slot, whatever it
// costs. Decide, which knows no holder, tells whether a slot is free and takes
// none.
//
// State: Wide are pairs of until in µs and Hold, in the ascending order of until.
// Slots that have ended are dropped when the state is next written. An until that
// is more than a Period ahead was written by another clock, or under a longer
// timeout, and counts as now + Period.

// MaxConcurrency bounds the Quota of concurrency, whose state has sixteen bytes for
// each slot. A bucket may have twice as many slots, because Renew never denies.
const MaxConcurrency = 4096

const (
	slotWords = 2                  // of Wide for each slot
	mostSlots = 2 * MaxConcurrency // of a bucket
)

// Acquire takes a slot for hold at now if there is one, and returns the state to
// store and the decision. A hold that has a slot keeps it, for another Period:
// asking again is harmless. Hold 0, and one above MaxHold, takes nothing and is
// answered as a hit by Decide, and so is a hold for which there is no slot. l is a
// limit of concurrency.
func Acquire(l *Limit, s State, now Micros, hold Hold) (State, Decision) {
	p := l.slotsAt(&s, clampInstant(int64(now)))
	at := p.find(hold)
	if at < 0 && (p.used() >= l.Quota || !hold.valid()) {
		d := p.decide(l, &s, 1)
		return s, d
	}
	p.rewrite(&s, at, hold)
	return s, p.peek(l)
}

// Renew keeps the slot of hold for another Period and returns the state to store
// and what a peek would say of it. Whoever renews is at work: when its slot is not
// there any more, because it was silent for too long or the store has forgotten
// it, it gets one even if there are more than Quota then; but none past twice
// MaxConcurrency. So a renewal that comes after the release takes a slot which
// nobody gives back before its timeout: a holder releases when its last renewal has
// been answered. l is a limit of concurrency.
func Renew(l *Limit, s State, now Micros, hold Hold) (State, Decision) {
	p := l.slotsAt(&s, clampInstant(int64(now)))
	at := p.find(hold)
	if at >= 0 || p.used() < mostSlots && hold.valid() {
		p.rewrite(&s, at, hold)
	}
	return s, p.peek(l)
}

// Release frees the slot of hold, if it has one, and returns the state to store
// and what a peek would say of it. l is a limit of concurrency.
func Release(l *Limit, s State, now Micros, hold Hold) (State, Decision) {
	p := l.slotsAt(&s, clampInstant(int64(now)))
	if at := p.find(hold); at >= 0 {
		p.rewrite(&s, at, 0)
	}
	return s, p.peek(l)
}

// slots are those of a state that count at an instant.
type slots struct {
	pairs []int64 // until and Hold of each
	now   int64
	last  int64 // the latest until that can be: now + Period
}

// slotsAt reads s at now and leaves it as it is.
func (l *Limit) slotsAt(s *State, now int64) slots {
	p := slots{now: now, last: now + l.periodMicros}
	if s.Kind == kindConcurrency {
		p.pairs = s.Wide[:len(s.Wide)/slotWords*slotWords]
	}
	for len(p.pairs) > 0 && p.pairs[0] <= now {
		p.pairs = p.pairs[slotWords:]
	}
	return p
}

func (p *slots) used() int64 { return int64(len(p.pairs) / slotWords) }

// find returns the index of the slot of hold in pairs, or -1.
func (p *slots) find(hold Hold) int {
	if !hold.valid() {
		return -1
	}
	for i := 0; i < len(p.pairs); i += slotWords {
		if p.pairs[i+1] == int64(hold) {
			return i
		}
	}
	return -1
}

// left returns how long the slot at an index counts: 1 µs at the least, and a
// Period at the most.
func (p *slots) left(at int) time.Duration {
	return duration(min(max(p.pairs[at], p.now+1), p.last) - p.now)
}

// rewrite writes what counts to s, in the memory that it has: without the slot at
// an index, unless that is -1, and with a new one of hold, unless that is 0. No
// until is later than that of the new one, so the order holds.
func (p *slots) rewrite(s *State, without int, hold Hold) {
	p.pairs = s.Wide[:copy(s.Wide, p.pairs)]
	if without >= 0 {
		p.pairs = append(p.pairs[:without], p.pairs[without+slotWords:]...)
	}
	p.dropEnded()
	for i := len(p.pairs) - slotWords; i >= 0 && p.pairs[i] > p.last; i -= slotWords {
		p.pairs[i] = p.last
	}
	if hold != 0 {
		p.pairs = append(p.pairs, p.last, int64(hold))
	}
	*s = State{}
	if len(p.pairs) > 0 {
		s.Kind, s.Wide = kindConcurrency, p.pairs
	}
}

// dropEnded takes out what has ended and stands first: of a state that is in order nothing, but
// one that is not shows it only when what stood before is gone.
func (p *slots) dropEnded() {
	ended := 0
	for ended < len(p.pairs) && p.pairs[ended] <= p.now {
		ended += slotWords
	}
	p.pairs = p.pairs[:copy(p.pairs, p.pairs[ended:])]
}

// peek returns what is left.
func (p *slots) peek(l *Limit) Decision {
	d := Decision{Allowed: true, Limit: l.Quota, Remaining: max(l.Quota-p.used(), 0)}
	if n := len(p.pairs); n > 0 {
		d.ResetAfter = p.left(n - slotWords)
	}
	return d
}

// decide answers hits of nobody: they pass if there is a slot, and take none.
// RetryAfter is when so many slots have ended by themselves that one is free;
// they may be released at any time before.
func (p *slots) decide(l *Limit, s *State, hits int64) Decision {
	d := p.peek(l)
	if hits == 0 || d.Remaining > 0 {
		return d
	}
	d.Allowed, d.Never = false, l.Quota == 0
	n := len(p.pairs)
	if !d.Never {
		d.RetryAfter = p.left(n - int(l.Quota)*slotWords)
	}
	if n > 0 && p.pairs[n-slotWords] > p.last {
		p.rewrite(s, -1, 0)
	}
	return d
}

// decideConcurrency answers as decide does.
func decideConcurrency(l *Limit, s *State, now, hits int64, d *Decision) {
	p := l.slotsAt(s, now)
	*d = p.decide(l, s, hits)
}
