package headgate_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
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

// keyRaises is a KeyRaises that raises every key by so many per cent, of one rule.
type keyRaises struct {
	rule    string
	percent int
	keys    map[string]bool
}

func (a *keyRaises) RaiseOf(rule string, key []byte, now limit.Micros) int {
	if rule != a.rule || now != limit.MicrosOf(noon) {
		return 0
	}
	a.keys[string(key)] = true
	return a.percent
}

// Where a rule raises hot keys a limit is as much larger as is said of its key, but never
// by more than the rule says; of this and what operators say the larger counts.
func TestD6HotKeysAreRaised(t *testing.T) {
	const policy = `
domain: d
match: path
descriptors:
  - {key: user, raise_hot_keys: {by: 20, for: 10m}, rate_limit: {unit: minute, requests_per_unit: 10}, secondary_limits: [{unit: day, requests_per_unit: 100}]}
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 10}}
`
	byOperator := `{"target":"raise:d.user","state":"raised","raise":50,"until":"` + noon.Add(time.Hour).Format(time.RFC3339) + `"}`
	for name, tt := range map[string]struct {
		raises       *keyRaises
		switched     string
		text         string
		passed, told int
	}{
		"nobody says so":      {nil, "", "user:ann", 10, 0},
		"hot":                 {&keyRaises{rule: "d.user", percent: 20}, "", "user:ann", 12, 20},
		"less than the rule":  {&keyRaises{rule: "d.user", percent: 10}, "", "user:ann", 11, 10},
		"more than the rule":  {&keyRaises{rule: "d.user", percent: 100}, "", "user:ann", 12, 20},
		"another rule":        {&keyRaises{rule: "d.plain", percent: 100}, "", "user:ann", 10, 0},
		"a rule without":      {&keyRaises{rule: "d.plain", percent: 100}, "", "plain:x", 10, 0},
		"more by an operator": {&keyRaises{rule: "d.user", percent: 20}, byOperator, "user:ann", 15, 50},
	} {
		o := headgate.Options{}
		if tt.raises != nil {
			tt.raises.keys = map[string]bool{}
			o.KeyRaises = tt.raises
		}
		b := newBench(t, policy, o)
		if tt.switched != "" {
			switched(t, b, tt.switched)
		}
		if got := b.passed(50, tt.text); got != tt.passed {
			t.Errorf("%s: %d pass, want %d", name, got, tt.passed)
		}
		for _, v := range b.check(on(tt.text)).Verdicts {
			if want := map[rules.Role]int{rules.Main: tt.told}[v.Role]; v.Raised != want {
				t.Errorf("%s: the verdict of a %v limit says raised by %d, want %d", name, v.Role, v.Raised, want)
			}
		}
		if tt.raises != nil && len(tt.raises.keys) > 1 {
			t.Errorf("%s: asked of %d keys, want the bucket of the main limit alone", name, len(tt.raises.keys))
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
