package stopwatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// TestWatch: of fast calls one in so many is timed, of slow ones each, and one that is said to
// be timed is.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		timed := func(always bool, takes time.Duration) bool {
			w.Start(always)
			_ = sleep.For(t.Context(), takes)
			took := w.Stop()
			if took != NotTimed && took != takes {
				t.Errorf("it took %v, want %v", took, takes)
			}
			return took != NotTimed
		}
		for i := range 3 * oneOf {
			if skips := w.Skips(); timed(false, fast-1) != (i%oneOf == 0) || skips != (i%oneOf != 0) {
				t.Errorf("fast call %d: skipped %v", i, skips)
			}
		}
		for i := range oneOf {
			if !timed(false, fast) {
				t.Errorf("slow call %d is not timed", i)
			}
		}
		timed(false, 0)
		if timed(false, 0) || !timed(true, 0) {
			t.Error("a call after a fast one is timed when it is said to be, and only then")
		}
	})
}
