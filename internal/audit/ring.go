package audit

import "sync/atomic"

// ring is a bounded queue of records from many to one. Neither side ever waits for the
// other: who finds it full is told so. Records come out in the order in which they
// got their places.
type ring struct {
	slots []slot
	_     [stripeBytes]byte
	// head is how many records got a place so far.
	head atomic.Uint64
	_    [stripeBytes]byte
	// tail is how many were taken out.
	tail uint64
}

// slot holds a record of the rounds of the ring. Its turn is the number of the record
// that may be put in, and that number plus one when it is in.
type slot struct {
	turn   atomic.Uint64
	record *record
}

// newRing returns a ring for n records, 2 or more.
func newRing(n int) *ring {
	r := &ring{slots: make([]slot, n)}
	for i := range r.slots {
		r.slots[i].turn.Store(uint64(i))
	}
	return r
}

// put gives rec the place numbered at; ok is false where the ring is full.
func (r *ring) put(rec *record) (at uint64, ok bool) {
	for {
		at = r.head.Load()
		s := &r.slots[at%uint64(len(r.slots))]
		switch turn := s.turn.Load(); {
		case turn == at:
			if r.head.CompareAndSwap(at, at+1) {
				s.record = rec
				s.turn.Store(at + 1)
				return at, true
			}
		case turn < at:
			return 0, false // the one before by a round is still in
		}
	}
}

// take takes the next record out, nil when there is none, or when it is not yet in its
// place.
func (r *ring) take() *record {
	s := &r.slots[r.tail%uint64(len(r.slots))]
	if s.turn.Load() != r.tail+1 {
		return nil
	}
	rec := s.record
	s.record = nil
	s.turn.Store(r.tail + uint64(len(r.slots)))
	r.tail++
	return rec
}
