package limit

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
// State: Wide are pairs of until in µs and Hold, in the ascending order of until,
// and in the order of arrival where these are equal. Slots that have ended are
// dropped when the state is next written. An until that is more than a Period
// ahead was written by another clock, or under a longer timeout, and counts as
// now + Period.

// Hold names a request that holds slots. Its holder draws it at random from 1 to
// MaxHold, or takes a hash: two requests with one Hold share a slot. 0 is nobody.
type Hold uint64

// MaxHold is the largest Hold: 2^53-1, so that a Lua number holds it.
const MaxHold = 1<<53 - 1

// MaxConcurrency bounds the Quota of concurrency, whose state has fourteen to
// sixteen bytes for each slot, and twice that the slots of a bucket: Renew never
// denies.
const MaxConcurrency = 4096

const (
	slotWords = 2                  // of Wide for each slot
	mostSlots = 2 * MaxConcurrency // of a bucket
)

// Acquire takes a slot for hold at now if there is one, and returns the state to
// store and the decision. A hold that has a slot keeps it, for another Period:
// asking again is harmless. Hold 0, and one above MaxHold, takes nothing and is
// answered as by Decide. l is a limit of concurrency.
func Acquire(l *Limit, s State, now Micros, hold Hold) (State, Decision) {
	p := l.slotsAt(&s, clampInstant(int64(now)))
	if !hold.valid() || p.find(hold) < 0 && p.used() >= l.Quota {
		return p.decide(l, &s, 1)
	}
	p.add(&s, hold)
	return s, p.peek(l)
}

// Renew keeps the slot of hold for another Period and returns the state to store
// and what a peek would say of it. Whoever renews is at work: when its slot is not
// there any more, because it was silent for too long or the store has forgotten
// it, it gets one even if there are more than Quota then; but none past twice
// MaxConcurrency.
func Renew(l *Limit, s State, now Micros, hold Hold) (State, Decision) {
	p := l.slotsAt(&s, clampInstant(int64(now)))
	if hold.valid() && (p.find(hold) >= 0 || p.used() < mostSlots) {
		p.add(&s, hold)
	}
	return s, p.peek(l)
}

// Release frees the slot of hold, if it has one, and returns the state to store
// and what a peek would say of it.
func Release(l *Limit, s State, now Micros, hold Hold) (State, Decision) {
	p := l.slotsAt(&s, clampInstant(int64(now)))
	if p.find(hold) >= 0 {
		p.remove(&s, hold)
		p.save(&s)
	}
	return s, p.peek(l)
}

func (h Hold) valid() bool { return h > 0 && h <= MaxHold }

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

// moved reports whether a slot lies further ahead than this clock and limit put it.
func (p *slots) moved() bool {
	return len(p.pairs) > 0 && p.pairs[len(p.pairs)-slotWords] > p.last
}

// find returns the index of the slot of hold in pairs, or -1.
func (p *slots) find(hold Hold) int {
	for i := 0; i < len(p.pairs); i += slotWords {
		if p.pairs[i+1] == int64(hold) {
			return i
		}
	}
	return -1
}

// add gives hold the last place, in place of the one that it may have. As no
// until is later than last, the order holds.
func (p *slots) add(s *State, hold Hold) {
	p.remove(s, hold)
	p.pairs = append(p.pairs, p.last, int64(hold))
	p.save(s)
}

// remove moves what counts, but the slot of hold, to the front of the memory of s.
func (p *slots) remove(s *State, hold Hold) {
	at := p.find(hold)
	if s.Kind == kindConcurrency {
		p.pairs = s.Wide[:copy(s.Wide, p.pairs)]
	}
	if at >= 0 {
		p.pairs = append(p.pairs[:at], p.pairs[at+slotWords:]...)
	}
}

// save writes the slots, which lie at the front of the memory of s or in memory of
// their own.
func (p *slots) save(s *State) {
	if len(p.pairs) == 0 {
		*s = State{}
		return
	}
	for i := len(p.pairs) - slotWords; i >= 0 && p.pairs[i] > p.last; i -= slotWords {
		p.pairs[i] = p.last
	}
	s.set(kindConcurrency, 0, 0, 0)
	s.Wide = p.pairs
}

// peek returns what is left.
func (p *slots) peek(l *Limit) Decision {
	d := Decision{Allowed: true, Limit: l.Quota, Remaining: max(l.Quota-p.used(), 0)}
	if len(p.pairs) > 0 {
		d.ResetAfter = duration(min(p.pairs[len(p.pairs)-slotWords], p.last) - p.now)
	}
	return d
}

// decide answers hits of nobody: they pass if there is a slot, and take none.
// RetryAfter is when the first slots end by themselves; they may be released at
// any time before.
func (p *slots) decide(l *Limit, s *State, hits int64) (State, Decision) {
	d := p.peek(l)
	if hits == 0 || d.Remaining > 0 {
		return *s, d
	}
	d.Allowed, d.Never = false, l.Quota == 0
	if !d.Never {
		// With more slots than Quota, all but Quota-1 of them have to end.
		i := len(p.pairs) - int(l.Quota)*slotWords
		d.RetryAfter = duration(min(p.pairs[i], p.last) - p.now)
	}
	if p.moved() {
		p.remove(s, 0)
		p.save(s)
	}
	return *s, d
}

// decideConcurrency answers as decide does.
func decideConcurrency(l *Limit, s *State, now, hits int64, d *Decision) {
	p := l.slotsAt(s, now)
	*s, *d = p.decide(l, s, hits)
}
