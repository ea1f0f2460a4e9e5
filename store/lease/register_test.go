package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/lease"
)

// TestUsedUpLeasesAreForgotten: the store remembers no more leases than a node can
// use, whatever the length of the window; also when the news of their end gets
// lost.
func TestUsedUpLeasesAreForgotten(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1 << 30, Period: 24 * time.Hour})
		requests := uint64(0)
		for i := range 200 {
			many := hit("k", l, leasedMode)
			many.Hits = int64(1 + i*i)
			r.warm(20, many)
			if out := r.shared.Stats().Leases; out > 3 {
				t.Fatalf("the store remembers %d leases", out)
			}
			if i == 100 {
				r.shared.fail.Store(true)
				many.Hits = r.node.Stats().Held
				r.take(many) // and ask anew
				synctest.Wait()
				r.shared.fail.Store(false)
				time.Sleep(2 * time.Second)
			}
			requests = r.node.Stats().LeaseRequests
		}
		if requests < 20 {
			t.Errorf("%d leases asked for, want some", requests)
		}
	})
}

// TestStoreHasNoRoomForLeases: then it decides hit by hit, and none is denied that
// could pass.
func TestStoreHasNoRoomForLeases(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerHour(10_000))
		for i := range store.MaxLeases {
			request := []store.LeaseRequest{{Key: []byte("k"), Limit: l, ID: store.LeaseID{1, byte(i)}, Want: 2, TTL: time.Hour}}
			r.shared.Store.Lease(t.Context(), request, make([]store.Grant, 1))
		}
		if got := r.warm(2000, hit("k", l, leasedMode)); got != 2000 {
			t.Errorf("%d of 2000 pass with 9488 left", got)
		}
	})
}

// TestLostEndsOfLeasesAreSentAgain: with each request the store hears of the lease that is
// used up. Where requests fail, the next one says so; else the store would remember one
// more lease after each failure.
func TestLostEndsOfLeasesAreSentAgain(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1 << 30, Period: 24 * time.Hour})
		r.warm(200, hit("k", l, leasedMode))
		for i := range 10 {
			r.shared.fail.Store(true)
			before := r.shared.leases.Load()
			for held := int64(1); held > 0; held = r.node.Stats().Held {
				many := hit("k", l, leasedMode)
				many.Hits = max(1, r.node.Stats().Held)
				r.take(many)
				synctest.Wait()
			}
			r.take(hit("k", l, leasedMode))
			synctest.Wait()
			if r.shared.leases.Load() == before {
				t.Fatalf("round %d: no request for a lease failed", i)
			}
			r.shared.fail.Store(false)
			time.Sleep(2 * time.Second)
			r.warm(200, hit("k", l, leasedMode))
			if out := r.shared.Stats().Leases; out > 2 {
				t.Fatalf("round %d: the store remembers %d leases", i, out)
			}
		}
	})
}
