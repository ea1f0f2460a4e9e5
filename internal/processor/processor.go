// Package processor tells which of the runtime's processors runs the caller, so that counters
// can lie apart: what one processor alone writes stays in its caches.
//
// It asks the runtime as sync.Pool does, but has no memory of its own to keep and to lose. The
// runtime promises to keep the two functions that are linked to here (go.dev/issue/67401).
package processor

import _ "unsafe" // for go:linkname

//go:linkname pin runtime.procPin
func pin() int

//go:linkname unpin runtime.procUnpin
func unpin()

// Number returns the number of the processor that runs the caller, from 0 to one less than
// runtime.GOMAXPROCS. It is a hint: the caller may run on another one before it returns, and
// then shares that number with whoever runs here, so what is found by it needs a lock, or to be
// atomic, in any case.
func Number() int {
	n := pin()
	unpin()
	return n
}
