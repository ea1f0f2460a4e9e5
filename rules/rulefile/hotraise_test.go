package rulefile

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/diff"
)

// What a file says of raises is what the rule, its summary and a comparison say.
func TestD6RaiseHotKeys(t *testing.T) {
	for _, tt := range []struct {
		keys, text string
		want       rules.HotRaise
	}{
		{"raise_hot_keys: {by: 20, for: 10m}", "20% for 10m, then not for 10m", rules.HotRaise{By: 20, For: 10 * time.Minute}},
		{"hot_keys: lease, raise_hot_keys: {by: 100, for: 24h, pause: 10s}", "100% for 1d, then not for 10s", rules.HotRaise{By: 100, For: rules.MaxHotRaise, Pause: rules.MinHotRaise}},
		{"hot_keys: coalesce, raise_hot_keys: {by: 1, for: 10s, pause: 1d}", "1% for 10s, then not for 1d", rules.HotRaise{By: 1, For: rules.MinHotRaise, Pause: rules.MaxHotRaise}},
		{"raise_hot_keys: ", "", rules.HotRaise{}},
	} {
		r := modeOf(t, tt.keys)
		if r.HotRaise != tt.want || r.HotRaise.String() != tt.text {
			t.Errorf("%s: %+v, %q; want %+v, %q", tt.keys, r.HotRaise, r.HotRaise, tt.want, tt.text)
		}
		if in := strings.Contains(describe.Summary(r), "raises hot keys by "+tt.text); in != (tt.text != "") {
			t.Errorf("%s: summary is %q", tt.keys, describe.Summary(r))
		}
	}
	load := func(keys string) *rules.Set {
		return mustLoad(t, "domain: d\ndescriptors: [{key: k, tenant: true, "+keys+"}]", Options{})
	}
	before, after := load("rate_limit: {unit: day, requests_per_unit: 9}"), load("rate_limit: {unit: day, requests_per_unit: 9}, raise_hot_keys: {by: 20, for: 10m}")
	if changes := diff.Sets(before, after); len(changes) != 1 || changes[0].String() != "~ d.k: raise_hot_keys: none -> 20% for 10m, then not for 10m" {
		t.Errorf("%v", changes)
	}
}
