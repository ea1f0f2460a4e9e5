package describe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/rulefile"
)

func TestExplain(t *testing.T) {
	set := testrules.Load(t, `domain: d
match: path
descriptors:
- {always: true, name: all, rate_limit: {unit: second, requests_per_unit: 100}}
- {key: user, rate_limit: {unit: minute, requests_per_unit: 5}, descriptors: [
  {key: path, value: "/x*", rate_limit: {unit: minute, requests_per_unit: 1}},
  {key: path, value: "/a*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}},
  {key: ip, value_cidr: 10.0.0.0/8},
  {key: ip, valid_until: 2020-01-01T00:00:00Z, rate_limit: {unit: minute, requests_per_unit: 1}}]}
- {key: model, cost: {from: entry, name: tokens}, rate_limit: {unit: minute, requests_per_unit: 9}}
`)

	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct{ domain, request, want string }{
		{"d", "user:u,path:/abc", `
domain d (match: path, consumption: all_or_nothing)
entry 1  user:u
  - no descriptor has this key and value
  + user (rules.yaml:5): the descriptor for any value of the key
entry 2  path:/abc
  - no descriptor has this key and value
  - user.path_/x* (rules.yaml:6): the value does not fit the wildcard path_/x*
  + user.path_/a* (rules.yaml:7): the first wildcard path_/a* in the file that fits
end: the last entry reaches d.user.path_/a*
applies: all (rules.yaml:4): it applies to every request of the domain
  100 per 1s sliding_window; match path; all_or_nothing; fails open; always
  exact: every decision is made in the shared store, and for a hot key hits that a node takes in advance count as used until its lease ends, so excess 0
applies: d.user (rules.yaml:5): it is on the walked path
  5 per 1m sliding_window; match path; all_or_nothing; fails open
  exact: every decision is made in the shared store, so excess 0
  counted for user:u
applies: d.user.path_/a* (rules.yaml:7): it is on the walked path
  1 per 1m sliding_window; match path; all_or_nothing; fails open; shared threshold
  exact: every decision is made in the shared store, so excess 0
  counted for user:u,path:/a* (shared)
`},
		{"d", "user:u,ip:x", `
domain d (match: path, consumption: all_or_nothing)
entry 1  user:u
  - no descriptor has this key and value
  + user (rules.yaml:5): the descriptor for any value of the key
entry 2  ip:x
  - no descriptor has this key and value
  - user.path_/x* (rules.yaml:6): another key
  - user.path_/a* (rules.yaml:7): another key
  - user.ip_cidr:10.0.0.0/8 (rules.yaml:8): the value does not fit the cidr 10.0.0.0/8
  + user.ip (rules.yaml:9): the descriptor for any value of the key
end: the last entry reaches d.user.ip
applies: all (rules.yaml:4): it applies to every request of the domain
  100 per 1s sliding_window; match path; all_or_nothing; fails open; always
  exact: every decision is made in the shared store, and for a hot key hits that a node takes in advance count as used until its lease ends, so excess 0
applies: d.user (rules.yaml:5): it is on the walked path
  5 per 1m sliding_window; match path; all_or_nothing; fails open
  exact: every decision is made in the shared store, so excess 0
  counted for user:u
does not apply: d.user.ip (rules.yaml:9): it is not in force: valid until 2020-01-01T00:00:00Z
`},
		{"d", "tokens:5,model:m,more:x", `
domain d (match: path, consumption: all_or_nothing)
entry 1  tokens:5
  - a rule of the domain takes its cost from this entry, so it takes no part in matching
entry 2  model:m
  - no descriptor has this key and value
  + model (rules.yaml:10): the descriptor for any value of the key
entry 3  more:x
  - the descriptor before it has no nested descriptors
end: entry 3 of 3 finds nothing; with match: path, what was walked before it counts
applies: all (rules.yaml:4): it applies to every request of the domain
  100 per 1s sliding_window; match path; all_or_nothing; fails open; always
  exact: every decision is made in the shared store, and for a hot key hits that a node takes in advance count as used until its lease ends, so excess 0
applies: d.model (rules.yaml:10): it is on the walked path
  9 per 1m sliding_window; match path; all_or_nothing; fails open; cost entry:tokens
  exact: every decision is made in the shared store, so excess 0
  counted for model:m
`},
		{"nowhere", "user:u", `
domain nowhere
end: no file has the domain "nowhere", so nothing is limited
no rule applies: the request is not limited
`},
	} {
		got := describe.Explain(set, test.domain, mustParse(t, test.request), now).String()
		if want := strings.TrimPrefix(test.want, "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", test.request, got, want)
		}
	}
}

func TestExplainLeaf(t *testing.T) {
	set := testrules.LoadWith(t, "domain: d\ndescriptors: [{key: a_b, rate_limit: {unit: minute, requests_per_unit: 5}}, {key: c}]", rulefile.Options{Compat: true})
	for request, want := range map[string]string{
		"a:b":      `+ a_b (rules.yaml:2): the same text when key and value are joined by "_"`,
		"c:x":      "end: d.c has no rate_limit",
		"z:x":      "end: entry 1 of 1 finds nothing; with match: leaf, only the descriptor of the last entry counts, and there is no way back to others",
		"":         "end: the descriptor has no entries to match",
		"a_b:c\\,": "applies: d.a_b (rules.yaml:2): the last entry reaches it",
	} {
		if got := describe.Explain(set, "d", mustParse(t, request), time.Time{}).String(); !strings.Contains(got, want) {
			t.Errorf("%q:\n%s\nlacks %s", request, got, want)
		}
	}
}

func mustParse(t testing.TB, text string) []descriptor.Entry {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}
