package tenant

import (
	"hash/maphash"
	"iter"
	"maps"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// Snapshot is what all subjects may use. It is immutable and safe for concurrent
// use. Make one with NewSnapshot.
type Snapshot struct {
	tiers    *Tiers
	seed     maphash.Seed
	base     *cached // nil: all accounts are in the table
	accounts table   // those that are not as the base has them
	count    int
	// grants are those of the accounts that have top-ups. They are few, and the others
	// shall not pay for them.
	grants [grantShards]map[Subject][]Grant
	parts  int
}

// grantShards is how many parts the top-ups of a snapshot are in. A change copies one.
const grantShards = 256

// Nobody has no tiers and no accounts. It stands where nothing is known of tenants, so that
// what they use is counted where it is when something is.
var Nobody = NewSnapshot(new(Tiers), func(func(Account) bool) {})

// NewSnapshot returns a snapshot of accounts. Of two with one subject the later one
// counts. They must be valid: see Account.Validate. It panics where tiers or accounts
// is nil.
func NewSnapshot(tiers *Tiers, accounts iter.Seq[Account]) *Snapshot {
	switch {
	case tiers == nil:
		panic("new snapshot: the tiers are nil; hint: new(tenant.Tiers) has none")
	case accounts == nil:
		panic("new snapshot: the accounts are nil; hint: slices.Values of a list, which may be empty")
	}
	s := &Snapshot{tiers: tiers, seed: maphash.MakeSeed()}
	w := writer{Snapshot: s}
	for a := range accounts {
		w.set(&a)
	}
	s.accounts.clip()
	return s
}

// With returns a snapshot in which accounts took the place of those with their
// subjects; an account without tiers, overrides and top-ups takes its subject out.
func (s *Snapshot) With(accounts ...Account) *Snapshot {
	next := *s
	w := writer{Snapshot: &next, before: s}
	for i := range accounts {
		w.set(&accounts[i])
	}
	return &next
}

// WithTiers returns a snapshot of the same accounts with other tiers.
func (s *Snapshot) WithTiers(tiers *Tiers) *Snapshot {
	next := *s
	next.tiers = tiers
	return &next
}

// Has reports whether there is an account of a subject.
func (s *Snapshot) Has(subject Subject) bool { return s.account(subject) != nil }

// Tiers returns the tiers.
func (s *Snapshot) Tiers() *Tiers { return s.tiers }

// Len returns the number of accounts.
func (s *Snapshot) Len() int { return s.count }

// Parts returns the number of tiers, overrides and top-ups of all accounts, those of the
// past and the future included.
func (s *Snapshot) Parts() int { return s.parts }

// All returns the accounts in no order, sorted each as snapshots keep them. Of a snapshot
// over a Base it returns those that Changed does, but for those that are not there.
func (s *Snapshot) All() iter.Seq[Account] {
	return func(yield func(Account) bool) {
		for a := range s.Changed() {
			if !a.empty() && !yield(a) {
				return
			}
		}
	}
}

func (s *Snapshot) hash(subject Subject) uint64 { return maphash.Comparable(s.seed, subject) }

// writer changes a snapshot that nobody else sees yet.
type writer struct {
	*Snapshot
	// before is what the snapshot shares its parts with, nil for nothing.
	before *Snapshot
	copied [grantShards]bool
	shared interner
}

func (w *writer) set(a *Account) {
	hash := w.hash(a.Subject)
	if w.base != nil {
		w.forget(w.account(a.Subject), a.Subject)
	}
	var c *account
	switch {
	case !a.empty():
		c = w.shared.account(compile(a))
		w.count++
	case w.base != nil:
		c = w.shared.account(&account{key: a.Subject.Key, gone: true})
	}
	var from *table
	if w.before != nil {
		from = &w.before.accounts
	}
	old := w.accounts.put(hash, a.Subject, c, from)
	if w.base == nil {
		w.forget(old, a.Subject)
	}
	w.parts += len(a.Tiers) + len(a.Overrides) + len(a.TopUps)
	w.setGrants(int(hash%grantShards), a)
}

// forget takes what there was of a subject, nil for nothing, out of the sums.
func (w *writer) forget(old *account, subject Subject) {
	if old != nil {
		w.count--
		w.parts -= len(old.tiers) + len(old.overrides) + len(w.granted(subject))
	}
}

// setGrants is set for the top-ups of a.
func (w *writer) setGrants(at int, a *Account) {
	if len(a.TopUps) == 0 && w.grants[at][a.Subject] == nil {
		return
	}
	if w.before != nil && !w.copied[at] {
		w.grants[at], w.copied[at] = maps.Clone(w.grants[at]), true
	}
	if len(a.TopUps) == 0 {
		delete(w.grants[at], a.Subject)
		return
	}
	if w.grants[at] == nil {
		w.grants[at] = map[Subject][]Grant{}
	}
	w.grants[at][a.Subject] = grantsOf(a.TopUps)
}

// maxInterned bounds the accounts, and the texts, that an interner knows.
const maxInterned = 1 << 16

// interner lets accounts share what most of them have: texts, and all that they have
// where that is little.
type interner struct {
	texts    map[string]string
	accounts map[plain]*account
}

// plain is all of an account with one tier and one override at most.
type plain struct {
	key      string
	gone     bool
	tiers    int
	tier     assignment
	over     int
	override override
}

func (t *interner) text(s string) string {
	if kept, ok := t.texts[s]; ok {
		return kept
	}
	if t.texts == nil || len(t.texts) >= maxInterned {
		t.texts = map[string]string{}
	}
	t.texts[s] = s
	return s
}

// account returns a with shared parts, or an equal one.
func (t *interner) account(a *account) *account {
	a.key = t.text(a.key)
	for i := range a.tiers {
		a.tiers[i].tier = t.text(a.tiers[i].tier)
	}
	for i := range a.overrides {
		a.overrides[i].descriptor = t.text(a.overrides[i].descriptor)
	}
	if len(a.tiers) > 1 || len(a.overrides) > 1 {
		return a
	}
	p := plain{key: a.key, gone: a.gone, tiers: len(a.tiers), over: len(a.overrides)}
	if p.tiers > 0 {
		p.tier = a.tiers[0]
	}
	if p.over > 0 {
		p.override = a.overrides[0]
	}
	if kept, ok := t.accounts[p]; ok {
		return kept
	}
	if t.accounts == nil || len(t.accounts) >= maxInterned {
		t.accounts = map[plain]*account{}
	}
	t.accounts[p] = a
	return a
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
	a := s.account(subject)
	return Standing{a, s.tiers.resolve(a.tierAt(now)), s.tiers.resolve(""), now}
}

// Tier returns the name of the tier, "" when there is none.
func (s Standing) Tier() string {
	if s.tier == nil {
		return ""
	}
	return s.tier.Name
}

// Store returns the name of the store that keeps the buckets of the subject, "" where the
// rules say it.
func (s Standing) Store() string {
	if s.tier == nil {
		return ""
	}
	return s.tier.Store
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
