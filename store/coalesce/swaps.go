package coalesce

import "github.com/headgate/headgate/store"

// Swaps returns the cargo of swaps, whose Fly answers a batch as store.Swapper's Swap does.
// Each costs 1. None is like another, so all are asked in the order in which callers came.
func Swaps() Cargo[store.Swap, store.Swapped] { return swaps{} }

type swaps struct{}

// Weigh implements Cargo.
func (swaps) Weigh(swaps []store.Swap) Load {
	l := Load{Cost: len(swaps)}
	for i := range swaps {
		l.Bytes += len(swaps[i].Key) + len(swaps[i].Old) + len(swaps[i].New)
	}
	return l
}

// Copy implements Cargo.
func (swaps) Copy(copies []store.Swap, room []byte, swaps []store.Swap) ([]store.Swap, []byte) {
	for _, one := range swaps {
		room, one.Key = keep(room, one.Key)
		room, one.Old = keep(room, one.Old)
		room, one.New = keep(room, one.New)
		copies = append(copies, one)
	}
	return copies, room
}

// Refusal implements Cargo.
func (swaps) Refusal(err error) store.Swapped { return store.Swapped{Err: err} }
