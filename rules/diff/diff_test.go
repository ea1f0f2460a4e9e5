package diff_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/diff"
)

func TestDiff(t *testing.T) {
	before := testrules.Load(t, `
domain: d
descriptors:
  - {key: kept, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: changed, rate_limit: {unit: minute, requests_per_unit: 5, name: old}}
  - {key: removed, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: freed, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: tenant, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: p, value: "a*", rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: p, value: "b*", rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: p, value: "c*", rate_limit: {unit: minute, requests_per_unit: 5}}
`)

	after := testrules.Load(t, `
domain: d
match: path
consumption: independent
descriptors:
  - {always: true, name: all, rate_limit: {unit: second, requests_per_unit: 9}}
  - {key: p, value: "x*", rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: p, value: "b*", rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: p, value: "a*", rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: p, value: "c*", rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: kept, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: changed, shadow_mode: true, sensitive: true, rate_limit: {unit: hour, requests_per_unit: 6, name: new}}
  - {key: freed}
  - {key: tenant, tenant: true, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: customer, tenant: true}
  - {key: added, limits: [{unit: second, requests_per_unit: 1}, {unit: day, requests_per_unit: 2}]}
`)

	var lines []string
	for _, c := range diff.Sets(before, after) {
		lines = append(lines, c.String())
	}
	want := `
~ d: order of patterns: p_a* p_b* p_c* -> p_b* p_a* p_c*
+ d.added: 1 per 1s sliding_window and 2 per 1d sliding_window
+ d.always.all: 9 per 1s sliding_window
~ d.changed: failure_mode: open -> closed
~ d.changed: limit: 5 per 1m sliding_window -> 6 per 1h sliding_window
~ d.changed: name: old -> new
~ d.changed: sensitive: false -> true
~ d.changed: shadow_mode: false -> true
+ d.customer: that of the tenant
~ d.freed: limit: 5 per 1m sliding_window -> no limit
+ d.p_x*: 5 per 1m sliding_window
- d.removed: 5 per 1m sliding_window
~ d.tenant: tenant: false -> true
~ domain d: consumption: all_or_nothing -> independent
~ domain d: limits of requests with further entries: none -> all on the way
~ domain d: match: leaf -> path
`
	if got := "\n" + strings.Join(lines, "\n") + "\n"; got != want {
		t.Errorf("got%swant%s", got, want)
	}
}

func TestDiffTellsDottedKeysApart(t *testing.T) {
	before := testrules.Load(t, "domain: d\ndescriptors: [{key: a.b, "+limitText+"}, {key: a, descriptors: [{key: b, "+limitText+"}]}]")
	after := testrules.Load(t, "domain: d\ndescriptors: [{key: a, descriptors: [{key: b, "+limitText+"}]}]")
	changes := diff.Sets(before, after)
	if len(changes) != 1 || changes[0].String() != "- d.a.b: 1 per 1m sliding_window" {
		t.Errorf("%v", changes)
	}
}

const limitText = "rate_limit: {unit: minute, requests_per_unit: 1}"

// Another match shows which limits count then, and a key that is not about it shows none.
func TestDiffShowsWhichLimitsCount(t *testing.T) {
	file := func(head, own string) *rules.Set {
		return testrules.Load(t, head+`
domain: d
descriptors:
- key: user
  `+own+`
  rate_limit: {unit: minute, requests_per_unit: 100}
  descriptors:
  - key: op
    descriptors:
    - {key: item, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: ip, descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 9}}]}
`)

	}
	const toPath = `~ d.user.op: limits that count: none -> 100 per 1m sliding_window of d.user
~ d.user.op.item: limits that count: 3 per 1m sliding_window -> 100 per 1m sliding_window of d.user and 3 per 1m sliding_window
~ domain d: limits of requests with further entries: none -> all on the way
~ domain d: match: leaf -> path`
	for name, test := range map[string]struct {
		from, to *rules.Set
		want     string
	}{
		"match is written":     {file("", ""), file("match: path", ""), toPath},
		"as it was":            {file("", ""), file("match: leaf", ""), ""},
		"a key of Headgate":    {file("", ""), file("", "failure_mode: open"), ""},
		"and one that does it": {file("", ""), file("", "failure_mode: closed"), "~ d.user: failure_mode: open -> closed"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, c := range diff.Sets(test.from, test.to) {
				lines = append(lines, c.String())
			}
			if got := strings.Join(lines, "\n"); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// value_to_metric of a level shows in the statistics of all rules below it.
func TestDiffTellsOfValuesInMetrics(t *testing.T) {
	file := func(key string) *rules.Set {
		return testrules.Load(t, `
domain: d
descriptors:
  - key: route
    `+key+`
    descriptors:
      - {key: method, rate_limit: {unit: minute, requests_per_unit: 5}}
`)
	}
	changes := diff.Sets(file(""), file("value_to_metric: true"))
	if len(changes) != 1 || changes[0].String() != "~ d.route.method: value_to_metric: none -> route" {
		t.Errorf("%v", changes)
	}
}
