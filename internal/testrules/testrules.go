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
	set, err := rulefile.Load([]rulefile.File{{Name: "test.yaml", Data: []byte(text)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}
