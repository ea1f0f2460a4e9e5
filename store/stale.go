package store

import (
	"context"
	"time"
)

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
