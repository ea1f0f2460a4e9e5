package memstore

import "github.com/headgate/headgate/limit"

// Most states need fewer bits than A, B and C have. Those of the two algorithms that
// people use most are packed, without loss, where they fit:
//
//	slim    the TAT of a bucket: A with its sign in 54 bits, B in 10
//	narrow  a sliding window: A in ms in 44 bits, Per in 16; B and C in 32 bits each
//
// A state that does not fit has a slot of the class above. Which states these are is
// known by their limit, but for counts of 2^32 and more.
const (
	// maxPart is the largest B of a TAT that packs.
	maxPart  = 1<<partBits - 1
	partBits = 10

	// windowUnit is the unit of the start of a sliding window that packs, in µs.
	windowUnit = 1000
	startBits  = 44
	countBits  = 32

	kindSlidingWindow = 1 + uint8(limit.SlidingWindow)
	kindFixedWindow   = 1 + uint8(limit.FixedWindow)
)

// packsTAT reports whether the states of l pack; l is a bucket or a fixed window. What a
// limit of buckets writes has B below the denominator of its interval.
func packsTAT(l *limit.Limit) bool {
	_, den := l.EmissionInterval()
	return l.Algorithm != limit.FixedWindow && den <= maxPart+1
}

// tatPacks reports whether s packs, whose kind is that of a bucket or a fixed window.
func tatPacks(s *limit.State) bool {
	return s.Kind != kindFixedWindow && s.Per == 0 && uint64(s.B) <= maxPart && s.A<<partBits>>partBits == s.A
}

func packTAT(s *limit.State) uint64 { return uint64(s.A)<<partBits | uint64(s.B) }

func unpackTAT(s *limit.State, word uint64) {
	s.A, s.B = int64(word)>>partBits, int64(word&maxPart)
}

// packsWindows reports whether the states of l pack; l is a sliding window or a ban.
func packsWindows(l *limit.Limit) bool {
	return l.Algorithm == limit.SlidingWindow && l.Per().WholeMillis()
}

// windowsPack reports whether s packs, whose kind is that of a sliding window or a ban.
func windowsPack(s *limit.State) bool {
	return s.Kind == kindSlidingWindow && s.Per.WholeMillis() && uint64(s.B|s.C)>>countBits == 0 &&
		uint64(s.A) < windowUnit<<startBits && s.A%windowUnit == 0
}

func packWindows(s *limit.State) (start, counts uint64) {
	return uint64(s.A)/windowUnit | uint64(s.Per)<<startBits, uint64(s.B)<<countBits | uint64(s.C)
}

func unpackWindows(s *limit.State, start, counts uint64) {
	s.A = int64(start&(1<<startBits-1)) * windowUnit
	s.Per = limit.Per(start >> startBits)
	s.B, s.C = int64(counts>>countBits), int64(counts&(1<<countBits-1))
}
