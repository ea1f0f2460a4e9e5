package rulefile

import (
	"testing"

	"github.com/headgate/headgate/rules"
)

// TestWaysOfAllRules: what is said for all rules holds for each, of files and of rows, unless the
// rule says otherwise where it can; and the rules have another version, because they are others.
func TestWaysOfAllRules(t *testing.T) {
	files := []File{{Name: "a", Data: []byte(`domain: d
descriptors:
- key: plain
  rate_limit: {unit: minute, requests_per_unit: 5}
- key: counts
  rate_limit: {unit: minute, requests_per_unit: 5, count_denied: true}
- key: free
  rate_limit: {unlimited: true}
`)}}
	load := func(o Options) *rules.Set {
		t.Helper()
		o.Compat, o.Rows = true, []rules.Row{{ID: 1, Scope: "user", LimitCount: 5, WindowMS: 60000, Active: true}}
		set, err := Load(files, o)
		if err != nil || len(set.BadRows()) != 0 || set.NumRules() != 4 {
			t.Fatal(err, set)
		}
		return set
	}
	denied := func(r *rules.Rule) bool { return len(r.Limits) > 0 && r.Limits[0].Limit.CountDenied }
	before := load(Options{})
	quota, spare := load(Options{QuotaMode: true}), load(Options{SpareDenied: true})
	if before.Version() == quota.Version() || before.Version() == spare.Version() || quota.Version() == spare.Version() {
		t.Error("different rules have one version")
	}
	for i, r := range before.Rules() {
		q, s := quota.Rules()[i], spare.Rules()[i]
		if r.Quota || !q.Quota || s.Quota {
			t.Errorf("%s: quota mode %t, %t and %t", r.ID, r.Quota, q.Quota, s.Quota)
		}
		if says := r.ID == before.Rules()[1].ID; denied(s) != says && !r.Unlimited {
			t.Errorf("%s: denied hits count: %t", r.ID, denied(s))
		}
	}
	if r := before.Rules()[0]; !denied(r) {
		t.Errorf("%s: denied hits do not count", r.ID)
	}
}
