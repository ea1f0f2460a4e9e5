//go:build !race

// Nothing here runs side by side, and the race detector makes it ten times slower.

package rulefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/rules"
)

// Whatever a file is cut to, Load answers; and what it accepts, it would accept
// from Envoy's service too: a whole first part of the list.
func TestTruncatedAtEveryByte(t *testing.T) {
	for _, name := range []string{"envoy/accepted/everything.yaml", "headgate/accepted/rules.yaml", "headgate/accepted/limits.yaml", "headgate/accepted/guards.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		whole := mustLoad(t, string(data), Options{}).NumRules()
		loaded := 0
		for n := range data {
			set, err := Load([]File{{"cut.yaml", data[:n]}}, Options{})
			var errs rules.Errors
			switch {
			case err == nil && set.NumRules() > whole:
				t.Errorf("%s cut at %d has %d rules, the whole %d", name, n, set.NumRules(), whole)
			case err == nil:
				loaded++
			case !errors.As(err, &errs) || errs[0].File != "cut.yaml" || errs[0].Line < 1 || errs[0].Hint == "":
				t.Errorf("%s cut at %d: %v", name, n, err)
			}
		}
		if loaded == len(data) {
			t.Errorf("%s: no cut is refused", name)
		}
	}
}
