package inprocess

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// keyPrefix makes keys as long as real ones are.
const keyPrefix = "tenant=acme;user="

// keyWriter draws keys into one buffer, so that the time measured is not spent
// on making or fetching key strings. It is for one goroutine.
type keyWriter struct {
	buf   [len(keyPrefix) + 8]byte
	state uint64
}

func newKeyWriter(seed uint64) *keyWriter {
	w := &keyWriter{state: seed}
	copy(w.buf[:], keyPrefix)
	return w
}

// random returns one of the keys 0..n-1, each as likely as the others. The
// slice is valid until the next call.
func (w *keyWriter) random(n uint64) []byte { return w.key(w.draw(n)) }

// draw returns a number below n.
func (w *keyWriter) draw(n uint64) uint64 {
	// A Weyl sequence put through the finalizer of MurmurHash3 (fmix64): two
	// multiplications, where math/rand/v2 would take as long as a decision.
	w.state += 0x9e3779b97f4a7c15
	x := w.state
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	i, _ := bits.Mul64(x, n)
	return i
}

// key returns key number i. The slice is valid until the next call.
func (w *keyWriter) key(i uint64) []byte {
	binary.LittleEndian.PutUint64(w.buf[len(keyPrefix):], i)
	return w.buf[:]
}

// view is key as a string without a copy, for libraries that take a string.
// They must not keep it: the tables are filled with strings of their own first.
func view(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }
