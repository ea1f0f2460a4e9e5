package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/memstore"
)

// held lets a lease be granted, and its answer come when the test wants it.
type held struct {
	*memstore.Store
	hold    atomic.Bool
	granted atomic.Int64 // hits of the answers that are held back
	answer  chan struct{}
}

func (h *held) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	h.Store.Lease(ctx, requests, grants)
	if h.hold.Load() {
		for i := range grants {
			h.granted.Add(grants[i].Hits)
		}
		<-h.answer
	}
}

// TestLeaseOfBeforeTheClocksParted: a lease that was asked for before the machine was
// suspended, and whose answer comes after it, is not held: nobody knows how old it is.
func TestLeaseOfBeforeTheClocksParted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := memstore.New(memstore.Options{MaxBytes: 4 << 20, Now: func() limit.Micros { return limit.MicrosOf(time.Now()) }})
		if err != nil {
			t.Fatal(err)
		}
		inner := &held{Store: shared, answer: make(chan struct{})}
		var ahead atomic.Int64
		node := lease.New(lease.Options{Store: inner, Budget: time.Hour, Wall: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		defer node.Close()
		r := &rig{t: t, shared: &counted{Store: shared}, node: node}
		l := limit.Must(limit.PerHour(100_000))
		inner.hold.Store(true)
		// The first answers come from the store; then a lease is asked for.
		for i := 0; inner.granted.Load() == 0; i++ {
			if i == 100 {
				t.Fatal("no lease is asked for")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			node.Take(ctx, []store.Take{hit("k", l, leasedMode)}, make([]store.Result, 1))
			cancel()
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		before := node.Stats()
		ahead.Store(int64(time.Minute))
		close(inner.answer)
		synctest.Wait()
		after := node.Stats()
		if after.Partings != before.Partings+1 {
			t.Fatalf("%d partings, want one more than %d", after.Partings, before.Partings)
		}
		if after.Held != 0 || after.Expired-before.Expired != inner.granted.Load() {
			t.Errorf("%d hits are held and %d have expired, want none and the %d that were granted", after.Held, after.Expired-before.Expired, inner.granted.Load())
		}
		inner.hold.Store(false)
		if r.warm(200, hit("k", l, leasedMode)) != 200 || node.Stats().Held == 0 {
			t.Errorf("does not lease again: %+v", node.Stats())
		}
		conserved(t, node.Stats())
	})
}
