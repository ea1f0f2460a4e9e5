package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/accuracy"
	"github.com/headgate/headgate/store/memstore"
)

func ruleSet(t *testing.T, yaml string) *rules.Set {
	t.Helper()
	return testrules.Load(t, yaml)
}

// measuring returns what measures over a store that takes all limits.
func measuring(t *testing.T) *accuracy.Store {
	t.Helper()
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	by, err := accuracy.New(memory, accuracy.Options{Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// What a rule promises depends on its mode, its algorithm and the number of nodes.
func TestAccuracyBounds(t *testing.T) {
	set := ruleSet(t, `
domain: d
descriptors:
- {key: exact, name: exact, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: fixed_window}}
- {key: weighed, name: weighed, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: large, name: large, rate_limit: {unit: minute, requests_per_unit: 1001}}
- {key: parts, name: parts, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: sub_windows}}
- {key: many, name: many, rate_limit: {unit: minute, requests_per_unit: 1001, algorithm: sub_windows}}
- {key: leased, name: leased, consistency: leased, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: gcra}}
- {key: synced, name: synced, consistency: synced, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: local, name: local, consistency: local, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: token_bucket}}
- {key: whole, name: whole, consistency: local, local_share: whole, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: sliding_log}}
- {key: free, name: free, unlimited: true}
- {key: denied, name: denied, rate_limit: {unit: minute, requests_per_unit: 2, count_denied: true}}
- {key: tenant, name: tenant, tenant: true}
`)
	type row struct {
		reference            string
		unknown, one, eleven float64
	}
	want := map[string]row{
		"exact": {"fixed_window", 0, 0, 0}, "weighed": {"sliding_log", 1, 1, 1}, "large": {"sub_windows", 61.0 / 60, 61.0 / 60, 61.0 / 60},
		"parts": {"sliding_log", 1, 1, 1}, "many": {"sub_windows", 0, 0, 0},
		"leased": {"gcra", 0, 0, 0}, "synced": {"sliding_log", -1, 1, 21}, "local": {"token_bucket", -1, 0, 4.5}, "whole": {"sliding_log", -1, 0, 10},
		"tenant": {"sliding_log", 1, 1, 1},
	}
	by := measuring(t)
	for i, nodes := range []int{0, 1, 11} {
		for _, r := range set.Rules() {
			measured := accuracy.Report{Counts: accuracy.Counts{Decided: 7, Overshoot: 3}, Recent: accuracy.Counts{Decided: 5, Overshoot: 2}}
			if r.ID == "tenant" { // what its tenants have is known when it was decided
				if one, ok := ruleAccuracy(r, by, measured, nodes); ok {
					t.Errorf("%+v", one)
				}
				measured.Last = limit.Must(limit.PerMinute(5))
			}
			w, listed := want[r.ID]
			one, ok := ruleAccuracy(r, by, measured, nodes)
			if ok != listed {
				t.Errorf("%s: %t, want %t", r.ID, ok, listed)
			}
			if adds := strings.Contains(one.BoundText, "to this the bound adds"); ok && adds != slices.Contains([]string{"weighed", "large", "parts", "synced", "tenant"}, r.ID) {
				t.Errorf("%s: %s", r.ID, one.BoundText)
			}
			if names := strings.Contains(one.BoundText, "sliding_window"); names && r.ID == "parts" || !names && r.ID == "weighed" {
				t.Errorf("%s: %s", r.ID, one.BoundText)
			}
			if bound := [3]float64{w.unknown, w.one, w.eleven}[i]; ok && (one.Bound != bound || one.Reference != w.reference || one.BoundText == "" || one.Rule != r.ID || one.Decided != 7 || one.Overshoot != 2) {
				t.Errorf("%d nodes: %+v, want bound %v by %s", nodes, one, bound, w.reference)
			}
		}
	}
}

// What was measured of a rule goes on when it limits as before.
func TestAccuracyOutlivesAReload(t *testing.T) {
	const yaml = "domain: d\ndescriptors: [{key: user, name: user, consistency: %s, rate_limit: {unit: minute, requests_per_unit: %d}}]"
	before := ruleSet(t, fmt.Sprintf(yaml, "exact", 5))
	for _, step := range []struct {
		consistency string
		quota       int
		want        bool
	}{{"exact", 5, true}, {"exact", 6, false}, {"leased", 5, false}} {
		if got := limitsAlike(before, ruleSet(t, fmt.Sprintf(yaml, step.consistency, step.quota)))("user"); got != step.want {
			t.Errorf("%+v: %t", step, got)
		}
	}
	if limitsAlike(nil, before)("user") || limitsAlike(before, before)("gone") {
		t.Error("rules that were not there go on")
	}
}
