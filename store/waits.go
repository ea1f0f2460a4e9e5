package store

import "context"

// waitsKey is the key in a context of what OnWait was given.
type waitsKey struct{}

// OnWait returns ctx with a function that is called when a decision in it begins to wait,
// for a server or for another goroutine: see Waits. A decision that never waits never calls
// it; one that waits several times calls it each time, from any goroutine. So it must be
// quick, and safe to call again.
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
