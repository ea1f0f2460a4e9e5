package tenant

import (
	"hash/maphash"
	"iter"
	"maps"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// shards is how many parts a snapshot is made of. A change copies one of them: of a
// million accounts, a thousand.
const shards = 1024

// Snapshot is what all subjects may use. It is immutable and safe for concurrent
// use. Make one with NewSnapshot.
type Snapshot struct {
	tiers    *Tiers
	seed     maphash.Seed
	accounts [shards]map[Subject]*account
	// grants are those of the accounts that have top-ups. They are few, and the others
	// shall not pay for them.
	grants [shards]map[Subject][]Grant
	count  int
}

// NewSnapshot returns a snapshot of accounts. Of two with one subject the later one
// counts. They must be valid: see Account.Validate.
func NewSnapshot(tiers *Tiers, accounts iter.Seq[Account]) *Snapshot {
	s := &Snapshot{tiers: tiers, seed: maphash.MakeSeed()}
	shared := interner{}
	for a := range accounts {
		s.set(&a, shared)
	}
	return s
}

// With returns a snapshot in which accounts took the place of those with their
// subjects; an account without tiers, overrides and top-ups takes its subject out.
func (s *Snapshot) With(accounts ...Account) *Snapshot {
	next := *s
	var copied [shards]bool
	shared := interner{}
	for i := range accounts {
		at := next.shard(accounts[i].Subject)
		if !copied[at] {
			next.accounts[at], next.grants[at] = maps.Clone(next.accounts[at]), maps.Clone(next.grants[at])
			copied[at] = true
		}
		next.set(&accounts[i], shared)
	}
	return &next
}

// WithTiers returns a snapshot of the same accounts with other tiers.
func (s *Snapshot) WithTiers(tiers *Tiers) *Snapshot {
	next := *s
	next.tiers = tiers
	return &next
}

// Tiers returns the tiers.
func (s *Snapshot) Tiers() *Tiers { return s.tiers }

// Len returns the number of accounts.
func (s *Snapshot) Len() int { return s.count }

// All returns the accounts in no order, sorted each as snapshots keep them.
func (s *Snapshot) All() iter.Seq[Account] {
	return func(yield func(Account) bool) {
		for i := range s.accounts {
			for subject, a := range s.accounts[i] {
				if !yield(a.expand(subject, s.grants[i][subject])) {
					return
				}
			}
		}
	}
}

func (s *Snapshot) shard(subject Subject) int {
	return int(maphash.Comparable(s.seed, subject) % shards)
}

// set changes s, which nobody else sees yet.
func (s *Snapshot) set(a *Account, shared interner) {
	at := s.shard(a.Subject)
	before := len(s.accounts[at])
	if a.empty() {
		delete(s.accounts[at], a.Subject)
	} else {
		if s.accounts[at] == nil {
			s.accounts[at] = map[Subject]*account{}
		}
		c := compile(a)
		shared.intern(c)
		s.accounts[at][Subject{Key: shared.text(a.Subject.Key), Value: a.Subject.Value}] = c
	}
	s.count += len(s.accounts[at]) - before
	s.setGrants(at, a)
}

// setGrants is set for the top-ups of a.
func (s *Snapshot) setGrants(at int, a *Account) {
	if len(a.TopUps) == 0 {
		delete(s.grants[at], a.Subject)
		return
	}
	if s.grants[at] == nil {
		s.grants[at] = map[Subject][]Grant{}
	}
	s.grants[at][a.Subject] = grantsOf(a.TopUps)
}

// interner lets accounts share the texts that most of them have.
type interner map[string]string

func (t interner) text(s string) string {
	if kept, ok := t[s]; ok {
		return kept
	}
	t[s] = s
	return s
}

func (t interner) intern(a *account) {
	for i := range a.tiers {
		a.tiers[i].tier = t.text(a.tiers[i].tier)
	}
	for i := range a.overrides {
		a.overrides[i].descriptor = t.text(a.overrides[i].descriptor)
	}
}

// Source says where a quota comes from.
type Source uint8

const (
	// FromRule: neither the subject nor its tier has a quota for the descriptor.
	FromRule Source = iota
	// FromTier: the tier of the subject has it.
	FromTier
	// FromOverride: the subject has one of its own.
	FromOverride
	// FromTopUp: the quota denied, and a top-up has what it lacks.
	FromTopUp
	// FromPool: the quota denied, and the burst pool of the tenant has what it lacks.
	FromPool
)

// String returns the word for answers and logs.
func (s Source) String() string {
	return [...]string{"rule", "tier", "override", "top_up", "pool"}[s]
}

// Beyond reports whether s is none of a quota: the quota denied.
func (s Source) Beyond() bool { return s == FromTopUp || s == FromPool }

// Resolution is the quota of a subject for a descriptor.
type Resolution struct {
	// Quota is nil when Source is FromRule.
	Quota  *Quota
	Source Source
	// Tier is the name of the tier that the subject has, "" when there are none.
	Tier string
}

// Standing is what a subject has at an instant: its account and its tier. The zero
// value has neither.
type Standing struct {
	account *account
	tier    *Tier
	home    *Tier // the fallback
	now     limit.Micros
}

// Standing returns what a subject has at now. It does not allocate.
func (s *Snapshot) Standing(subject Subject, now limit.Micros) Standing {
	a := s.accounts[s.shard(subject)][subject]
	return Standing{a, s.tiers.resolve(a.tierAt(now)), s.tiers.resolve(""), now}
}

// Tier returns the name of the tier, "" when there is none.
func (s Standing) Tier() string {
	if s.tier == nil {
		return ""
	}
	return s.tier.Name
}

// Quota returns the quota for what the entries after the subject in a descriptor
// say, and where it comes from; none of them ask for the default quota. The quota is
// nil when that is FromRule. home is that of the fallback tier, nil where it has none.
// It does not allocate.
func (s Standing) Quota(rest []descriptor.Entry) (q *Quota, from Source, home *Quota) {
	if s.account == nil && s.tier == nil || size(rest) > MaxDescriptor {
		return nil, FromRule, nil // no quota has so long a descriptor
	}
	// Escapes make four bytes of one at most.
	var room [4 * MaxDescriptor]byte
	text := descriptor.AppendText(room[:0], rest)
	if s.home != nil {
		home = s.home.Quotas[string(text)]
	}
	if q := s.account.quotaAt(text, s.now); q != nil {
		return q, FromOverride, home
	}
	if s.tier != nil {
		if q := s.tier.Quotas[string(text)]; q != nil {
			return q, FromTier, home
		}
	}
	return nil, FromRule, home
}

// Resolve returns the quota of subject for what the entries after it in a
// descriptor say; none of them ask for its default quota. It does not allocate.
func (s *Snapshot) Resolve(subject Subject, rest []descriptor.Entry, now limit.Micros) Resolution {
	has := s.Standing(subject, now)
	quota, source, _ := has.Quota(rest)
	return Resolution{quota, source, has.Tier()}
}

// size returns the length of the text of entries, or less where it has escapes.
func size(entries []descriptor.Entry) int {
	n := 0
	for i := range entries {
		n += len(entries[i].Key) + len(entries[i].Value) + len(":,")
	}
	return max(n-len(","), 0)
}
