package rulefile

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/rules"
)

// A key that is not about matching never changes silently which limits count.
func TestAnOwnKeySaysThatItChangesWhatCounts(t *testing.T) {
	const nested = `
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 100}
  descriptors:
  - key: op
    descriptors:
    - {key: item, OWN, rate_limit: {unit: minute, requests_per_unit: 3 }}
`
	const flat = `
descriptors:
- {key: user, OWN, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: op, rate_limit: {unit: minute, requests_per_unit: 3}}
`
	own := []string{"failure_mode: open", "sensitive: true", "consistency: exact", "priority: p1", "hot_keys: coalesce", "concurrency: 5"}
	file := func(head, rules, own string) string {
		return head + strings.Replace(rules, "OWN", own, 1)
	}
	for name, test := range map[string]struct {
		file    string
		options Options
		own     string
		match   rules.MatchMode
		warns   bool
	}{
		"Envoy's keys alone":        {file("domain: d", nested, "shadow_mode: true"), Options{}, "", rules.Leaf, false},
		"one limit on every way":    {file("domain: d", flat, own[0]), Options{}, "", rules.Path, false},
		"leaf is written":           {file("domain: d\nmatch: leaf", nested, own[0]), Options{}, "", rules.Leaf, false},
		"path is written":           {file("domain: d\nmatch: path", nested, own[0]), Options{}, "", rules.Path, false},
		"read as Envoy's":           {file("domain: d", nested, own[0]), Options{Compat: true}, "", rules.Leaf, false},
		"a key at the top":          {file("domain: d\nconsumption: independent", nested, "shadow_mode: true"), Options{}, "consumption", rules.Path, true},
		"a key of the first of all": {file("domain: d", nested, own[0]) + "- {key: b, priority: p0}", Options{}, "failure_mode", rules.Path, true},
	} {
		t.Run(name, func(t *testing.T) { checkMatch(t, test.file, test.options, test.own, test.match, test.warns) })
	}
	for _, key := range own {
		t.Run(key, func(t *testing.T) {
			name, _, _ := strings.Cut(key, ":")
			checkMatch(t, file("domain: d", nested, key), Options{}, name, rules.Path, true)
		})
	}
}

func checkMatch(t *testing.T, file string, o Options, own string, match rules.MatchMode, warns bool) {
	set := mustLoad(t, file, o)
	if got := set.Domain("d").Match; got != match {
		t.Errorf("match is %v, want %v", got, match)
	}
	told := 0
	for _, w := range set.Warnings() {
		if strings.HasPrefix(w.Message, "with the key '"+own+"' of Headgate, and without 'match', the limits of line ") {
			told++
		}
	}
	if want := map[bool]int{true: 1}[warns]; told != want {
		t.Errorf("told %d times, want %d: %v", told, want, set.Warnings())
	}
}
