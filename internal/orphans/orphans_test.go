package orphans

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// TestFreedSlotLetsTheNextCallReleaseMore: calls that fail release slots 200 ms apart; a
// store that has freed one is well, and the next call need not wait.
func TestFreedSlotLetsTheNextCallReleaseMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Slots
		l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 100, Period: time.Minute})
		for i := range 2 * perCall {
			s.Add(&store.Take{Key: fmt.Appendf(nil, "k%d", i), Limit: l, Op: store.Release, Hold: limit.Hold(i + 1)})
		}
		_ = sleep.For(t.Context(), every)
		first := s.AppendDue(nil)
		if len(first) != perCall {
			t.Fatalf("%d slots are released, want %d", len(first), perCall)
		}
		if again := s.AppendDue(nil); len(again) != 0 {
			t.Errorf("%d slots at once after a call of which nobody knows whether it worked", len(again))
		}
		for i := range first {
			s.Freed(&first[i])
		}
		if second := s.AppendDue(nil); len(second) != perCall {
			t.Errorf("%d slots after the store has freed some, want the other %d", len(second), perCall)
		}
	})
}

// TestOrphansAreBounded: no more slots are remembered than that, and each until it has
// ended by itself, not less.
func TestOrphansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Slots
		l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 100, Period: time.Minute})
		for i := range maxSlots + 1 {
			s.Add(&store.Take{Key: []byte("k"), Limit: l, Op: store.Release, Hold: limit.Hold(i + 1)})
		}
		if got := s.number.Load(); got != maxSlots {
			t.Errorf("%d slots are remembered, want %d", got, maxSlots)
		}
		_ = sleep.For(t.Context(), time.Minute-time.Millisecond)
		if got := len(s.AppendDue(nil)); got != perCall {
			t.Errorf("%d slots are released just before their end, want %d", got, perCall)
		}
		_ = sleep.For(t.Context(), every)
		if got := s.AppendDue(nil); len(got) != 0 || s.number.Load() != 0 {
			t.Errorf("%d slots are released after their end, %d are remembered", len(got), s.number.Load())
		}
	})
}

// TestForget: who asks for a slot once more has it, and so it is not released; who has that
// name in another bucket is not asked for.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Slots
		l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 100, Period: time.Minute})
		for _, key := range []string{"a", "b", "c"} {
			s.Add(&store.Take{Key: []byte(key), Limit: l, Op: store.Release, Hold: 1})
		}
		s.Forget([]store.Take{{Key: []byte("a"), Limit: l, Hits: 1, Hold: 1}, {Key: []byte("b"), Limit: l, Hits: 1}, {Key: []byte("c"), Limit: l, Hits: 1, Hold: 2}})
		_ = sleep.For(t.Context(), every)
		var got []string
		for _, release := range s.AppendDue(nil) {
			got = append(got, fmt.Sprint(string(release.Key), release.Op == store.Release, release.Hold))
		}
		slices.Sort(got)
		if want := []string{fmt.Sprint("b", true, limit.Hold(1)), fmt.Sprint("c", true, limit.Hold(1))}; !slices.Equal(got, want) {
			t.Errorf("%q are released, want %q", got, want)
		}
		s.Forget([]store.Take{{Key: []byte("b"), Hold: 1}, {Key: []byte("c"), Hold: 1}})
		if s.Any() {
			t.Error("one is left")
		}
	})
}
