package lease_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/lease"
)

// steppedBack is what came of a run in which the store's clock stepped back.
type steppedBack struct {
	first, later atomic.Int64 // denials in the second after the step, and after that
	excess       int64
}

// runSteppedBack asks three nodes for less than the limit lets pass, for forty seconds,
// and sets the clock of their store back after ten.
func runSteppedBack(t *testing.T, spec limit.Spec, rate float64, back time.Duration) *steppedBack {
	o := new(steppedBack)
	synctest.Test(t, func(t *testing.T) {
		const nodes = 3
		l := limit.Must(spec)
		w := newWorld(t, l, 1)
		start := time.Now()
		w.stepAt, w.stepBy = start.Add(10*time.Second), -back
		var all []*node
		var wg sync.WaitGroup
		for i := range nodes {
			n := w.node(i, nodes, leasedMode, rate/nodes)
			all = append(all, n)
			wg.Go(func() { n.live(start.Add(40 * time.Second)) })
		}
		time.Sleep(time.Until(w.stepAt) - time.Nanosecond)
		if denied := w.denied.Load(); denied > 0 {
			t.Fatalf("%d denied before the step: the demand is not below the limit", denied)
		}
		time.Sleep(time.Second)
		o.first.Store(w.denied.Load())
		wg.Wait()
		for _, n := range all {
			n.wg.Wait()
			conserved(t, n.store.Stats())
			n.store.Close()
		}
		o.later.Store(w.denied.Load() - o.first.Load())
		time.Sleep(2 * lease.DefaultBudget) // the last questions end
		// In time as it passed: what the store put before the start came after the step.
		for i, at := range w.passed {
			if at < int64(limit.MicrosOf(start.Add(w.aside))) {
				w.passed[i] += back.Microseconds()
			}
		}
		o.excess = excess(l, w.passed)
	})
	return o
}

// After a backward step of the store's clock leased buckets that are asked for less than
// their rate deny nothing from the first second on, and never let more pass. In that
// second they deny what they would deny if they were used up.
//
//promise:clock-back-leases
func TestLeasesAfterAStepBack(t *testing.T) {
	for _, test := range []struct {
		spec limit.Spec
		rate float64
	}{
		{limit.Spec{Algorithm: limit.GCRA, Quota: 50, Period: time.Second, Burst: 1000}, 44},
		{limit.Spec{Algorithm: limit.GCRA, Quota: 100, Period: time.Second, Burst: 1000}, 44},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 500, Period: time.Second, Burst: 1000}, 44},
		{limit.Spec{Algorithm: limit.GCRA, Quota: 10_000, Period: time.Minute, Burst: 5_000}, 80},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 100_000, Period: time.Minute, Burst: 50_000}, 800},
		{limit.PerSecond(100), 40},
		{limit.PerMinute(10_000), 40},
		{limit.Spec{Algorithm: limit.FixedWindow, Quota: 10_000, Period: time.Minute}, 40},
		{limit.Spec{Algorithm: limit.SubWindows, Quota: 10_000, Period: time.Minute, SubWindows: 6}, 40},
	} {
		if racetest.Enabled && test.spec.Quota > 100 {
			continue // many requests, which come one by one
		}
		for _, back := range []time.Duration{61_700 * time.Millisecond, time.Hour + 1300*time.Millisecond} {
			l := limit.Must(test.spec)
			t.Run(fmt.Sprintf("%v %d per %v, %v back", l.Algorithm, l.Quota, l.Period, back), func(t *testing.T) {
				o := runSteppedBack(t, test.spec, test.rate, back)
				t.Logf("%d denied in the first second, %d later, excess %d", o.first.Load(), o.later.Load(), o.excess)
				if o.later.Load() > 0 || o.excess > 0 {
					t.Errorf("%d denied later than a second after the step, %d let pass beyond the limit", o.later.Load(), o.excess)
				}
			})
		}
	}
}
