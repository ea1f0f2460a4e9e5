package tenant

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

const (
	// MaxOverrides bounds the overrides of one account, those of the past and the
	// future included; one of several limits counts as so many.
	MaxOverrides = 4096
	// MaxAssignments bounds the tiers that one account had, has and will have.
	MaxAssignments = 256
)

// Subject names a tenant: the entry by which requests carry it. An API key stands
// there as the name that identity.Hasher gives it, never as itself.
type Subject = descriptor.Entry

// Term is the time in which something is in force: from From until just before
// Until, in whole microseconds. The zero From means always, the zero Until means
// for ever.
type Term struct{ From, Until time.Time }

// Override is the quota of one subject for one descriptor, in place of that of its
// tier.
type Override struct {
	// Descriptor is canonical text; see ParseDescriptor.
	Descriptor string
	Quota      *Quota
	Term       Term
}

// Assignment gives a subject a tier.
type Assignment struct {
	Tier string
	Term Term
}

// Account is all that is known of one subject.
type Account struct {
	Subject   Subject
	Tiers     []Assignment
	Overrides []Override
	TopUps    []TopUp
}

// empty reports whether a says nothing that its absence would not.
func (a *Account) empty() bool {
	return len(a.Tiers) == 0 && len(a.Overrides) == 0 && len(a.TopUps) == 0
}

// Validate refuses an account whose parts cannot be: names and descriptors that are
// not canonical, a quota or a top-up that is not valid, a Term that ends before it
// begins, two overrides of one descriptor, or two tiers, that begin at one instant, and
// two top-ups of one ID.
func (a *Account) Validate() error {
	if err := descriptor.Validate([]descriptor.Entry{a.Subject}); err != nil {
		return fmt.Errorf("subject: %w", err)
	}
	overrides := 0
	for i := range a.Overrides {
		overrides++
		if q := a.Overrides[i].Quota; q != nil && len(q.Limits) > 1 {
			overrides += len(q.Limits) - 1
		}
	}
	if overrides > MaxOverrides || len(a.Tiers) > MaxAssignments || len(a.TopUps) > MaxTopUps {
		return fmt.Errorf("%d overrides, %d tiers and %d top-ups; hint: at most %d, %d and %d; delete those of the past",
			overrides, len(a.Tiers), len(a.TopUps), MaxOverrides, MaxAssignments, MaxTopUps)
	}
	type start struct {
		descriptor string
		from       limit.Micros
	}
	begun := make(map[start]bool, len(a.Overrides))
	for i := range a.Overrides {
		o := &a.Overrides[i]
		if err := o.validate(); err != nil {
			return fmt.Errorf("override %d: %w", i, err)
		}
		s := start{o.Descriptor, o.Term.from()}
		if begun[s] {
			return fmt.Errorf("override %d: a second one of %s that begins at that instant", i, DescriptorText(o.Descriptor))
		}
		begun[s] = true
	}
	assigned := make(map[limit.Micros]bool, len(a.Tiers))
	for i, t := range a.Tiers {
		if err := cmp.Or(checkName(t.Tier), t.Term.validate()); err != nil {
			return fmt.Errorf("tier %d: %w", i, err)
		}
		if assigned[t.Term.from()] {
			return fmt.Errorf("tier %d: a second one that begins at that instant", i)
		}
		assigned[t.Term.from()] = true
	}
	granted := make(map[string]bool, len(a.TopUps))
	for i := range a.TopUps {
		t := &a.TopUps[i]
		if err := t.validate(); err != nil {
			return fmt.Errorf("top-up %d: %w", i, err)
		}
		if granted[t.ID] {
			return fmt.Errorf("top-up %d: a second one with the id %s", i, t.ID)
		}
		granted[t.ID] = true
	}
	return nil
}

func (o *Override) validate() error {
	if err := checkDescriptor(o.Descriptor); err != nil {
		return err
	}
	if o.Quota == nil {
		return errors.New("the quota is missing")
	}
	return cmp.Or(o.Quota.Validate(), o.Term.validate())
}

func (t Term) validate() error {
	if t.from() >= t.until() {
		return errors.New("it ends before it begins; hint: the end is after the begin")
	}
	return nil
}

// InForce reports whether now lies in t.
func (t Term) InForce(now limit.Micros) bool { return t.from() <= now && now < t.until() }

func (t Term) from() limit.Micros {
	if t.From.IsZero() {
		return math.MinInt64
	}
	return limit.MicrosOf(t.From)
}

func (t Term) until() limit.Micros {
	if t.Until.IsZero() {
		return math.MaxInt64
	}
	return limit.MicrosOf(t.Until)
}

// account is an Account as snapshots keep it, but for its top-ups: sorted, so that what
// is in force is found by a search, and without what repeats.
type account struct {
	key       string       // of the subject
	gone      bool         // it is not there, though the Base of the snapshot has it
	tiers     []assignment // the latest From first
	overrides []override   // by descriptor, then the latest From first
}

type assignment struct {
	tier        string
	from, until limit.Micros
}

type override struct {
	descriptor  string
	quota       *Quota
	from, until limit.Micros
}

func compile(a *Account) *account {
	c := &account{key: a.Subject.Key}
	for _, t := range a.Tiers {
		c.tiers = append(c.tiers, assignment{t.Tier, t.Term.from(), t.Term.until()})
	}
	slices.SortFunc(c.tiers, func(x, y assignment) int { return cmp.Compare(y.from, x.from) })
	for _, o := range a.Overrides {
		c.overrides = append(c.overrides, override{o.Descriptor, o.Quota, o.Term.from(), o.Term.until()})
	}
	slices.SortFunc(c.overrides, func(x, y override) int {
		return cmp.Or(strings.Compare(x.descriptor, y.descriptor), cmp.Compare(y.from, x.from))
	})
	return c
}

// expand is the inverse of compile and grantsOf.
func (a *account) expand(subject Subject, grants []Grant) Account {
	all := Account{Subject: subject}
	for _, t := range a.tiers {
		all.Tiers = append(all.Tiers, Assignment{t.tier, termOf(t.from, t.until)})
	}
	for _, o := range a.overrides {
		all.Overrides = append(all.Overrides, Override{o.descriptor, o.quota, termOf(o.from, o.until)})
	}
	for i := range grants {
		all.TopUps = append(all.TopUps, grants[i].topUp())
	}
	return all
}

func termOf(from, until limit.Micros) (t Term) {
	if from != math.MinInt64 {
		t.From = from.Time()
	}
	if until != math.MaxInt64 {
		t.Until = until.Time()
	}
	return t
}

// tierAt returns the name of the tier in force, "" for none. a may be nil.
func (a *account) tierAt(now limit.Micros) string {
	if a == nil {
		return ""
	}
	for i := range a.tiers {
		if t := &a.tiers[i]; t.from <= now && now < t.until {
			return t.tier
		}
	}
	return ""
}

// quotaAt returns the override in force for a descriptor, or nil. a may be nil.
func (a *account) quotaAt(text []byte, now limit.Micros) *Quota {
	if a == nil {
		return nil
	}
	low, high := 0, len(a.overrides)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if a.overrides[middle].descriptor < string(text) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for ; low < len(a.overrides) && a.overrides[low].descriptor == string(text); low++ {
		if o := &a.overrides[low]; o.from <= now && now < o.until {
			return o.quota
		}
	}
	return nil
}
