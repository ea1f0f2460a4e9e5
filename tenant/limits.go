package tenant

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/headgate/headgate/limit"
)

// Limits returns all limits of all tiers, those of burst pools too, and where each
// stands: "tier pro, default".
func (t *Tiers) Limits() iter.Seq2[string, *limit.Limit] {
	return func(yield func(string, *limit.Limit) bool) {
		for _, name := range t.Names() {
			for where, l := range t.Tier(name).limits() {
				if !yield("tier "+name+", "+where, l) {
					return
				}
			}
		}
	}
}

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
		case !yield("the burst pool", t.Pool.Limit.Limit):
		case t.Pool.PerKey != nil:
			yield("the share of a key in the burst pool", t.Pool.PerKey.Limit.Limit)
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
