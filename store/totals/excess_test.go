package totals

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
)

// What passes beyond a limit while nothing fails: three regions, a limit of 1,000 a minute,
// demand from a little more than the limit to five times as much.
//
// M1: at most 2 % of the limit, where the demand is about the limit, or where regions tell
// each other five times a second. docs/regions.md has all figures; -v prints them.
func TestM1ExcessOfSharedLimits(t *testing.T) {
	racetest.Serially(t)
	for name, algorithm := range map[string]limit.Algorithm{"fixed_window": limit.FixedWindow, "sliding_window": limit.SlidingWindow} {
		l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: 1000, Period: time.Minute})
		for _, test := range []struct {
			every  int // in steps of 100 ms
			demand float64
			held   bool
		}{{10, 1.1, true}, {10, 2, false}, {10, 5, false}, {2, 1.1, true}, {2, 2, true}, {2, 5, false}} {
			worlds, most := 0, int64(0)
			for seed := range uint64(max(seeds(t)/20, 10)) {
				w := newWorldThatTells(t, seed, l, false, test.every)
				if len(w.stores) != 3 {
					continue
				}
				w.run(4*time.Minute, test.demand, false)
				worlds, most = worlds+1, max(most, w.worst(0)-l.Quota)
			}
			t.Logf("%s, told every %d00 ms, demand of %.1f limits: at most %d beyond 1,000 in %d worlds", name, test.every, test.demand, most, worlds)
			if test.held && most > l.Quota*2/100 {
				t.Errorf("%s, told every %d00 ms, demand of %.1f limits: %d beyond 1,000, want 2 %% at most", name, test.every, test.demand, most)
			}
		}
	}
}
