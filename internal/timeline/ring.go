package timeline

import "math"

// outcomes is how many counts a slot has: the members of view.Requests, in their order.
const outcomes = 6

// slot is what is known of one second or one minute.
type slot struct {
	at       int64 // its number since 1970; 0: nothing is known
	known    uint32
	p50, p99 float32
	counts   [outcomes]uint32
}

// add takes more into a slot.
func (s *slot) add(more slot) {
	s.known = plus(s.known, more.known)
	s.p50, s.p99 = max(s.p50, more.p50), max(s.p99, more.p99)
	for i := range s.counts {
		s.counts[i] = plus(s.counts[i], more.counts[i])
	}
}

// plus does not wrap around.
func plus(a, b uint32) uint32 {
	if a > math.MaxUint32-b {
		return math.MaxUint32
	}
	return a + b
}

// ring has a slot for each of the last len(slots) steps.
type ring struct {
	step  int64 // in seconds
	slots []slot
}

func newRing(step int64, n int) ring { return ring{step: step, slots: make([]slot, n)} }

// add takes more into the slot of a second since 1970.
func (r *ring) add(second int64, more slot) {
	at := second / r.step
	s := &r.slots[at%int64(len(r.slots))]
	if s.at != at {
		*s = slot{at: at}
	}
	s.add(more)
}

// slot returns the slot of that number, or nil when nothing is known of it.
func (r *ring) slot(at int64) *slot {
	if s := &r.slots[at%int64(len(r.slots))]; s.at == at {
		return s
	}
	return nil
}

// forgetAfter forgets what lies after a second since 1970.
func (r *ring) forgetAfter(second int64) {
	for i := range r.slots {
		if r.slots[i].at > second/r.step {
			r.slots[i] = slot{}
		}
	}
}
