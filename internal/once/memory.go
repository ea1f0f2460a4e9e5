// Package once has checks that carry an id decided once. Who comes first claims the id in
// the store, decides, and puts the answer in the place of the claim. Who comes with the id
// meanwhile waits for the answer, and who comes later reads it. What a check is, and how it
// is decided, is up to a Decider.
package once

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
)

// Patience is how long a check waits for the answer to the one that it repeats, unless
// somebody says else. That takes a few budgets of the store where its node lives.
const Patience = 250 * time.Millisecond

// Memory is where answers are remembered, and counts what came of checks with an id. It is
// safe for concurrent use.
type Memory struct {
	// Store remembers; nil: nobody does, and there is nothing to call.
	Store store.Swapper
	// Patience is how long a check waits for the answer to the one that it repeats.
	Patience time.Duration
	// Waiting has a place for each that waits. Where there is none, nobody does.
	Waiting chan struct{}
	// Panicked makes an error of a panic of the store.
	Panicked func(cause any) error

	first, repeated, abandoned, conflicts, forgotten, undecided atomic.Uint64
}

// Counts returns what came of checks with an id so far.
func (m *Memory) Counts() repeat.Counts {
	return repeat.Counts{
		First: m.first.Load(), Repeated: m.repeated.Load(), Abandoned: m.abandoned.Load(),
		Conflicts: m.conflicts.Load(), Forgotten: m.forgotten.Load(), Undecided: m.undecided.Load(),
	}
}

// decided counts a check that was decided: kept says that the store has noted what is to be
// remembered of it.
func (m *Memory) decided(kept bool) {
	if kept {
		m.first.Add(1)
	} else {
		m.forgotten.Add(1)
	}
}

// swap asks the store for swaps, and turns a panic of it into errors.
func (m *Memory) swap(ctx context.Context, swaps ...store.Swap) (answers []store.Swapped) {
	if len(swaps) == 0 {
		return nil
	}
	answers = make([]store.Swapped, len(swaps))
	defer func() {
		if cause := recover(); cause != nil {
			err := m.Panicked(cause)
			for i := range answers {
				answers[i] = store.Swapped{Err: err}
			}
		}
	}()
	m.Store.Swap(ctx, swaps, answers)
	return answers
}
