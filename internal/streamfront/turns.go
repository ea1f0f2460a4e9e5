package streamfront

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/headgate/headgate/internal/rls"
)

// Bounds of what is asked of the store at once, so that it can answer within its budget: what
// it cannot answer, the failure mode of a rule does.
const (
	// maxDeciding bounds the checks of all calls that are being decided.
	maxDeciding = 512
	// turnChecks bounds the checks of a page that are decided together.
	turnChecks = 128
)

// line has the checks of a call wait for their turn. Of a call only one page waits among those of
// its address, and of an address only one among all: a turn goes round.
type line struct {
	call, address, all *semaphore.Weighted
}

// newLine returns a line of one after another.
func newLine() *semaphore.Weighted { return semaphore.NewWeighted(1) }

// wait returns when n checks may be decided, or when ctx has ended. takeTurn gives the turn
// back.
func (l line) wait(ctx context.Context, n int64) error {
	for _, before := range []*semaphore.Weighted{l.call, l.address} {
		if err := before.Acquire(ctx, 1); err != nil {
			return err
		}
		defer before.Release(1)
	}
	return l.all.Acquire(ctx, n)
}

// decideInTurns decides checks, some of them at a time, and returns early when ctx ends.
func (l line) decideInTurns(ctx context.Context, asked []*rls.Asked, decide func([]*rls.Asked)) {
	for len(asked) > 0 {
		n := min(len(asked), turnChecks)
		err := l.waitUntil(ctx, int64(n), earliest(asked))
		switch {
		case err == nil:
			l.takeTurn(asked[:n], decide)
			asked = asked[n:]
		case ctx.Err() != nil:
			return
		default:
			// Checks that are too late ask nothing of the store.
			var late []*rls.Asked
			late, asked = split(asked, now())
			if len(late) > 0 {
				decide(late)
			}
		}
	}
}

// takeTurn decides those whose turn it is, and gives the turn back.
func (l line) takeTurn(asked []*rls.Asked, decide func([]*rls.Asked)) {
	defer l.all.Release(int64(len(asked)))
	decide(asked)
}

// waitUntil is wait, which ends at deadline, too; zero is none.
func (l line) waitUntil(ctx context.Context, n int64, deadline time.Time) error {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	return l.wait(ctx, n)
}

// earliest returns the earliest deadline; zero for none.
func earliest(asked []*rls.Asked) (t time.Time) {
	for _, a := range asked {
		if !a.Deadline.IsZero() && (t.IsZero() || a.Deadline.Before(t)) {
			t = a.Deadline
		}
	}
	return t
}

// split takes those apart whose deadline has come.
func split(asked []*rls.Asked, now time.Time) (late, others []*rls.Asked) {
	for _, a := range asked {
		if !a.Deadline.IsZero() && !a.Deadline.After(now) {
			late = append(late, a)
		} else {
			others = append(others, a)
		}
	}
	return late, others
}
