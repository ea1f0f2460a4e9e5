package tenant

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/headgate/headgate/limit"
)

// Unfit returns what cannot be decided of all tiers, and where each stands, such as "tier
// pro, default": unfit says why limits of a store cannot, nil where they can; without a limit
// whether there is that store.
func (t *Tiers) Unfit(unfit func(store string, l *limit.Limit) error) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, name := range t.Names() {
			tier := t.Tier(name)
			if err := unfit(tier.Store, nil); err != nil {
				// Nothing of it can be decided.
				if !yield("tier "+name+", store", err) {
					return
				}
				continue
			}
			for where, l := range tier.limits() {
				store := tier.Store
				if where == poolPlace || where == sharePlace {
					store = ""
				}
				if err := unfit(store, l); err != nil && !yield("tier "+name+", "+where, err) {
					return
				}
			}
		}
	}
}

// Where limits of a pool stand.
const (
	poolPlace  = "the burst pool"
	sharePlace = "the share of a key in the burst pool"
)

// limits returns the limits of a tier, and where in it each stands.
func (t *Tier) limits() iter.Seq2[string, *limit.Limit] {
	return func(yield func(string, *limit.Limit) bool) {
		for _, text := range slices.Sorted(maps.Keys(t.Quotas)) {
			for _, l := range t.Quotas[text].Limits {
				if !yield(DescriptorText(text), l.Limit) {
					return
				}
			}
		}
		switch {
		case t.Pool == nil:
		case !yield(poolPlace, t.Pool.Limit.Limit):
		case t.Pool.PerKey != nil:
			yield(sharePlace, t.Pool.PerKey.Limit.Limit)
		}
	}
}

// Limits returns the limits that an account has of its own, and where each stands:
// "overrides[0]". Those of top-ups are what asks for them.
func (a *Account) Limits() iter.Seq2[string, *limit.Limit] {
	return func(yield func(string, *limit.Limit) bool) {
		for i := range a.Overrides {
			for _, l := range a.Overrides[i].Quota.Limits {
				if !yield(fmt.Sprintf("overrides[%d]", i), l.Limit) {
					return
				}
			}
		}
		for i := range a.TopUps {
			grant := newGrant(&a.TopUps[i])
			if !yield(fmt.Sprintf("top_ups[%d]", i), grant.Ask) {
				return
			}
		}
	}
}
