package rules_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/internal/testrules"
)

func TestPath(t *testing.T) {
	set := testrules.Load(t, `domain: d
descriptors:
  - {name: all, always: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: route, value: "/v1/*", rate_limit: {unit: minute, requests_per_unit: 1}}
`)
	var got [][]string
	for _, r := range set.Rules() {
		got = append(got, r.Path())
	}
	want := [][]string{nil, {"tenant"}, {"tenant", "route_/v1/*"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}
