package headgate_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// stalling is a store that for a while decides hits too late to answer, and nothing
// else.
type stalling struct {
	store.Store
	stalls  atomic.Bool
	refunds atomic.Int64 // that were asked for
}

func (s *stalling) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		if takes[i].Op == store.Refund {
			s.refunds.Add(1)
		}
		if !s.stalls.Load() || takes[i].Op == store.Hit {
			s.Store.Take(ctx, takes[i:i+1], results[i:i+1])
		}
		if s.stalls.Load() {
			results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Timeout}}
		}
	}
}

// A store that stalls takes slots for requests which are denied, and cannot be told
// so at once. It is told when it has recovered.
func TestStalledStoreKeepsNoSlotsOfTheDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stalling{Store: memory(t)}
		b := newBench(t, `
domain: d
descriptors:
- {key: user, failure_mode: closed, concurrency: {limit: 5, timeout: 1m}}
`, headgate.Options{Store: s})
		s.stalls.Store(true)
		for hold := limit.Hold(1); hold <= 5; hold++ {
			if b.take(hold, "user:u") {
				t.Fatal("passes though it fails closed")
			}
		}
		s.stalls.Store(false)
		if got := b.free("user:u"); got != 0 {
			t.Fatalf("%d slots are free: the test is about nothing", got)
		}
		if !b.take(3, "user:u") { // this one is back, and at work
			t.Fatal("a request whose slot there is was denied")
		}
		time.Sleep(time.Second)
		b.free("user:other") // any call will do
		if got := b.free("user:u"); got != 4 {
			t.Errorf("%d slots are free, want 4: all but that of the request that came back", got)
		}
		refunds := s.refunds.Load()
		time.Sleep(time.Second)
		b.free("user:u")
		if got := s.refunds.Load(); got != refunds {
			t.Errorf("%d releases after all was released", got-refunds)
		}

		// While it stays away it is asked now and then, until the slots have ended.
		s.stalls.Store(true)
		b.take(6, "user:u")
		refunds = s.refunds.Load()
		for range 1000 {
			time.Sleep(70 * time.Millisecond)
			b.free("user:u")
		}
		if got := s.refunds.Load() - refunds; got < 100 || got > 300 {
			t.Errorf("%d releases in 70 s, want one in 210 ms for a minute", got)
		}
	})
}
