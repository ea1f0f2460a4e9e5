package memstore

import (
	"math/bits"

	"github.com/headgate/headgate/limit"
)

// A table keeps its slots sorted by hash (linear probing in hash order, also
// known as Robin Hood with sorted runs). The home of a hash is its rank among
// all hashes scaled to the size, so that homes rise with the hash, and a slot
// stands at its home or in the unbroken run to the right of it. Hence
//   - a search for a key that is not there ends as early as one that succeeds,
//   - the size need not be a power of two and grows by a fifth, which keeps the
//     load high at every number of keys,
//   - growing is one pass from left to right over both arrays.
//
// The slots are words without pointers: the garbage collector never looks into
// them.
type table struct {
	words  []uint64
	stride int    // words of one slot
	size   uint64 // homes; the slots beyond it take the run of the last homes
	used   int    // slots in use, expired ones among them
	cursor int    // word index of the slot that is swept next
}

// The words of a slot. The hash is stored inverted: 0, as fresh memory has it,
// is then an empty slot, larger than every hash.
const (
	slotHash  = 0 // inverted hash, never 0 in use
	slotMeta  = 1 // see meta
	slotState = 2 // the state, or where the block of a wide one begins
)

// ident is the identity of a key: 64 bits of one keyed hash and 28 of another.
type ident struct {
	inv uint64 // inverted first hash, never 0
	id  uint64 // the top 28 bits of the second hash, in place
}

// The meta word: 28 bits of identity, 4 of kind, 32 of expiry.
const (
	idShift   = 36
	kindShift = 32
	kindMask  = 1<<4 - 1
	idMask    = 1<<64 - 1<<idShift
)

func metaOf(id uint64, kind uint8, expiry uint32) uint64 {
	return id&idMask | uint64(kind&kindMask)<<kindShift | uint64(expiry)
}

func metaKind(meta uint64) uint8    { return uint8(meta>>kindShift) & kindMask }
func metaExpiry(meta uint64) uint32 { return uint32(meta) }

// The words of A and B have half of the Per each, above 56 bits of the number, which
// no state is longer than.
const perBits = 56

func withPer(n int64, half limit.Per) uint64 { return uint64(n)&(1<<perBits-1) | uint64(half)<<perBits }

func withoutPer(word uint64) int64 { return int64(word<<(64-perBits)) >> (64 - perBits) }

func perOf(a, b uint64) limit.Per { return limit.Per(a>>perBits<<8 | b>>perBits) }

// expired reports whether a slot with that meta word may be reused at unit.
func expired(meta uint64, unit uint32) bool { return metaExpiry(meta) < unit }

// Sizes, in slots. Nine tenths is where runs begin to grow steeply; the spare
// slots at the end are more than the longest run that is seen at that load.
const (
	minSlots   = 64
	tailSlots  = 16
	tailPart   = 64 // and one more spare slot for so many homes
	freePart   = 10 // a tenth of the homes stays free
	growthPart = 5  // growing adds a fifth
)

// most is the number of slots that may be in use.
func (t *table) most() int { return int(t.size - t.size/freePart) }

// wordsFor is the length of the array of a table with size homes.
func (t *table) wordsFor(size uint64) int {
	return int(size+tailSlots+size/tailPart) * t.stride
}

func (t *table) bytes() int64 { return int64(len(t.words)) * 8 }

func (t *table) home(inv uint64) int {
	home, _ := bits.Mul64(^inv, t.size)
	return int(home) * t.stride
}

// look returns the first word of the home of k, or of anything: it is for the processor to
// fetch it.
func (t *table) look(k ident) uint64 {
	if t.used == 0 {
		return 0
	}
	return t.words[t.home(k.inv)]
}

// find returns the word index of the slot of k, or of the slot before which it
// would be inserted. The table is not empty: it has an array.
func (t *table) find(k ident) (int, bool) {
	p := t.home(k.inv)
	w := t.words
	for w[p] > k.inv {
		p += t.stride
	}
	for w[p] == k.inv {
		if (w[p+slotMeta]^k.id)>>idShift == 0 {
			return p, true
		}
		p += t.stride
	}
	return p, false
}

// gap returns the first slot from p on that is empty or expired. The last slot
// of the array is always empty, to end every search, and is not a gap.
func (t *table) gap(p int, unit uint32) (int, bool) {
	for t.words[p] != 0 && !expired(t.words[p+slotMeta], unit) {
		p += t.stride
	}
	return p, p < len(t.words)-t.stride
}

// open moves the slots [p, gap) up by one, over the gap, so that p is free.
// Its words are left as they were.
func (t *table) open(p, gap int) {
	if t.words[gap] == 0 {
		t.used++
	}
	copy(t.words[p+t.stride:gap+t.stride], t.words[p:gap])
}

// remove empties the slot at p and closes the run: slots to the right move down
// by one until one of them stands at its home.
func (t *table) remove(p int) {
	end := p + t.stride
	for t.words[end] != 0 && t.home(t.words[end]) < end {
		end += t.stride
	}
	copy(t.words[p:], t.words[p+t.stride:end])
	clear(t.words[end-t.stride : end])
	t.used--
}

// resized returns a table with size homes (or slightly longer, where its last
// run needs that) and the slots of t that are live at unit.
func (t *table) resized(size uint64, unit uint32, pages hugePages) table {
	next := table{stride: t.stride, size: size}
	// After the last slot, one to insert into and the one that stays empty.
	length := max(next.wordsFor(size), t.place(&next, unit)+2*t.stride)
	next.words = make([]uint64, length)
	pages.advise(next.words)
	t.place(&next, unit)
	return next
}

// place copies the live slots of t to where they belong in next, and returns
// the word index after the last. Without an array in next it only counts.
func (t *table) place(next *table, unit uint32) int {
	end := 0
	for p := 0; p < len(t.words); p += t.stride {
		if t.words[p] == 0 || expired(t.words[p+slotMeta], unit) {
			continue
		}
		to := max(end, next.home(t.words[p]))
		end = to + t.stride
		if next.words != nil {
			copy(next.words[to:end], t.words[p:p+t.stride])
			next.used++
		}
	}
	return end
}

// live is the number of slots in use that are not expired.
func (t *table) live(unit uint32) int {
	n := 0
	for p := 0; p < len(t.words); p += t.stride {
		if t.words[p] != 0 && !expired(t.words[p+slotMeta], unit) {
			n++
		}
	}
	return n
}
