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
)

// TestLeaseOfBeforeTheClocksParted: a lease that was asked for before the machine was
// suspended, and whose answer comes after it, is not held: nobody knows how old it is.
//
//promise:region-suspended
func TestLeaseOfBeforeTheClocksParted(t *testing.T) {
	var ahead atomic.Int64
	o := lease.Options{Budget: time.Hour, Wall: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
	inBubble(t, o, func(r *rig) {
		t, node, shared := r.t, r.node, r.shared
		l := limit.Must(limit.PerHour(100_000))
		shared.answer = make(chan struct{})
		shared.hold.Store(true)
		// The first answers come from the store; then a lease is asked for.
		for i := 0; shared.held.Load() == 0; i++ {
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
		close(shared.answer)
		synctest.Wait()
		after := node.Stats()
		if after.Partings != before.Partings+1 {
			t.Fatalf("%d partings, want one more than %d", after.Partings, before.Partings)
		}
		if after.Held != 0 || after.Expired-before.Expired != shared.held.Load() {
			t.Errorf("%d hits are held and %d have expired, want none and the %d that were granted", after.Held, after.Expired-before.Expired, shared.held.Load())
		}
		shared.hold.Store(false)
		if r.warm(200, hit("k", l, leasedMode)) != 200 || node.Stats().Held == 0 {
			t.Errorf("does not lease again: %+v", node.Stats())
		}
	})
}

// A hit that waits for a lease ends while there is time to answer its caller.
func TestWaitForALeaseLeavesTimeForTheAnswer(t *testing.T) {
	inBubble(t, lease.Options{Budget: time.Hour}, func(r *rig) {
		l := limit.Must(limit.PerHour(100_000))
		r.warm(200, hit("k", l, leasedMode))
		r.shared.answer = make(chan struct{})
		r.shared.hold.Store(true)
		results := make([]store.Result, 1)
		for i := 0; results[0].Err == nil; i++ {
			if i == 100_000 {
				r.t.Fatal("no hit waits for a lease")
			}
			ctx, cancel := context.WithTimeout(r.t.Context(), 8*time.Millisecond)
			r.node.Take(ctx, []store.Take{hit("k", l, leasedMode)}, results)
			if results[0].Err != nil && (store.ReasonOf(results[0].Err) != store.Timeout || ctx.Err() != nil) {
				r.t.Errorf("%v, and the caller: %v", results[0].Err, ctx.Err())
			}
			cancel()
		}
		close(r.shared.answer)
		synctest.Wait()
	})
}
