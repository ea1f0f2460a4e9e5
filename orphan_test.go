package headgate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// TestFreedSlotLetsTheNextCallReleaseMore: calls that fail release slots 200 ms apart; a
// store that has freed one is well, and the next call need not wait.
func TestFreedSlotLetsTheNextCallReleaseMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o orphans
		l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 100, Period: time.Minute})
		for i := range 2 * orphansPerCall {
			o.add(&store.Take{Key: fmt.Appendf(nil, "k%d", i), Limit: l, Op: store.Release, Hold: limit.Hold(i + 1)})
		}
		time.Sleep(orphansEvery)
		first := o.appendDue(nil)
		if len(first) != orphansPerCall {
			t.Fatalf("%d slots are released, want %d", len(first), orphansPerCall)
		}
		if again := o.appendDue(nil); len(again) != 0 {
			t.Errorf("%d slots at once after a call of which nobody knows whether it worked", len(again))
		}
		for i := range first {
			o.freed(&first[i])
		}
		if second := o.appendDue(nil); len(second) != orphansPerCall {
			t.Errorf("%d slots after the store has freed some, want the other %d", len(second), orphansPerCall)
		}
	})
}

// TestOrphansAreBounded: no more slots are remembered than that, and each until it has
// ended by itself, not less.
func TestOrphansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o orphans
		l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 100, Period: time.Minute})
		for i := range maxOrphans + 1 {
			o.add(&store.Take{Key: []byte("k"), Limit: l, Op: store.Release, Hold: limit.Hold(i + 1)})
		}
		if got := o.number.Load(); got != maxOrphans {
			t.Errorf("%d slots are remembered, want %d", got, maxOrphans)
		}
		time.Sleep(time.Minute - time.Millisecond)
		if got := len(o.appendDue(nil)); got != orphansPerCall {
			t.Errorf("%d slots are released just before their end, want %d", got, orphansPerCall)
		}
		time.Sleep(orphansEvery)
		if got := o.appendDue(nil); len(got) != 0 || o.number.Load() != 0 {
			t.Errorf("%d slots are released after their end, %d are remembered", len(got), o.number.Load())
		}
	})
}
