package linelimit

import (
	"testing"
	"time"
)

// A line that is written says how many were not since the last, each once.
func TestLinesThatAreNotWrittenAreCounted(t *testing.T) {
	lines := PerMinute(1, 2)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const minute = time.Minute
	var l Limiter
	for i, step := range []struct {
		at     time.Duration
		untold int
		ok     bool
	}{
		{0, 0, true}, {0, 0, true}, {0, 0, false}, {0, 0, false}, {minute - time.Microsecond, 0, false},
		{minute, 3, true}, {minute, 0, false}, {2 * minute, 1, true}, {3 * minute, 0, true},
	} {
		if untold, ok := l.MayTell(lines, noon.Add(step.at)); untold != step.untold || ok != step.ok {
			t.Errorf("event %d: %d untold, %t, want %d, %t", i+1, untold, ok, step.untold, step.ok)
		}
	}
}
