// Package racetest has tests do less under the race detector than without it, where that
// detector looks for nothing. A package whose tests import it is run by `make race` and,
// whole, by `make norace`.
package racetest

import (
	"flag"
	"os"
	"testing"
)

// checksUnderRace is how often a property test draws under the race detector; without it
// rapid's default is 100.
const checksUnderRace = "10"

// Serially leaves t to the run without the race detector, because nothing in it runs side by
// side.
func Serially(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("nothing runs side by side here: make norace has it")
	}
}

// DrawLess has the property tests of a package draw a tenth under the race detector, if
// RAPID_CHECKS does not say how often. It is to be called before flags are parsed, in an
// init function of the tests.
func DrawLess() {
	if Enabled && os.Getenv("RAPID_CHECKS") == "" {
		if err := flag.Set("rapid.checks", checksUnderRace); err != nil {
			panic(err) // the tests use no rapid
		}
	}
}
