package app

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/testrules"
)

// TestRefusedRulesAreExplained: what is said of refused rules has what stands for the flags that it
// names, at the start and later, and even where it is cut.
func TestRefusedRulesAreExplained(t *testing.T) {
	set := testrules.Load(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 9}}]")
	none := testrules.Load(t, "domain: d\ndescriptors: []")
	bad := errors.New(strings.Repeat("bad\n", 9) + "--flag is off")
	explain := func(err error) error { return fmt.Errorf("%w; hint: VARIABLE", err) }
	for name, e := range map[string]rulesource.Event{
		"at the start":   {Kind: rulesource.Refused, Set: none, Err: bad},
		"at a reload":    {Kind: rulesource.Refused, Set: set, Err: bad},
		"the last good":  {Kind: rulesource.LastGood, Set: set, Err: bad},
		"a document":     {Kind: rulesource.DocumentRefused, Set: set, Err: bad},
		"without a word": {Kind: rulesource.Refused, Set: set, Err: bad},
	} {
		var log strings.Builder
		r := &ruleReporter{logger: slog.New(slog.NewTextHandler(&log, nil)), metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}), explain: explain}
		want := 1
		if name == "without a word" {
			r.explain, want = nil, 0
		}
		r.report(e)
		if got := strings.Count(log.String(), "shows them all; hint: VARIABLE"); got != want || !strings.Contains(log.String(), "bad | bad") {
			t.Errorf("%s: explained %d times, want %d:\n%s", name, got, want, log.String())
		}
	}
}
