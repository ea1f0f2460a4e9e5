// Package sleep waits for a time that a context can cut short, once or again and again.
package sleep

import (
	"context"
	"time"
)

// For waits for d, and returns nil then. When ctx ends before, it returns ctx's cause
// at once. A d of 0 or less does not wait.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AtOnce is Every, with the first round at once, even if ctx has ended.
func AtOnce(ctx context.Context, d time.Duration) func(yield func() bool) {
	return Nudge(nil).AtOnce(ctx, d)
}

// Every goes round a loop each d, first after d, until ctx ends. Rounds that fall due while
// one is under way become one.
func Every(ctx context.Context, d time.Duration) func(yield func() bool) {
	return Nudge(nil).Every(ctx, d)
}
