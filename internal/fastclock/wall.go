package fastclock

import (
	"sync/atomic"
	"time"
)

// Wall tells the time of day by a Clock. A step of the system's clock is seen within wallLife.
// Make one with NewWall. It is for many goroutines.
type Wall struct {
	clock  *Clock
	anchor atomic.Pointer[wallAnchor]
}

// wallAnchor is an instant by both clocks.
type wallAnchor struct {
	elapsed time.Duration
	now     time.Time // without a monotonic reading
}

// wallLife is how long the time of day is reckoned from an instant at which it was read.
const wallLife = 50 * time.Millisecond

// NewWall returns a Wall.
func NewWall() *Wall { return &Wall{clock: New(time.Now())} }

// Now returns what time.Now does, but for its monotonic reading and for Error.
func (w *Wall) Now() time.Time {
	elapsed := w.clock.Elapsed()
	if a := w.anchor.Load(); a != nil {
		// What is before the anchor by more than Error is negative, and so of another one.
		if passed := elapsed - a.elapsed; passed >= -Error && passed < wallLife {
			return a.now.Add(passed)
		}
	}
	now := time.Now().Round(0)
	w.anchor.Store(&wallAnchor{elapsed, now})
	return now
}
