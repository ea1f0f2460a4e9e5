package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

// TestSimulationDenial has denials remembered above the leases, on nodes that give
// back what they hold one after the other: hardly a hit is denied for it while the
// store has something left. Remembered for two seconds, as those of exact buckets
// are, it were one denial in nine.
func TestSimulationDenial(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("half a million decisions")
	}
	tenSeconds := limit.Spec{Algorithm: limit.FixedWindow, Quota: 10_000, Period: 10 * time.Second}
	fmt.Printf("%-36s %8s %8s %8s %8s %8s %8s\n", "leased, denials remembered above", "asked", "passed", "denied", "wrongly", "under %", "calls %")
	var denied, wrong int64
	for _, sc := range []scenario{
		{name: "fixed 10,000/min x4, leaving", spec: middleFixed, demand: 4},
		{name: "fixed 10,000/10s x1.3, leaving", spec: tenSeconds, demand: 1.3},
		{name: "fixed 10,000/10s x2, skewed, leaving", spec: tenSeconds, demand: 2, skew: 0.6},
		{name: "fixed 5,000/2s x1.5, leaving", spec: shortFixed, demand: 1.5},
	} {
		sc.mode, sc.length, sc.events, sc.denial = leasedMode, time.Minute, leave, true
		o := simulate(t, sc, 1)
		fmt.Printf("%-36s %8d %8d %8d %8d %8.2f %8.3f\n", sc.name, o.asked, o.passed, o.denied, o.wrong, o.underUse(), o.callsPerDecision())
		if o.excess > 0 {
			t.Errorf("%s: %d hits over the limit", sc.name, o.excess)
		}
		denied, wrong = denied+o.denied, wrong+o.wrong
	}
	if wrong*12 > denied {
		t.Errorf("%d of %d denials while the store has hits left, want at most 1 in 12", wrong, denied)
	}
}
