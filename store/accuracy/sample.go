package accuracy

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// sample is a share of all keys: those whose hash is not above it. The hash has no seed,
// so that all nodes, and all versions of Headgate, choose the same keys; whoever knows it
// can tell whether a key is sampled, and gains nothing by that.
type sample uint64

// sampleOf returns the sample of a share, above 0 and up to 1.
func sampleOf(share float64) sample {
	if share >= 1 {
		return math.MaxUint64
	}
	return sample(share * (1 << 64))
}

// has reports whether key is in the sample.
func (s sample) has(key []byte) bool { return keyHash(key) <= uint64(s) }

// Odd numbers without a pattern: digits of the golden ratio and of pi.
const (
	hashStart = 0x9e3779b97f4a7c15
	hashLeft  = 0xc90fdaa22168c235
	hashRight = 0xc4c6628b80dc1cd1
)

// keyHash spreads keys evenly over 64 bits: sixteen bytes at a time are multiplied and
// folded.
func keyHash(key []byte) uint64 {
	h := uint64(len(key)) * hashStart
	for ; len(key) > 16; key = key[16:] {
		h = fold(binary.LittleEndian.Uint64(key)^hashLeft, binary.LittleEndian.Uint64(key[8:])^h)
	}
	var a, b uint64
	switch n := len(key); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(key)), uint64(binary.LittleEndian.Uint32(key[n-4:]))
	case n > 0:
		a, b = uint64(key[0])<<8|uint64(key[n/2]), uint64(key[n-1])
	}
	return fold(fold(a^hashLeft, b^h)^hashRight, h^hashLeft)
}

// fold multiplies two numbers and joins the halves of the product.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
