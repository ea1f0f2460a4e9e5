package rulesview

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules/rulefile"
)

func TestRulesView(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte(`domain: d
descriptors:
  - {key: free, rate_limit: {unlimited: true}}
  - {key: a, descriptors: [{key: b, value: c, rate_limit: {name: n3, unit: year, requests_per_unit: 9}}]}
  - {key: quota, quota_mode: true, rate_limit: {window: 90s, requests_per_unit: 5, algorithm: fixed_window}}
  - {key: login, sensitive: true, rate_limit: {unit: day, requests_per_unit: 7, time_zone: Europe/Berlin}, concurrency: 3,
     ban: {after: 9, within: 1m, for: 2h}, soft_limit: {at: 80%, action: warn}, answer: {body: flat}, priority: p1}
`)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	WriteLines(&lines, set)
	want := `d.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false
d.a.b_c: unit=YEAR requests_per_unit=9, shadow_mode: false, quota_mode: false
d.quota: unit=1M30S requests_per_unit=5, shadow_mode: false, quota_mode: true
d.login: unit=DAY IN EUROPE/BERLIN requests_per_unit=7, shadow_mode: false, quota_mode: false
`
	if lines.String() != want {
		t.Errorf("got\n%swant\n%s", lines.String(), want)
	}
	data, err := json.Marshal(Of(set, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"id":"d.login"`, `"failure":"closed"`, `"period":"day in Europe/Berlin"`, `"file":"r.yaml","line":5`, `"unlimited":true`,
		`{"role":"concurrency","algorithm":"concurrency","quota":3,"period":"minute"}`, `"role":"ban","algorithm":"ban","quota":9,"period":"minute","ban_for":"2h"`,
		`"priority":"p1","soft_limit":"`, `"answer":"`,
	} {
		if !strings.Contains(string(data), part) {
			t.Errorf("no %s in %s", part, data)
		}
	}
	WriteLines(&lines, nil)
}
