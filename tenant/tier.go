package tenant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FallbackTier is the tier of a subject without an account, unless told otherwise.
const FallbackTier = "free"

const (
	// MaxTiers bounds the tiers of one set.
	MaxTiers = 256
	// MaxTierQuotas bounds the quotas of one tier.
	MaxTierQuotas = 4096
)

// Tier is what all of its tenants may use unless they have an override.
type Tier struct {
	// Name has letters, digits, "-", "_" and "."; at most MaxName bytes.
	Name string
	// Quotas by the canonical text of the descriptor; Default is that of the
	// subject as a whole. None of a descriptor leaves it to the rule.
	Quotas map[string]*Quota
	// Pool is what each tenant may use beyond them; nil for nothing.
	Pool *Pool
	// Store names the store that keeps the buckets of its tenants, but for the pool and for
	// top-ups; "" leaves it to the rules.
	Store string
}

// Tiers is an immutable set of tiers. The zero value has none: every subject then
// has what its overrides and the rules say.
type Tiers struct {
	byName   map[string]*Tier
	fallback string
}

// NewTiers checks tiers and returns a set of them. fallback is the tier of
// subjects without an account and of accounts whose tier is none of the set; ""
// means FallbackTier. It must be in the set, unless that is empty.
func NewTiers(tiers []Tier, fallback string) (*Tiers, error) {
	fallback = cmp.Or(fallback, FallbackTier)
	if len(tiers) > MaxTiers {
		return nil, fmt.Errorf("%d tiers; hint: at most %d", len(tiers), MaxTiers)
	}
	set := &Tiers{byName: make(map[string]*Tier, len(tiers)), fallback: fallback}
	for i := range tiers {
		t := &tiers[i]
		if err := t.validate(); err != nil {
			return nil, err
		}
		if set.byName[t.Name] != nil {
			return nil, fmt.Errorf("tier %s: there are two of that name", t.Name)
		}
		set.byName[t.Name] = t
	}
	if len(tiers) > 0 && set.byName[fallback] == nil {
		return nil, fmt.Errorf("no tier %s, which subjects without an account have; hint: name the tier that they should have", fallback)
	}
	return set, nil
}

func (t *Tier) validate() error {
	if err := checkName(t.Name); err != nil {
		return fmt.Errorf("tier: %w", err)
	}
	if t.Store != "" {
		if err := checkName(t.Store); err != nil {
			return fmt.Errorf("tier %s: store: %w", t.Name, err)
		}
	}
	if len(t.Quotas) > MaxTierQuotas {
		return fmt.Errorf("tier %s: %d quotas; hint: at most %d", t.Name, len(t.Quotas), MaxTierQuotas)
	}
	for d, q := range t.Quotas {
		if err := checkDescriptor(d); err != nil {
			return fmt.Errorf("tier %s: %w", t.Name, err)
		}
		if q == nil {
			return fmt.Errorf("tier %s: %s: the quota is missing", t.Name, DescriptorText(d))
		}
		if err := q.Validate(); err != nil {
			return fmt.Errorf("tier %s: %s: %w", t.Name, DescriptorText(d), err)
		}
	}
	if t.Pool != nil {
		if err := t.Pool.Validate(); err != nil {
			return fmt.Errorf("tier %s: burst pool: %w", t.Name, err)
		}
	}
	return nil
}

// Has reports whether the set has a tier of that name.
func (t *Tiers) Has(name string) bool { return t.byName[name] != nil }

// Names returns the names of the tiers, sorted.
func (t *Tiers) Names() []string { return slices.Sorted(maps.Keys(t.byName)) }

// Hint says which names a tier can have, for errors about another one.
func (t *Tiers) Hint() string {
	if len(t.byName) == 0 {
		return "there are no tiers: name a file of them with --tiers, or put one"
	}
	return "one of " + strings.Join(t.Names(), ", ")
}

// Tier returns the tier of that name, or nil.
func (t *Tiers) Tier(name string) *Tier { return t.byName[name] }

// Fallback returns the name of the tier of subjects without an account.
func (t *Tiers) Fallback() string { return t.fallback }

// resolve returns the tier that an account with the tier of that name has, nil
// when there are no tiers.
func (t *Tiers) resolve(name string) *Tier {
	if tier := t.byName[name]; tier != nil {
		return tier
	}
	return t.byName[t.fallback]
}
