package adminapi

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/rules/rulefile"
)

// A rule is told with what it matches and all its limits, whatever it is named.
func TestRulesTellWhatTheyMatch(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte(`domain: d
descriptors:
  - {key: free, rate_limit: {unlimited: true}}
  - {key: a, descriptors: [{key: b, value: c, rate_limit: {name: n3, unit: year, requests_per_unit: 9}}]}
  - {key: login, sensitive: true, failure_mode: closed, rate_limit: {unit: day, requests_per_unit: 7}, concurrency: 3,
     ban: {after: 9, within: 1m, for: 2h}, soft_limit: {at: 80%, action: warn}, priority: p1, schedule: [{cron: "* * * * *", for: 1h, factor: 2}]}
`)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	views := map[string]ruleView{}
	for _, r := range set.Rules() {
		views[r.ID] = ruleViewOf(r, "file", time.Now())
	}
	if v := views["d.free"]; !v.Unlimited || v.Limits == nil || !slices.Equal(v.Path, []string{"free"}) {
		t.Errorf("%+v", v)
	}
	if v := views["n3"]; !slices.Equal(v.Path, []string{"a", "b_c"}) || len(v.Limits) != 1 || v.Limits[0].Role != "main" || v.Failure != "open" {
		t.Errorf("%+v", v)
	}
	v := views["d.login"]
	var roles []string
	for _, l := range v.Limits {
		roles = append(roles, l.Role)
	}
	slices.Sort(roles)
	if !slices.Equal(roles, []string{"ban", "concurrency", "main"}) || !v.Sensitive || v.Failure != "closed" || v.SoftLimit == "" || v.Priority != "p1" || len(v.Schedule) != 1 || v.Now == "" {
		t.Errorf("%+v", v)
	}
}
