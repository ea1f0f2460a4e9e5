package store

import (
	"context"
	"time"
)

// Epoch is a stretch of time in which a store has forgotten nothing that it was told, as far
// as the store can tell. The zero value is none.
type Epoch struct {
	// ID was drawn at random when the epoch began; 0 is none.
	ID uint64
	// Age is how long ago that was by the store's clock, in whole microseconds.
	Age time.Duration
}

// Chronicler is a store that notices when it may have forgotten something.
//
// An epoch begins when the store is asked for it and there is none, or when the server is
// not the one on which it began: it was started anew, or another one has taken its place,
// and may know an older state; or when the server has dropped keys for want of memory. Whoever was told of one epoch before and after a question
// knows that nothing was forgotten between the two.
type Chronicler interface {
	// Epoch returns the epoch that the store is in; it begins one if it has to.
	Epoch(ctx context.Context) (Epoch, error)
	// Vouch makes the epoch that the store is in as old as it can be: whoever calls it
	// vouches that nothing was forgotten when it began.
	Vouch(ctx context.Context) error
}
