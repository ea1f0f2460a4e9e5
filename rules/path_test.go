package rules_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/rules/rulefile"
)

func TestPath(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(`domain: d
descriptors:
  - {name: all, always: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: route, value: "/v1/*", rate_limit: {unit: minute, requests_per_unit: 1}}
`)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, r := range set.Rules() {
		got = append(got, r.Path())
	}
	want := [][]string{nil, {"tenant"}, {"tenant", "route_/v1/*"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}
