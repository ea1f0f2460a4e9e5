// Package turnstest has what tests of ways in need to see that requests take turns: places of
// which none is free, and a store that waits.
package turnstest

import (
	"context"
	"runtime"
	"time"

	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// budget is one for which there are the fewest places, 64 for each processor: see turns.New.
const budget = time.Millisecond

// Full is places that others have.
type Full struct {
	*turns.Turns
	others []turns.Turn
}

// NewFull returns places of which none is free. It waits where there are fewer than there should be,
// until ctx ends.
func NewFull(ctx context.Context) *Full {
	f := &Full{turns.New(budget), make([]turns.Turn, 64*runtime.GOMAXPROCS(0))}
	for i := range f.others {
		f.others[i].Take(ctx, f.Turns)
	}
	return f
}

// Free gives one place back.
func (f *Full) Free() { f.others[0].End() }

// Fill takes the place that Free has given back. It waits until whoever has it meanwhile gives it
// back too, or ctx ends.
func (f *Full) Fill(ctx context.Context) {
	f.others[0] = turns.Turn{}
	f.others[0].Take(ctx, f.Turns)
}

// Store is a memory store that says that it waits, as a store elsewhere does.
type Store struct{ *memstore.Store }

// Take is memstore.Store's.
func (s Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	store.Waits(ctx)
	s.Store.Take(ctx, takes, results)
}

// Swap is memstore.Store's.
func (s Store) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	store.Waits(ctx)
	s.Store.Swap(ctx, swaps, answers)
}
