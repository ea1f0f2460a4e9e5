package lease_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/lease"
)

// slowClock loses 500 µs in a second, the most by which a clock is slewed.
func slowClock() func() time.Time {
	start := sync.OnceValue(time.Now) // inside the bubble
	return func() time.Time {
		passed := time.Since(start())
		return start().Add(passed - passed/2000)
	}
}

// TestSlowClockHoldsNoLeaseThatHasEnded: the store gives the hits of a lease that has
// ended to others, so a node whose clock is slow lets none of them pass after that.
func TestSlowClockHoldsNoLeaseThatHasEnded(t *testing.T) {
	const ttl = time.Second
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 100_000, Burst: 100_000, Period: time.Hour})
	take := hit("k", l, &store.Mode{Consistency: store.Leased, LeaseTTL: ttl})
	for at, passes := range map[time.Duration]bool{ttl - time.Millisecond: true, ttl + 100*time.Microsecond: false} {
		inBubble(t, lease.Options{Now: slowClock(), Wall: time.Now}, func(r *rig) {
			var granted time.Time
			for range 100 {
				before, now := r.node.Stats().Granted, time.Now()
				r.take(take)
				synctest.Wait()
				if r.node.Stats().Granted > before {
					granted = now
				}
				time.Sleep(time.Millisecond)
			}
			r.shared.fail.Store(true)
			time.Sleep(time.Until(granted.Add(at)))
			if res := r.take(take)[0]; res.Allowed != passes {
				t.Errorf("%v after it was granted, of %v, the lease answers %+v", at, ttl, res)
			}
			synctest.Wait()
			r.shared.fail.Store(false)
		})
	}
}
