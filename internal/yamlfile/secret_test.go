package yamlfile

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// closed is a file of many kinds of values, all of which may be secrets.
type closed struct {
	Password string               `yaml:"password"`
	Budget   time.Duration        `yaml:"budget"`
	Count    int8                 `yaml:"count"`
	Share    float64              `yaml:"share"`
	On       bool                 `yaml:"on"`
	At       time.Time            `yaml:"at"`
	List     []string             `yaml:"list"`
	Inner    struct{ URL string } `yaml:"inner"`
	Named    map[string]closed    `yaml:"named"`
	Later    *yaml.Node           `yaml:"later"`
}

const marker = "Zq7Xw3Kv9Jt5"

// TestSecretsStay: whatever a value is where it does not fit, no error has it, unless the file is one
// that may be shown.
func TestSecretsStay(t *testing.T) {
	for _, text := range []string{
		"budget: S", "count: S", "share: S", "on: S", "at: S", "list: S", "inner: S", "named: S", "named: {a: S}", "password: [S]", "password: {S: 1}",
		"S: 1", "S", "- S", "password: *S", "password: &S", "password: !S x", "password: !<S> x", "password: 'S", "password: \"S", "password: \"\\S\"", "password: {S", "password: [S",
		"password: S\npassword: S", "S: 1\nS: 2", "named: {S: {}, S: {}}", "named: {S: {S: 1}}", "password: S: 1", "password: S\n  S: 1", "password: |S", "%S\n---\na", "? {S: 1}\n: 1",
		"password: @S", "password: `S`", "password: S\n---\npassword: S", "list: [a]\n<<: S", "<<: [S]", "named: {S: *S}", "a: &S [*S]", "password: S\n\tS: 1", "password: \x01S",
	} {
		text := strings.ReplaceAll(text, "S", marker)
		err := Parse([]byte(text), new(closed))
		if err == nil {
			continue
		}
		for _, e := range []error{err, In("f.yaml", err)} {
			if strings.Contains(e.Error(), marker) {
				t.Errorf("%q: %v", text, e)
			}
		}
	}
	text := "list:\n  - a\nSecret: 1\n"
	err := Show("f.yaml", []byte(text), Parse([]byte(text), new(closed)))
	if at, ok := err.(*Error); !ok || at.Error() != `f.yaml:3:1: unknown key "Secret"; hint: there is password, budget, count, share, on, at, list, inner, named, later` || at.Excerpt() != "      3 | Secret: 1\n        | ^\n" {
		t.Errorf("%v", err)
	}
	if again := Show("", []byte(text), err); again.Error() != err.Error() {
		t.Errorf("shown again: %v", again)
	}
	if err := In("f.yaml", err).(*Error); err.Excerpt() != "" {
		t.Errorf("in a file that may hold secrets: %q", err.Excerpt())
	}
}

// TestFaults: what is wrong is said in words of who wrote it.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"budget: 7":            "line 1: budget: a whole number is not a duration such as 250ms",
		"count: 300":           "line 1: count: a whole number that is out of range",
		"count: 1.5":           "line 1: count: a number is not a whole number",
		"share: x":             "line 1: share: text is not a number",
		"on: 1":                "line 1: on: a whole number is not true or false",
		"at: soon":             "line 1: at: it cannot be read",
		"list: {a: 1}":         "line 1: list: a mapping is not a list",
		"inner: [1]":           "line 1: inner: a list is not a mapping",
		"named: {x: {on: []}}": "line 1: on: a list is not true or false",
		"named: {x: 7}":        "line 1: a whole number is not a mapping",
		"pasword: x":           `line 1: unknown key "pasword"; hint: did you mean "password"?`,
		"named: {x: {y: 7}}":   "line 1: unknown key; hint: there is password, budget, count, share, on, at, list, inner, named, later",
		"password: *x":         "line 1: an alias of an anchor that there is not; hint: put a text that begins with * in quotes",
	} {
		if err := Parse([]byte(text), new(closed)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzSecretsStay: no error has a secret, whatever stands around it.
func FuzzSecretsStay(f *testing.F) {
	f.Add("password: ", "\nbudget: 7")
	f.Add("named: {a: {password: *", "}}")
	f.Add("budget: &a ", "\n'")
	f.Add("? ", "\n: 1")
	f.Add("a: ", ": b")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, marker[:4]) {
			t.Skip()
		}
		err := Parse([]byte(before+marker+after), new(closed))
		if err != nil && strings.Contains(In("f", err).Error(), marker) {
			t.Errorf("%q: %v", before+marker+after, err)
		}
	})
}
