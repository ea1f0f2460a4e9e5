package sqltenant

import (
	"context"
	"time"
)

// patience ends a long read that comes to a standstill. A bound on the whole of it would
// end one that a slow machine is busy with, and every later try of it as well.
type patience struct {
	most   time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// patiently returns a context that ends once most has passed in which nothing came. The
// caller ends the patience.
func patiently(ctx context.Context, most time.Duration) (context.Context, *patience) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{most: most, cancel: cancel}
	p.timer = time.AfterFunc(most, func() { cancel(context.DeadlineExceeded) })
	return ctx, p
}

// came notes that something did.
func (p *patience) came() { p.timer.Reset(p.most) }

func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}

// why returns err, the outcome of a read with ctx, or that the time was over if that
// ended it.
func (p *patience) why(ctx context.Context, err error) error {
	if context.Cause(ctx) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}
