package headgate_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

const raisable = `
domain: d
match: path
descriptors:
  - {always: true, name: all, rate_limit: {unit: minute, requests_per_unit: 100}}
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 10}
    secondary_limits: [{unit: day, requests_per_unit: 1000}]
  - {key: login, sensitive: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: odd, rate_limit: {unit: minute, requests_per_unit: 3}}
`

// A raise counts for the rule or the keys that it names, until its end, and never for
// sensitive rules; what was used counts on.
func TestD6RaisedLimits(t *testing.T) {
	until := noon.Add(time.Hour).Format(time.RFC3339)
	raise := func(rule, more string) string {
		return `{"target":"raise:` + rule + `","state":"raised","until":"` + until + `"` + more + `}`
	}
	for name, tt := range map[string]struct {
		raise, text string
		passed      int
	}{
		"nothing is raised":     {"", "user:ann", 10},
		"a rule":                {raise("d.user", `,"raise":20`), "user:ann", 12},
		"doubled":               {raise("d.user", `,"raise":100`), "user:ann", 20},
		"rounded half up":       {raise("d.odd", `,"raise":20`), "odd:x", 4},
		"another rule":          {raise("d.odd", `,"raise":20`), "user:ann", 10},
		"the key":               {raise("d.user", `,"raise":20,"tenants":["user:ann"]`), "user:ann", 12},
		"another key":           {raise("d.user", `,"raise":20,"tenants":["user:ann"]`), "user:bob", 10},
		"a sensitive rule":      {raise("d.login", `,"raise":20`), "login:x", 10},
		"a bucket that is over": {`{"target":"raise:d.user","state":"raised","raise":20,"until":"` + noon.Format(time.RFC3339) + `"}`, "user:ann", 10},
		"a bucket of all keys":  {raise("all", `,"raise":20,"tenants":["none:x"]`), "none:x", 100},
		"the bucket of all":     {raise("all", `,"raise":20`), "none:x", 120},
	} {
		b := newBench(t, raisable, headgate.Options{})
		if tt.raise != "" {
			switched(t, b, tt.raise)
		}
		if got := b.passed(150, tt.text); got != tt.passed {
			t.Errorf("%s: %d pass, want %d", name, got, tt.passed)
		}
	}
}

// What was used before counts, before and after the raise.
func TestD6RaiseKeepsWhatWasUsed(t *testing.T) {
	b := newBench(t, raisable, headgate.Options{})
	steps := []int{b.passed(50, "user:ann")}
	switched(t, b, `{"target":"raise:d.user","state":"raised","raise":50,"until":"`+noon.Add(time.Hour).Format(time.RFC3339)+`"}`)
	steps = append(steps, b.passed(50, "user:ann"))
	b.limiter.SetSwitches(nil)
	steps = append(steps, b.passed(50, "user:ann"))
	if steps[0] != 10 || steps[1] != 5 || steps[2] != 0 {
		t.Errorf("%v pass before, during and after the raise; want 10, 5, 0", steps)
	}
}
