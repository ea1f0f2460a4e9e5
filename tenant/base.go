package tenant

import (
	"iter"
	"strings"
	"sync/atomic"
)

// Base finds the accounts of a snapshot that are not in memory, such as in a file. It is
// immutable and safe for concurrent use.
type Base interface {
	// Find returns the account of a subject, false where there is none. It is called while a
	// decision waits. The error says that it cannot be known: the subject counts as unknown
	// then.
	Find(subject Subject) (a Account, found bool, err error)
	// Len and Parts are those of all its accounts; see Snapshot.
	Len() int
	Parts() int
}

const (
	// cacheWays is how many subjects share a set of the cache: of these one goes when
	// another comes.
	cacheWays = 4
	// cacheSets is how many sets there are, a power of 2.
	cacheSets = 1 << 16
	// MaxCached is how many accounts of a Base are held in memory: those that were asked
	// for of late.
	MaxCached = cacheWays * cacheSets
)

// cached is a Base with what was found there of late.
type cached struct {
	base Base
	sets [cacheSets][cacheWays]atomic.Pointer[found]

	misses, failures atomic.Uint64
}

// found is what is known of a subject: nothing where account is nil.
type found struct {
	subject Subject
	account *account
	grants  []Grant
	// asked says that it was asked for again since it came, or since others were
	// looking for a place: it stays then.
	asked atomic.Bool
}

// nothing stands where a Base cannot be read.
var nothing = new(found)

// find returns what the base has of a subject. It does not allocate for one that was asked
// for of late.
func (c *cached) find(hash uint64, subject Subject) *found {
	set := &c.sets[hash%cacheSets]
	for i := range set {
		if f := set[i].Load(); f != nil && f.subject == subject {
			if !f.asked.Load() { // written rarely, because others read it
				f.asked.Store(true)
			}
			return f
		}
	}
	return c.read(set, hash, subject)
}

// read looks into the base, and puts what it finds in the place of what nobody asks for.
func (c *cached) read(set *[cacheWays]atomic.Pointer[found], hash uint64, subject Subject) *found {
	c.misses.Add(1)
	// Its own copy: the texts of requests are reused.
	subject = Subject{Key: strings.Clone(subject.Key), Value: strings.Clone(subject.Value)}
	a, ok, err := c.base.Find(subject)
	if err != nil {
		c.failures.Add(1)
		return nothing
	}
	f := &found{subject: subject}
	if ok {
		f.account, f.grants = compile(&a), grantsOf(a.TopUps)
	}
	set[wayFor(set, hash)].Store(f)
	return f
}

// wayFor returns where something new goes: where nothing is, or what was not asked for again.
// If all were, they have to be asked for once more to stay the next time.
func wayFor(set *[cacheWays]atomic.Pointer[found], hash uint64) int {
	first, idle := int(hash>>32)%cacheWays, -1
	for i := range cacheWays {
		at := (first + i) % cacheWays
		old := set[at].Load()
		if old == nil {
			return at
		}
		if idle < 0 && !old.asked.Load() {
			idle = at
		}
	}
	if idle >= 0 {
		return idle
	}
	for i := range set {
		if old := set[i].Load(); old != nil {
			old.asked.Store(false)
		}
	}
	return first
}

// NewSnapshotOver returns a snapshot of the accounts of a base. What With changes is held
// in memory beside it.
func NewSnapshotOver(tiers *Tiers, base Base) *Snapshot {
	s := NewSnapshot(tiers, func(func(Account) bool) {})
	s.base, s.count, s.parts = &cached{base: base}, base.Len(), base.Parts()
	return s
}

// Base returns what s was made over, nil for nothing.
func (s *Snapshot) Base() Base {
	if s.base == nil {
		return nil
	}
	return s.base.base
}

// Changed returns the accounts of s that are not as its Base has them, in no order; one
// that is not there any more has nothing but its subject. Of a snapshot without a Base
// these are all.
func (s *Snapshot) Changed() iter.Seq[Account] {
	return func(yield func(Account) bool) {
		for e := range s.accounts.all() {
			subject := Subject{Key: e.account.key, Value: e.value}
			if !yield(e.account.expand(subject, s.grants[s.hash(subject)%grantShards][subject])) {
				return
			}
		}
	}
}

// Changes returns how many accounts Changed has.
func (s *Snapshot) Changes() int { return s.accounts.count }

// Lookups is how often the Base of a snapshot, and of those made of it, was asked, and how
// often it could not be read.
type Lookups struct{ Misses, Failures uint64 }

// Lookups returns them, zero without a Base.
func (s *Snapshot) Lookups() Lookups {
	if s.base == nil {
		return Lookups{}
	}
	return Lookups{Misses: s.base.misses.Load(), Failures: s.base.failures.Load()}
}

// account returns that of a subject, nil if there is none. It does not allocate for one
// that is in memory.
func (s *Snapshot) account(subject Subject) *account {
	hash := s.hash(subject)
	a := s.accounts.get(hash, subject)
	switch {
	case a == nil && s.base != nil:
		return s.base.find(hash, subject).account
	case a != nil && a.gone:
		return nil
	}
	return a
}

// granted returns the top-ups of a subject, whenever they count. It does not allocate for
// one that is in memory.
func (s *Snapshot) granted(subject Subject) []Grant {
	hash := s.hash(subject)
	if s.base != nil && s.accounts.get(hash, subject) == nil {
		return s.base.find(hash, subject).grants
	}
	return s.grants[hash%grantShards][subject]
}
