package linelimit

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

// A line that is written says how many were not since the last, each once.
func TestLinesThatAreNotWrittenAreCounted(t *testing.T) {
	lines := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Minute, Burst: 2})
	noon := limit.MicrosOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	const minute = limit.Micros(time.Minute / time.Microsecond)
	var l Limiter
	for i, step := range []struct {
		at     limit.Micros
		untold int
		ok     bool
	}{
		{0, 0, true}, {0, 0, true}, {0, 0, false}, {0, 0, false}, {minute - 1, 0, false},
		{minute, 3, true}, {minute, 0, false}, {2 * minute, 1, true}, {3 * minute, 0, true},
	} {
		if untold, ok := l.MayTell(lines, noon+step.at); untold != step.untold || ok != step.ok {
			t.Errorf("event %d: %d untold, %t, want %d, %t", i+1, untold, ok, step.untold, step.ok)
		}
	}
}
