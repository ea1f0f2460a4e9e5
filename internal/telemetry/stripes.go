package telemetry

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/internal/processor"
	"github.com/headgate/headgate/rules"
)

// Processors that add to one number wait for each other's caches, so each has counters
// of its own: a stripe. A decision takes one, locks it, which nobody else wants but for
// the rare reader, and counts everything by plain additions; readers add stripes up.
//
// A stripe is found by the number of the processor. Two decisions may find the same one all the
// same, where one of them was interrupted: so there are locks, and more stripes than processors.

const (
	// stripeGap keeps stripes from sharing a cache line, or two that are fetched
	// together.
	stripeGap = 128
	// maxStripes bounds their number, on machines with many processors.
	maxStripes = 256
	// maxRows bounds the rows of all stripes together, at 240 bytes each, or 288 with
	// the hits of Options.EnvoyNames: where there are very many rules, fewer
	// stripes are in use.
	maxRows = 1 << 18
	// sampleEvery is how many decisions of a stripe there are for each of which the
	// share that is left is looked at; a power of 2.
	sampleEvery = 16
)

// stripe is the counters of a processor.
type stripe struct {
	mu sync.Mutex
	// decided counts decisions, to sample some: of each group of sampleEvery the one at place.
	decided, place uint32
	// untimed are the decisions since the last one that was timed.
	untimed uint64
	// gen and rows are those of the rules in force; rows is nil while the stripe is
	// not in use.
	gen    *generation
	rows   []row
	hits   []hits         // by row; nil unless they are counted
	looked *atomic.Uint64 // that of stripes
	// tiers are counted by the numbers that stripes give them.
	tiers   []tierCounts
	numbers *tierNumbers
	near    nearShare
	tally
	_ [stripeGap]byte
}

// stripes are all counters of decisions.
type stripes struct {
	all    []stripe
	active atomic.Uint32 // how many are in use, the first ones
	turn   atomic.Uint32
	looked atomic.Uint64 // numbers the verdicts whose share was looked at
	tiers  tierNumbers

	// swap is held while rules are swapped, and while stripes are added up. It is
	// locked before any stripe.
	swap struct {
		sync.Mutex
		gen *generation
	}
}

// open makes the stripes; withHits says whether hits are counted, and near which of them are near
// the limit.
func (s *stripes) open(withHits bool, near nearShare) {
	s.tiers.open()
	s.all = make([]stripe, min(1<<bits.Len(uint(2*runtime.GOMAXPROCS(0)-1)), maxStripes))
	for i := range s.all {
		s.all[i].looked, s.all[i].numbers, s.all[i].near = &s.looked, &s.tiers, near
	}
	s.swap.gen = new(generation)
	if withHits {
		s.swap.gen.hits = []hits{}
	}
	s.enact(s.swap.gen.next(nil))
}

// another returns a stripe that is in use, each in turn.
func (s *stripes) another() *stripe { return &s.all[s.turn.Add(1)%s.active.Load()] }

// nearest returns the stripe of the processor.
func (s *stripes) nearest() *stripe {
	n := uint32(processor.Number())
	if active := s.active.Load(); n >= active {
		n %= active
	}
	return &s.all[n]
}

// acquire returns a stripe that is locked. It waits for a reader at most, or for a decision
// whose processor was taken away.
func (s *stripes) acquire() *stripe {
	one := s.nearest()
	if !one.mu.TryLock() {
		one = s.another()
		one.mu.Lock()
	}
	for one.rows == nil { // it has just gone out of use
		one.mu.Unlock()
		one = s.another()
		one.mu.Lock()
	}
	return one
}

// set makes the rules of a set those in force. A rule that keeps its ID keeps its counts.
// A decision that meets a new rule must not come before set has returned.
func (s *stripes) set(inForce []*rules.Rule) {
	s.swap.Lock()
	defer s.swap.Unlock()
	s.enact(s.swap.gen.next(inForce))
}

// enact puts a generation in force, stripe by stripe, and carries over what has been
// counted. s.swap is held, or nobody knows s yet.
func (s *stripes) enact(next *generation) {
	before := s.swap.gen
	heirs := next.heirs(before)
	for i := range before.carried {
		carry(next.carried, heirs[i], &before.carried[i])
	}
	for i := range before.hits {
		carry(next.hits, heirs[i], &before.hits[i])
	}
	active := min(len(s.all), max(1, maxRows/len(next.carried)))
	s.active.Store(uint32(active))
	for i := range s.all {
		one := &s.all[i]
		var rows []row
		var hit []hits
		if i < active {
			rows, hit = next.rows()
		}
		one.mu.Lock()
		for i := range one.rows {
			carry(next.carried, heirs[i], &one.rows[i].counts)
		}
		for i := range one.hits {
			carry(next.hits, heirs[i], &one.hits[i])
		}
		one.gen, one.rows, one.hits = next, rows, hit
		one.mu.Unlock()
	}
	s.swap.gen = next
}

// carry adds what a row has counted to that of its heir, if it has one.
func carry[T any, P interface {
	*T
	add(*T)
}](to []T, heir int, count *T) {
	if heir >= 0 {
		P(&to[heir]).add(count)
	}
}

// hot counts a key of a rule that became hot, by the ID of the rule.
func (s *stripes) hot(id string) {
	one := s.acquire()
	row, inForce := one.gen.byID[id]
	if !inForce {
		row = one.gen.outdated()
	}
	one.rows[row].hot++
	one.mu.Unlock()
}

// totals is the sum of all stripes.
type totals struct {
	tally
	gen   *generation
	rules []counts // by row of gen
	hits  []hits   // by row of gen; nil unless they are counted
	// tiers and tierNames are by the numbers of tiers.
	tiers     []tierCounts
	tierNames []string
}

// total adds up all stripes. Each is a snapshot, but not of one instant.
func (s *stripes) total() *totals {
	s.swap.Lock()
	defer s.swap.Unlock()
	gen := s.swap.gen
	t := &totals{gen: gen, rules: append([]counts(nil), gen.carried...), hits: append([]hits(nil), gen.hits...)}
	for i := range s.all {
		one := &s.all[i]
		one.mu.Lock()
		t.tally.add(&one.tally)
		for i := range one.rows {
			t.rules[i].add(&one.rows[i].counts)
		}
		for i := range one.hits {
			t.hits[i].add(&one.hits[i])
		}
		t.tiers = addTiers(t.tiers, one.tiers)
		one.mu.Unlock()
	}
	t.tierNames = s.tiers.names()
	return t
}

// row returns the row of a rule; nil is a limit that a caller has named.
func (s *stripe) row(r *rules.Rule) int {
	if r == nil {
		return s.gen.caller()
	}
	if i := r.Index(); i < len(s.rows) && s.rows[i].rule == r {
		return i
	}
	return s.gen.lateRow(r)
}
