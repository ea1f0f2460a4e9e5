package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

const reachRules = `
domain: leaf
match: leaf
descriptors:
- key: tenant
  descriptors:
  - {key: route, value: /login, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: route, value: "/api/*", rate_limit: {unit: hour, requests_per_unit: 5}}
- {key: remote_address, value_cidr: 10.0.0.0/8, rate_limit: {unit: hour, requests_per_unit: 5}}
- {key: call, concurrency: {limit: 1, hold: id}}
---
domain: path
match: path
descriptors:
- key: tenant
  rate_limit: {unit: hour, requests_per_unit: 5}
  descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}
---
domain: all
descriptors:
- {name: everything, always: true, rate_limit: {unit: hour, requests_per_unit: 5}}
- {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}
`

func loadReach(t testing.TB, text string) *rules.Set {
	t.Helper()
	var files []rulefile.File
	for i, part := range strings.Split(text, "---\n") {
		files = append(files, rulefile.File{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(part)})
	}
	set, err := rulefile.Load(files, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestReaches(t *testing.T) {
	set := loadReach(t, reachRules)
	whatever := func(key string) rules.Possible { return rules.Possible{Key: key, AnyValue: true} }
	is := func(key, value string) rules.Possible { return rules.Possible{Key: key, Value: value} }
	one := func(entries ...rules.Possible) [][]rules.Possible { return [][]rules.Possible{entries} }
	for _, c := range []struct {
		name, domain string
		parts        [][][]rules.Possible
		want         bool
	}{
		{"too few", "leaf", [][][]rules.Possible{one(whatever("tenant"))}, false},
		{"all", "leaf", [][][]rules.Possible{one(whatever("tenant")), one(whatever("route"))}, true},
		{"in one part", "leaf", [][][]rules.Possible{one(whatever("tenant"), whatever("route"))}, true},
		{"too many", "leaf", [][][]rules.Possible{one(whatever("tenant")), one(whatever("route")), one(whatever("user"))}, false},
		{"another order", "leaf", [][][]rules.Possible{one(whatever("route")), one(whatever("tenant"))}, false},
		{"a value", "leaf", [][][]rules.Possible{one(whatever("tenant")), one(is("route", "/login"))}, true},
		{"a pattern may fit", "leaf", [][][]rules.Possible{one(whatever("tenant")), one(is("route", "/other"))}, true},
		{"a network", "leaf", [][][]rules.Possible{one(whatever("remote_address"))}, true},
		{"an entry that is no level", "leaf", [][][]rules.Possible{one(whatever("id")), one(whatever("call"))}, true},
		{"an alternative", "leaf", [][][]rules.Possible{{{whatever("api_key")}, {whatever("remote_address")}}}, true},
		{"no alternative", "leaf", [][][]rules.Possible{{{whatever("api_key")}, {whatever("user")}}}, false},
		{"an alternative further in", "leaf", [][][]rules.Possible{{{whatever("api_key")}, {whatever("tenant")}}, {{whatever("user")}, {whatever("route")}}}, true},
		{"on the way", "path", [][][]rules.Possible{one(whatever("tenant")), one(whatever("nothing"))}, true},
		{"on the way, in one part", "path", [][][]rules.Possible{one(whatever("tenant"), whatever("nothing"))}, true},
		{"not on the way", "path", [][][]rules.Possible{one(whatever("user"))}, false},
		{"whatever it is", "all", [][][]rules.Possible{one(whatever("nothing"))}, true},
		{"nothing", "leaf", nil, false},
	} {
		if got := set.Domain(c.domain).Reaches(c.parts); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What is matched is reached, whether its values are known or not.
func TestMatchedIsReached(t *testing.T) {
	set := loadReach(t, reachRules+`---
domain: star
match: leaf
descriptors:
- {key: "us*", rate_limit: {unit: hour, requests_per_unit: 5}}
- {key: a, value: "x*", rate_limit: {unit: hour, requests_per_unit: 5}, descriptors: [{key: b, value_prefix: y, rate_limit: {unit: hour, requests_per_unit: 5}}]}
- {key: a, value_regex: "[0-9]+", descriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 5}}]}
`)
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		domain := set.Domain(rapid.SampledFrom(set.Domains()).Draw(t, "domain"))
		keys := rapid.SampledFrom([]string{"tenant", "route", "user", "usher", "a", "b", "remote_address", "id", "call"})
		values := rapid.SampledFrom([]string{"/login", "/api/x", "10.1.2.3", "xyz", "yes", "42", ""})
		var entries []descriptor.Entry
		var known, unknown [][][]rules.Possible
		for range rapid.IntRange(1, 3).Draw(t, "entries") {
			e := descriptor.Entry{Key: keys.Draw(t, "key"), Value: values.Draw(t, "value")}
			entries = append(entries, e)
			known = append(known, [][]rules.Possible{{{Key: e.Key, Value: e.Value}}})
			unknown = append(unknown, [][]rules.Possible{{{Key: e.Key, AnyValue: true}}})
		}
		if len(domain.AppendMatches(nil, entries, time.Now)) == 0 {
			return
		}
		matched++
		if !domain.Reaches(known) || !domain.Reaches(unknown) {
			t.Fatalf("%s: %v is matched and not reached", domain.Name, entries)
		}
	})
	if matched == 0 {
		t.Error("nothing was matched")
	}
}

func TestShapes(t *testing.T) {
	set := loadReach(t, reachRules)
	for domain, want := range map[string][]string{
		"leaf": {"tenant, route=...", "remote_address=...", "call"},
		"path": {"tenant", "tenant, user"},
	} {
		if got := set.Domain(domain).Shapes(9); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", domain, got, want)
		}
		if got := set.Domain(domain).Shapes(1); !slices.Equal(got, want[:1]) {
			t.Errorf("%s: one of %q", domain, got)
		}
	}
}
