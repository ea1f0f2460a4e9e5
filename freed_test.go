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
		var o leftovers
		l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 100, Period: time.Minute})
		for i := range 2 * leftoversPerCall {
			o.add(&store.Take{Key: fmt.Appendf(nil, "k%d", i), Limit: l, Op: store.Release, Hold: limit.Hold(i + 1)})
		}
		time.Sleep(leftoversEvery)
		first := o.appendDue(nil)
		if len(first) != leftoversPerCall {
			t.Fatalf("%d slots are released, want %d", len(first), leftoversPerCall)
		}
		if again := o.appendDue(nil); len(again) != 0 {
			t.Errorf("%d slots at once after a call of which nobody knows whether it worked", len(again))
		}
		for i := range first {
			o.freed(&first[i])
		}
		if second := o.appendDue(nil); len(second) != leftoversPerCall {
			t.Errorf("%d slots after the store has freed some, want the other %d", len(second), leftoversPerCall)
		}
	})
}
