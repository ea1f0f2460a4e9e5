package sleep

import (
	"context"
	"time"
)

// Nudge has who waits for it go on, once however often it was given meanwhile. Nobody waits for
// a nil one.
type Nudge chan struct{}

// NewNudge returns a Nudge that was not given yet.
func NewNudge() Nudge { return make(Nudge, 1) }

// Give gives it. It never waits.
func (n Nudge) Give() {
	select {
	case n <- struct{}{}:
	default:
	}
}

// AtOnce is Every, with the first round at once, even if ctx has ended.
func (n Nudge) AtOnce(ctx context.Context, d time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		if yield() {
			n.Every(ctx, d)(yield)
		}
	}
}

// Every goes round a loop each d, first after d, and whenever n was given, until ctx ends.
// Rounds that fall due while one is under way become one.
func (n Nudge) Every(ctx context.Context, d time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-n:
			}
			if !yield() {
				return
			}
		}
	}
}
