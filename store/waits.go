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
// It is for who asks a store of which peeks may be stale. What decides asks none of that
// kind, and need not look.
func OnStale(ctx context.Context, f func(heard time.Duration)) context.Context {
	return context.WithValue(ctx, staleKey{}, f)
}

// TellStale calls what OnStale has put into ctx: a peek was answered by who has not heard of
// the store itself for so long at most.
func TellStale(ctx context.Context, heard time.Duration) {
	if f, ok := ctx.Value(staleKey{}).(func(time.Duration)); ok {
		f(heard)
	}
}
