package tenant

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
)

// TestAnySnapshots: snapshots that come of each other by any changes, also several of one,
// each have what a map of their own would have.
func TestAnySnapshots(t *testing.T) {
	quotas := []*Quota{{}, {Limits: []Limit{{Limit: limit.Must(limit.PerMinute(5))}}}}
	rapid.Check(t, func(t *rapid.T) {
		type kept struct {
			snapshot *Snapshot
			model    map[Subject]Account
		}
		accounts := func(max int) []Account {
			var list []Account
			for range rapid.IntRange(0, max).Draw(t, "accounts") {
				a := Account{Subject: Subject{Key: rapid.SampledFrom([]string{"tenant", "org"}).Draw(t, "key"), Value: fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "value"))}}
				for i := range rapid.IntRange(0, 2).Draw(t, "tiers") {
					a.Tiers = append(a.Tiers, Assignment{Tier: fmt.Sprint("tier", i), Term: Term{From: limit.Micros(1000 * (i + 1)).Time()}})
				}
				for i := range rapid.IntRange(0, 2).Draw(t, "overrides") {
					a.Overrides = append(a.Overrides, Override{Descriptor: fmt.Sprint("op:", i), Quota: quotas[i]})
				}
				if rapid.Bool().Draw(t, "granted") {
					a.TopUps = []TopUp{{ID: "x", Hits: 5, Term: Term{Until: limit.Micros(5000).Time()}}}
				}
				list = append(list, a)
			}
			return list
		}
		apply := func(model map[Subject]Account, list []Account) map[Subject]Account {
			model = maps.Clone(model)
			for _, a := range list {
				if delete(model, a.Subject); !a.empty() {
					model[a.Subject] = a
				}
			}
			return model
		}
		first := accounts(40)
		all := []kept{{NewSnapshot(new(Tiers), slices.Values(first)), apply(map[Subject]Account{}, first)}}
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			from, list := rapid.SampledFrom(all).Draw(t, "from"), accounts(6)
			all = append(all, kept{from.snapshot.With(list...), apply(from.model, list)})
		}
		for i, k := range all {
			parts := 0
			for s, want := range k.model {
				parts += len(want.Tiers) + len(want.Overrides) + len(want.TopUps)
				got := k.snapshot.accounts.get(k.snapshot.hash(s), s)
				if got == nil || len(got.tiers) != len(want.Tiers) || len(got.overrides) != len(want.Overrides) || len(k.snapshot.granted(s)) != len(want.TopUps) {
					t.Fatalf("snapshot %d: %v is %+v, want %+v", i, s, got, want)
				}
			}
			listed := 0
			for a := range k.snapshot.All() {
				listed++
				if _, ok := k.model[a.Subject]; !ok {
					t.Fatalf("snapshot %d has %v", i, a.Subject)
				}
			}
			if k.snapshot.Len() != len(k.model) || listed != len(k.model) || k.snapshot.Parts() != parts {
				t.Fatalf("snapshot %d: %d accounts with %d parts, %d listed; want %d with %d", i, k.snapshot.Len(), k.snapshot.Parts(), listed, len(k.model), parts)
			}
		}
	})
}
