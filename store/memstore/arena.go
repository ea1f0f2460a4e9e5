package memstore

import "github.com/headgate/headgate/limit"

// An arena holds the blocks of the states that have a Wide part. Blocks are
// taken from one array, one after another, and freed ones are left behind until
// the live ones are copied to a fresh array: there are no holes that fit nobody
// and no pointers, at the price of one copy now and then.
type arena struct {
	words []int64
	end   int // words[end:] are free
	dead  int // words of freed blocks below end
}

// The words of a block: whose it is (so that copying it can tell its slot),
// its capacity and length, then the state.
const (
	blockHash  = 0 // ident.inv
	blockID    = 1 // ident.id; all ones in a freed block
	blockCap   = 2 // words after the header
	blockLen   = 3
	blockState = 4 // A, B, C
	blockWide  = 7

	freedBlock = -1
)

func (a *arena) bytes() int64 { return int64(cap(a.words)) * 8 }

func (a *arena) capAt(at int) int { return int(a.words[at+blockCap]) }

// wide returns the Wide part of the block at at, with the room behind it.
func (a *arena) wide(at int) []int64 {
	from := at + blockWide
	return a.words[from : from+int(a.words[at+blockLen]) : from+a.capAt(at)]
}

// load reads the block at at. The Wide of the state is the block's memory.
func (a *arena) load(at int, kind uint8) limit.State {
	w := a.words[at:]
	return limit.State{
		Kind: kind,
		A:    w[blockState], B: w[blockState+1], C: w[blockState+2],
		Wide: a.wide(at),
	}
}

// store writes s to the block at at, whose capacity suffices. The Wide of s may
// be the block's own memory.
func (a *arena) store(at int, s limit.State) {
	w := a.words[at:]
	w[blockLen] = int64(len(s.Wide))
	w[blockState], w[blockState+1], w[blockState+2] = s.A, s.B, s.C
	if len(s.Wide) > 0 && &s.Wide[0] != &w[blockWide] {
		copy(w[blockWide:], s.Wide)
	}
}

// fits reports whether a block with so many wide words can be taken without
// copying the arena.
func (a *arena) fits(wide int) bool { return a.end+blockWide+wide <= len(a.words) }

// take returns a new, empty block for k. It must fit.
func (a *arena) take(k ident, wide int) int {
	at := a.end
	a.end += blockWide + wide
	w := a.words[at:]
	w[blockHash], w[blockID] = int64(k.inv), int64(k.id&idMask)
	w[blockCap], w[blockLen] = int64(wide), 0
	return at
}

func (a *arena) free(at int) {
	a.words[at+blockID] = freedBlock
	size := blockWide + a.capAt(at)
	if at+size == a.end {
		a.end = at
		return
	}
	a.dead += size
}

// live is the number of words in blocks that are not freed.
func (a *arena) live() int { return a.end - a.dead }

// copied returns an arena of length words with the live blocks of a, and calls
// moved for each with its owner and where it is now.
func (a *arena) copied(length int, moved func(k ident, at int)) arena {
	next := arena{words: make([]int64, length)}
	for at := 0; at < a.end; {
		size := blockWide + a.capAt(at)
		if a.words[at+blockID] != freedBlock {
			copy(next.words[next.end:], a.words[at:at+size])
			moved(ident{uint64(a.words[at+blockHash]), uint64(a.words[at+blockID])}, next.end)
			next.end += size
		}
		at += size
	}
	return next
}
