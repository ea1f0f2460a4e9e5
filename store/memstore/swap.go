package memstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/heap"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// keptShare is which part of MaxBytes values may take beside the buckets.
	keptShare = 4
	// keptOverhead is about what a value takes beyond its own bytes.
	keptOverhead = 192
)

var errKept = errors.New("no room for another value")

// kept is the values of a store, by the hashes of their keys. What is over is dropped
// before anything is added.
type kept struct {
	mu     sync.Mutex
	values map[[sha256.Size]byte]*keptValue
	order  heap.Queue[*keptValue] // those that end first in front
	bytes  int64
	most   int64
}

type keptValue struct {
	key  [sha256.Size]byte
	text []byte
	ends limit.Micros
	at   int // in the order
}

func newKept(most int64) *kept {
	k := &kept{most: most}
	k.order.Before = func(a, b *keptValue) bool { return a.ends < b.ends }
	k.order.Moved = func(v *keptValue, place int) { v.at = place }
	return k
}

var _ store.Swapper = (*Store)(nil)

// Swap implements store.Swapper for this process. Values take up to a quarter of
// Options.MaxBytes, beyond that.
func (s *Store) Swap(_ context.Context, swaps []store.Swap, answers []store.Swapped) {
	now := s.micros()
	k := s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range swaps {
		if fault := swaps[i].Fault(); fault != nil {
			fault.Store = "memory"
			answers[i] = store.Swapped{Err: fault}
			continue
		}
		answers[i] = k.swap(&swaps[i], now)
	}
}

// swap makes one swap at now.
func (k *kept) swap(s *store.Swap, now limit.Micros) store.Swapped {
	k.drop(now)
	key := sha256.Sum256(s.Key)
	var stands []byte
	v := k.values[key]
	if v != nil && v.ends <= now { // behind another one: the clock has stepped
		k.remove(v)
		v = nil
	}
	if v != nil {
		stands = v.text
	}
	if !bytes.Equal(stands, s.Old) {
		if v == nil {
			return store.Swapped{}
		}
		return store.Swapped{Found: bytes.Clone(stands), Left: time.Duration(v.ends-now) * time.Microsecond}
	}
	if len(s.New) > 0 && k.bytes+size(s.New)-size(stands) > k.most {
		return store.Swapped{Err: &store.Error{Op: "swap", Store: "memory", Reason: store.Full, Err: errKept, Hint: "give the memory store more bytes, or keep values for less long"}}
	}
	if v != nil {
		k.remove(v)
	}
	if len(s.New) > 0 {
		k.add(&keptValue{key: key, text: bytes.Clone(s.New), ends: now + limit.Micros(s.TTL/time.Microsecond)})
	}
	return store.Swapped{Done: true}
}

// size is what a value takes; nothing takes nothing.
func size(text []byte) int64 {
	if len(text) == 0 {
		return 0
	}
	return int64(len(text)) + keptOverhead
}

// drop removes the values whose time is over, those that end first in front.
func (k *kept) drop(now limit.Micros) {
	for k.order.Len() > 0 && k.order.First().ends <= now {
		k.remove(k.order.First())
	}
}

func (k *kept) add(v *keptValue) {
	if k.values == nil {
		k.values = map[[sha256.Size]byte]*keptValue{}
	}
	k.values[v.key] = v
	k.order.Push(v)
	k.bytes += size(v.text)
}

func (k *kept) remove(v *keptValue) {
	delete(k.values, v.key)
	k.order.Remove(v.at)
	k.bytes -= size(v.text)
}
