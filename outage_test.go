package headgate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

// greedy has each of three nodes asked for one key once a second, until it denies or has
// let pass 100, for four periods of a minute. The store is away from begin on for length. It returns at
// which second each hit passed.
func greedy(t *testing.T, yaml string, begin, length int) (passed []int) {
	t.Helper()
	now := noon
	shared, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*outage{newOutageOf(t, yaml, shared), newOutageOf(t, yaml, shared), newOutageOf(t, yaml, shared)}
	for second := range 240 {
		now = noon.Add(time.Duration(second) * time.Second)
		for _, node := range nodes {
			node.now, node.down = now, second >= begin && second < begin+length
			for hits := 0; hits < 100 && node.check(on("k:x")).Allowed; hits++ {
				passed = append(passed, second)
			}
		}
	}
	return passed
}

// mostIn returns the most hits of one period of a minute: of any, or of those that begin
// at a whole minute.
func mostIn(passed []int, whole bool) (most int) {
	for begin := range 240 {
		if whole && begin%60 != 0 {
			continue
		}
		in := 0
		for _, second := range passed {
			if second >= begin && second < begin+60 {
				in++
			}
		}
		most = max(most, in)
	}
	return most
}

// What the store let pass and what the nodes let pass while it was away, in one period and
// of a key that no node knows: the bounds of the store and of all fallbacks, added up, for
// outages of different lengths that begin anywhere in the window.
//
//promise:outage-fixed-window outage-parts-and-logs outage-sliding-window
func TestStoreAndFallbacksInOneWindow(t *testing.T) {
	const nodes, quota = 3, 12
	for _, algorithm := range []string{"fixed_window", "sub_windows, mode: strict", "sliding_log", "sliding_window"} {
		for mode, shares := range map[string]int{"open": nodes, "local": 1} {
			yaml := fmt.Sprintf("domain: d\ndescriptors: [{key: k, failure_mode: %s, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: %s}}]", mode, quota, algorithm)
			reached := 0
			for _, length := range []int{1, 15, 30, 60} {
				bound := quota + shares*quota
				if algorithm == "sliding_window" {
					bound = 2*quota + shares*quota*(60+length)/60
				}
				for _, begin := range []int{60, 61, 75, 90, 119} {
					most := mostIn(greedy(t, yaml, begin, length), algorithm == "fixed_window")
					if most > bound {
						t.Errorf("%s, %s: the store is away for %d s at second %d: %d in a minute, want at most %d", algorithm, mode, length, begin, most, bound)
					}
					reached = max(reached, most)
				}
			}
			if reached < quota+shares*quota {
				t.Errorf("%s, %s: %d in a minute at most, so the test does not see the store and the nodes in one window", algorithm, mode, reached)
			}
			t.Logf("%s, %s: %d", algorithm, mode, reached)
		}
	}
}
