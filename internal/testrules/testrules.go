// Package testrules lets tests write rules as text.
package testrules

import (
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// test is a testing.TB or a *rapid.T.
type test interface {
	Helper()
	Fatal(args ...any)
}

// Load returns the rules of a file with that text, and fails the test when it has none.
func Load(t test, text string) *rules.Set {
	t.Helper()
	return LoadWith(t, text, rulefile.Options{})
}

// LoadWith is Load with options. The file is called rules.yaml.
func LoadWith(t test, text string, o rulefile.Options) *rules.Set {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(text)}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
