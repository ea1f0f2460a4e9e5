package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules/rulefile"
)

// TestFixed: rules are found by way of fixed values alone, also below descriptors
// without a limit, and each is the one that its entries find.
func TestFixed(t *testing.T) {
	const text = `
domain: d
descriptors:
- key: tenant
  tenant: true
  descriptors:
  - {key: op, value: write, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: op, value: 'w*', rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: op, rate_limit: {unit: minute, requests_per_unit: 3}, descriptors: [{key: at, value: x, rate_limit: {unit: minute, requests_per_unit: 4}}]}
  - {key: op, value_prefix: a, rate_limit: {unit: minute, requests_per_unit: 5}}
  - key: zone
    value: eu
    descriptors:
    - {key: op, value: b_c, rate_limit: {unit: minute, requests_per_unit: 6}}
    - {key: op, value: deep, rate_limit: {unlimited: true}, descriptors: [{key: at, value: y, rate_limit: {unit: minute, requests_per_unit: 7}}]}
`
	for _, compat := range []bool{false, true} {
		set, err := rulefile.Load([]rulefile.File{{Name: "a.yaml", Data: []byte(text)}}, rulefile.Options{Compat: compat})
		if err != nil {
			t.Fatal(err)
		}
		d := set.Domain("d")
		tenant := []descriptor.Entry{{Key: "tenant", Value: "acme"}}
		by, ok := d.Tenant(tenant, nil)
		if !ok {
			t.Fatal("no rule of tenants")
		}
		var got []string
		for rule, rest := range by.Rule.Fixed() {
			got = append(got, descriptor.Format(rest))
			matched := d.AppendMatches(nil, append(slices.Clone(tenant), rest...), nil)
			if last := matched[len(matched)-1]; last.Rule != rule || last.Depth != 1+len(rest) {
				t.Errorf("%s finds %s, not %s", descriptor.Format(rest), last.Rule.ID, rule.ID)
			}
		}
		if want := "op:write zone:eu,op:b_c zone:eu,op:deep zone:eu,op:deep,at:y"; strings.Join(got, " ") != want {
			t.Errorf("%v, want %s", got, want)
		}
		for range by.Rule.Fixed() {
			break // and no more is asked for
		}
	}
}
