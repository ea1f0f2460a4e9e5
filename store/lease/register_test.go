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
