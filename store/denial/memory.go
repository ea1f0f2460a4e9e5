package denial

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// ways is the number of denials in a set.
const ways = 8

// entry is a remembered denial: on the bucket of the key, under limit, hits or
// more are denied until the instant until. What it says never changes once it can be
// seen.
type entry struct {
	first, second uint64 // hashes of the key
	limit         *limit.Limit
	hits          int64
	sent, until   int64 // nanoseconds since New
	decision      limit.Decision
	// told counts the answers that it gave.
	told atomic.Uint64
	// elsewhere says that another node asks anew before it ends, renewed that this one
	// does, dropped that it holds no more.
	elsewhere, renewed, dropped atomic.Bool
}

// span is the present instant, and the latest at which a denial can have been
// asked for; one from beyond that was asked for by a clock that has stepped back
// since.
type span struct{ at, latest int64 }

// holds reports whether e still says something.
func (e *entry) holds(s span) bool { return s.at < e.until && e.sent <= s.latest }

// answers reports whether e says what a store would say to a hit of so many.
func (e *entry) answers(hits int64) bool {
	if hits <= e.hits {
		return hits == e.hits
	}
	switch e.limit.Algorithm {
	case limit.FixedWindow, limit.Ban:
		return true
	}
	return hits > e.decision.Limit || e.limit.Algorithm.IsBucket()
}

// answer is the decision on a hit of so many, which e answers, at the instant
// at.
func (e *entry) answer(hits, at int64) limit.Decision {
	d := e.decision
	elapsed := max(at-e.sent, 0)
	d.ResetAfter = left(d.ResetAfter, elapsed)
	if hits > d.Limit && e.limit.Algorithm != limit.Ban {
		d.Never, d.RetryAfter = true, 0
		return d
	}
	if more := hits - e.hits; more > 0 && e.limit.Algorithm.IsBucket() {
		d.RetryAfter += drainTime(e.limit, more)
	}
	d.RetryAfter = left(d.RetryAfter, elapsed)
	return d
}

// left is what is left of d after elapsed nanoseconds: in whole microseconds,
// rounded up, and at least one unless d is 0.
func left(d time.Duration, elapsed int64) time.Duration {
	if d == 0 {
		return 0
	}
	rest := max(int64(d)-elapsed, 1) + int64(time.Microsecond) - 1
	return time.Duration(rest - rest%int64(time.Microsecond))
}

// drainTime is hits*Period/Quota, rounded up to the microsecond; the hits are
// fewer than fit into the bucket, so that it is below 36 years (package limit).
func drainTime(l *limit.Limit, hits int64) time.Duration {
	high, low := bits.Mul64(uint64(hits), uint64(l.Period.Microseconds()))
	low, carry := bits.Add64(low, uint64(l.Quota-1), 0)
	micros, _ := bits.Div64(high+carry, low, uint64(l.Quota))
	return time.Duration(micros) * time.Microsecond
}

// memory is a table of denials in sets; a key belongs to one set, by its first
// hash.
type memory struct {
	sets  []set
	shift uint
}

// set has no lock: entries are replaced, not changed, and a tag beside the wrong
// entry is found out by comparing with what the entry says itself.
type set struct {
	// tags are the first hashes of the entries, so that a key of which nothing is
	// remembered costs one cache line.
	tags    [ways]atomic.Uint64
	entries [ways]atomic.Pointer[entry]
	// changes counts the refunds, resets and charges on keys of this set.
	changes                                atomic.Uint64
	answered, skipped, remembered, dropped atomic.Uint64
	_                                      [24]byte // up to whole cache lines
}

func newMemory(entries int) memory {
	setBits := uint(bits.Len(uint((entries+ways-1)/ways - 1)))
	return memory{sets: make([]set, 1<<setBits), shift: 64 - setBits}
}

func (m *memory) setOf(first uint64) *set { return &m.sets[first>>m.shift] }

// has reports whether there may be an entry of a key with that hash.
func (s *set) has(first uint64) bool {
	for i := range s.tags {
		if s.tags[i].Load() == first {
			return true
		}
	}
	return false
}

// find returns an entry that answers t, or nil.
func (s *set) find(first, second uint64, t *store.Take, now span) *entry {
	for i := range s.tags {
		if s.tags[i].Load() != first {
			continue
		}
		e := s.entries[i].Load()
		if e != nil && e.first == first && e.second == second && e.limit == t.Limit && e.holds(now) && e.answers(t.Hits) {
			return e
		}
	}
	return nil
}

// put writes e in the place of one that it makes needless, of one that no longer
// holds, or of the one that ends first.
func (s *set) put(e *entry, now span) {
	place := 0
	var ends int64
	for i := range s.entries {
		old := s.entries[i].Load()
		if old != nil && old.same(e) && e.answers(old.hits) {
			place = i
			break
		}
		end := int64(-1)
		if old != nil && old.holds(now) {
			end = old.until
		}
		if i == 0 || end < ends {
			place, ends = i, end
		}
	}
	s.entries[place].Store(e)
	s.tags[place].Store(e.first)
	s.remembered.Add(1)
}

// same reports whether e and other are about one bucket and limit.
func (e *entry) same(other *entry) bool {
	return e.first == other.first && e.second == other.second && e.limit == other.limit
}

// drop removes the entries of a key, and perhaps those of one with the same
// first hash, which then is asked once more.
func (s *set) drop(first uint64) {
	for i := range s.tags {
		if s.tags[i].Load() != first {
			continue
		}
		if e := s.entries[i].Load(); e != nil && e.first == first && s.entries[i].CompareAndSwap(e, nil) {
			e.dropped.Store(true)
			s.dropped.Add(1)
		}
	}
}

// dropEntry removes e if it is still there.
func (s *set) dropEntry(e *entry) {
	for i := range s.entries {
		if s.entries[i].CompareAndSwap(e, nil) {
			e.dropped.Store(true)
			s.dropped.Add(1)
		}
	}
}

func (m *memory) stats(now span) Stats {
	total := Stats{MaxEntries: int64(len(m.sets)) * ways}
	for i := range m.sets {
		s := &m.sets[i]
		for j := range s.entries {
			if e := s.entries[j].Load(); e != nil && e.holds(now) {
				total.Entries++
			}
		}
		total.Answered += s.answered.Load()
		total.Skipped += s.skipped.Load()
		total.Remembered += s.remembered.Load()
		total.Dropped += s.dropped.Load()
	}
	return total
}
