package storemode

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// ofEachKind has a rule of each kind, and that of which each is told by its name.
const ofEachKind = `
domain: d
match: path
descriptors:
- {key: exact, name: exact, hot_keys: coalesce, rate_limit: &l {unit: minute, requests_per_unit: 100}}
- {key: leased, name: leased, consistency: leased, lease_ttl: 2s, rate_limit: *l}
- {key: synced, name: synced, consistency: synced, sync_interval: 1s, rate_limit: *l}
- {key: local, name: local, consistency: local, local_share: whole, rate_limit: *l}
- {key: hot, name: hot, hot_keys: lease, rate_limit: *l}
- {key: spread, name: spread, sub_buckets: 8, rate_limit: *l}
- {key: asks, name: asks, remember_denials: false, rate_limit: *l}
- {key: kept, name: kept, store: near, hot_keys: coalesce, rate_limit: *l}
- {key: regional, name: regional, regions: leased, failure_mode: closed, hot_keys: coalesce, rate_limit: *l}
- {key: global, name: global, regions: shared, hot_keys: coalesce, rate_limit: *l}
`

// Each rule has modes of its own, which say the same of its main limits and of others, but for that.
func TestModesOfRules(t *testing.T) {
	list := testrules.Load(t, ofEachKind).Rules()
	modes := Of(list)
	want := map[string]store.Mode{
		"exact":    {},
		"leased":   {Consistency: store.Leased, LeaseTTL: 2 * time.Second},
		"synced":   {Consistency: store.Synced, SyncInterval: time.Second},
		"local":    {Consistency: store.Local, Whole: true},
		"hot":      {AutoLease: true},
		"spread":   {SubBuckets: 8},
		"asks":     {AskAlways: true},
		"kept":     {Store: "near"},
		"regional": {Regions: store.RegionsLeased},
		"global":   {Regions: store.RegionsShared},
	}
	for _, r := range list {
		for _, main := range []bool{true, false} {
			want := want[r.ID]
			want.Rule, want.Main = r.ID, main
			if got := modes.Get(r, main, ""); *got != want {
				t.Errorf("%s, main %v: %+v, want %+v", r.ID, main, *got, want)
			}
		}
	}
	if len(list) != len(want) {
		t.Errorf("%d rules, want %d", len(list), len(want))
	}
}

// In the store of a tier a rule has another mode, the same one whenever it is asked for, and its own stays as
// it was. Where the rule asks no store, or that one, it has its own.
func TestModesInStoresOfTiers(t *testing.T) {
	list := testrules.Load(t, ofEachKind).Rules()
	modes := Of(list)
	for _, r := range list {
		for _, main := range []bool{true, false} {
			own := modes.Get(r, main, "")
			before := *own
			near, far := modes.Get(r, main, "near"), modes.Get(r, main, "far")
			if again := modes.Get(r, main, "near"); again != near || *own != before {
				t.Errorf("%s, main %v: the mode is another one the second time, or the rule's changes", r.ID, main)
			}
			for in, got := range map[string]*store.Mode{"near": near, "far": far} {
				want := before
				if r.Mode.Consistency != rules.Local {
					want.Store = in
				}
				if *got != want || (got == own) != (want == before) {
					t.Errorf("%s, main %v, in %s: %+v, want %+v", r.ID, main, in, *got, want)
				}
			}
		}
	}
}
