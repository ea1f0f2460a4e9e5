package breaker

import "sync/atomic"

// slots is the number of parts in which a window moves on.
const slots = 10

// window counts calls in slots of width nanoseconds. The newest slot is still
// being filled, so it looks back over nine to ten tenths of its length.
//
// Each slot is one word, so that it is moved on and counted in one step: the
// number of the slot in time in the upper bits, then the calls, then the bad
// ones among them.
type window struct {
	width int64
	slots [slots]atomic.Uint64
}

const (
	countBits = 20
	countMask = 1<<countBits - 1
	oneCall   = 1 << countBits
	tickBits  = 64 - 2*countBits
	tickMask  = 1<<tickBits - 1
	// fullSlot is where a slot stops to count, a little before its bits end: more
	// than ten million calls a second by default, and as good a sample as any.
	fullSlot = countMask - 1<<10
)

// tickOf returns the number in time of the slot that at is in, and its index.
func (w *window) tickOf(at int64) (tick uint64, index int) {
	n := at / w.width
	if at < 0 {
		n = (at+1)/w.width - 1 // rounded down, as for all others
	}
	index = int(n % slots)
	if index < 0 {
		index += slots
	}
	return uint64(n) & tickMask, index
}

// behind returns by how many slots a lies before b. Numbers of slots wrap, so
// this is right for distances of up to half their range: nine days by default.
func behind(a, b uint64) int64 {
	const unused = 64 - tickBits
	return int64((b-a)<<unused) >> unused
}

// add counts a call.
func (w *window) add(at int64, bad bool) {
	tick, index := w.tickOf(at)
	delta := uint64(oneCall)
	if bad {
		delta++
	}
	slot := &w.slots[index]
	for {
		word := slot.Load()
		calls := word >> countBits & countMask
		switch age := behind(word>>(2*countBits), tick); {
		case age == 0:
			if calls < fullSlot {
				slot.Add(delta)
			}
			return
		case age == -slots && calls > 0:
			return // ended just after others had moved the window on
		}
		if slot.CompareAndSwap(word, tick<<(2*countBits)|delta) {
			return
		}
	}
}

// sum returns the calls of the window that ends at the instant at.
func (w *window) sum(at int64) (calls, bad int64) {
	tick, _ := w.tickOf(at)
	for i := range w.slots {
		word := w.slots[i].Load()
		if age := behind(word>>(2*countBits), tick); age >= 0 && age < slots {
			calls += int64(word >> countBits & countMask)
			bad += int64(word & countMask)
		}
	}
	return calls, bad
}

// clear forgets all calls.
func (w *window) clear() {
	for i := range w.slots {
		w.slots[i].Store(0)
	}
}
