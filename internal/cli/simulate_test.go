package cli

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/simulate"
)

// TestSimulateDefaults holds that the command without flags is the simulation by default.
func TestSimulateDefaults(t *testing.T) {
	var c simulateCmd
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(nil); err != nil {
		t.Fatal(err)
	}
	got, err := c.options()
	if err != nil {
		t.Fatal(err)
	}
	want := simulate.Defaults()
	if got.Quota != want.Quota || got.Period != want.Period || got.Sources != want.Sources || got.Periods != want.Periods ||
		got.Nodes != want.Nodes || got.OpenLoop != want.OpenLoop || got.Seed != want.Seed || !slices.Equal(got.Loads, want.Loads) ||
		len(got.Algorithms) != len(want.Algorithms) || len(got.Workloads) != len(want.Workloads) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
