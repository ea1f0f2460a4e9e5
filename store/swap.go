package store

import (
	"context"
	"time"
)

// MaxSwapKey and MaxSwapValue bound a key and a value of a Swapper, in bytes.
const (
	MaxSwapKey   = 256
	MaxSwapValue = 2000
)

// Swap asks a Swapper to put New in the place of Old.
type Swap struct {
	// Key names the value: 1 to MaxSwapKey bytes. Stores hash it.
	Key []byte
	// Old is what has to stand there; empty for nothing.
	Old []byte
	// New is what stands there afterwards, at most MaxSwapValue bytes; empty for nothing.
	New []byte
	// TTL is for how long New stands, in whole microseconds, at least 1; without New it
	// is not looked at.
	TTL time.Duration
}

// Swapped answers a Swap.
type Swapped struct {
	// Done says that Old stood there and New stands there now.
	Done bool
	// Found is what stands there where that is not Old: nil for nothing. It is the
	// caller's to keep.
	Found []byte
	// Left is for how much longer Found stands: more than 0.
	Left time.Duration
	// Err says why the store did not answer. Then New may stand there all the same.
	Err error
}

// Swapper is a store that also keeps small values for a while, each of which changes only
// from what the caller says that it is: so of many who want to be the first, on whatever
// nodes, one is. No value touches a bucket.
//
// The rules that every Swapper keeps, and that package storetest checks:
//
//   - The comparison and the change are one step; nothing comes between.
//   - Swaps of a batch are made in order. A later one sees what an earlier one has done.
//   - A value stands for its TTL by the store's clock, and never longer. A store that has
//     no room for a value says so (Full); it does not drop another one, unless it drops
//     buckets as well.
//   - An error belongs to a swap, never to the batch.
//
// A value is lost as buckets are: with a server that forgets.
type Swapper interface {
	// Swap answers swaps[i] in answers[i]; the slices have the same length. It returns
	// when all are answered or ctx has ended. Errors are *Error.
	Swap(ctx context.Context, swaps []Swap, answers []Swapped)
}

// Fault returns what is wrong with s: an error of the caller; nil if nothing is.
func (s *Swap) Fault() *Error {
	switch {
	case len(s.Key) == 0 || len(s.Key) > MaxSwapKey:
		return &Error{Op: "swap", Reason: Misconfigured, Hint: "a key has 1 to 256 bytes"}
	case len(s.New) > MaxSwapValue:
		return &Error{Op: "swap", Reason: Misconfigured, Hint: "a value has at most 2000 bytes"}
	case len(s.New) > 0 && s.TTL < time.Microsecond:
		return &Error{Op: "swap", Reason: Misconfigured, Hint: "a value stands for at least a microsecond"}
	}
	return nil
}
