package store

import (
	"context"
	"time"
)

// waitsKey is the key in a context of what OnWait was given.
type waitsKey struct{}

// OnWait returns ctx with a function that is called when a decision in it begins to wait,
// for a server or for another goroutine: see Waits. A decision that never waits never calls
// it; one that waits several times calls it each time, from any goroutine. So it must be
// safe to call again. It may itself wait, the first time and after a rest (see OnRest), for as
// long as ctx lasts: the time that a store has for a decision begins after it.
//
// It is for who decides in a goroutine that has something else to do, such as to read the
// next requests of a connection, and passes that on only when it has to.
func OnWait(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, waitsKey{}, f)
}

// Waits calls what OnWait has put into ctx. A store, and a layer over one, calls it just
// before it waits for anything but a lock that is held for moments.
func Waits(ctx context.Context) {
	if f, ok := ctx.Value(waitsKey{}).(func()); ok {
		f()
	}
}

// restsKey is the key in a context of what OnRest was given.
type restsKey struct{}

// OnRest returns ctx with a function that is called when a decision in it asks nothing for a
// while, because another decision has to end first: see Rests. Before it asks again it calls
// what OnWait was given. It may be called several times, from any goroutine.
func OnRest(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, restsKey{}, f)
}

// Rests calls what OnRest has put into ctx.
func Rests(ctx context.Context) {
	if f, ok := ctx.Value(restsKey{}).(func()); ok {
		f()
	}
}

// staleKey is the key in a context of what OnStale was given.
type staleKey struct{}

// OnStale returns ctx with a function that is called when a peek in it is answered by what
// may lag behind the store, such as a replica: see TellStale. It may be called several times,
// from any goroutine, before Take returns.
//
// It is for callers of a store whose peeks may be stale. The store of a limiter is not one of
// those, and limiters do not look.
func OnStale(ctx context.Context, f func(heard time.Duration)) context.Context {
	return context.WithValue(ctx, staleKey{}, f)
}

// TellStale calls what OnStale has put into ctx. What answered a peek has last heard from the
// store itself at most heard ago.
func TellStale(ctx context.Context, heard time.Duration) {
	if f, ok := ctx.Value(staleKey{}).(func(time.Duration)); ok {
		f(heard)
	}
}

// AwaitIdle waits until nothing is under way any more. idle returns nil when that is so, and
// otherwise a channel that is closed when it is time to ask idle again. When ctx ends first,
// AwaitIdle returns its cause.
func AwaitIdle(ctx context.Context, idle func() <-chan struct{}) error {
	for busy := idle(); busy != nil; busy = idle() {
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
