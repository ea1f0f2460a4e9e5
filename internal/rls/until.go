package rls

import (
	"context"
	"sync"
	"time"
)

// until is the context of calls that are decided together: that of their connection, up to the
// earliest of their deadlines. There is a timer behind it only for who asks for Done, which a
// store that waits for nothing never does.
type until struct {
	context.Context           // of the connection
	deadline        time.Time // zero for none

	mu     sync.Mutex
	child  context.Context // nil until asked for
	cancel context.CancelFunc
}

var _ context.Context = (*until)(nil)

// contextOf returns the context of calls, whose end must be called.
func (r *round) contextOf(calls []*call) *until {
	u := &until{Context: r.ctx}
	for _, c := range calls {
		if d := c.deadline; u.deadline.IsZero() || !d.IsZero() && d.Before(u.deadline) {
			u.deadline = d
		}
	}
	return u
}

// end ends the use of u.
func (u *until) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cancel != nil {
		u.cancel()
	}
}

// Deadline implements context.Context.
func (u *until) Deadline() (time.Time, bool) { return u.deadline, !u.deadline.IsZero() }

// Done implements context.Context.
func (u *until) Done() <-chan struct{} {
	if u.deadline.IsZero() {
		return u.Context.Done()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.child == nil {
		u.child, u.cancel = context.WithDeadline(u.Context, u.deadline)
	}
	return u.child.Done()
}

// Err implements context.Context.
func (u *until) Err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.child != nil {
		return u.child.Err()
	}
	if err := u.Context.Err(); err != nil || u.deadline.IsZero() || time.Now().Before(u.deadline) {
		return err
	}
	return context.DeadlineExceeded
}

// Value implements context.Context. Children find what ends u by it.
func (u *until) Value(key any) any {
	u.mu.Lock()
	child := u.child
	u.mu.Unlock()
	if child == nil {
		return u.Context.Value(key)
	}
	return child.Value(key)
}
