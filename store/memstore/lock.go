package memstore

import (
	"runtime"
	"sync/atomic"
)

// spinLock guards a shard. What it guards takes tens of nanoseconds, less than
// parking a goroutine and waking it: waiters look again a few times, then let
// other goroutines run, among them perhaps the holder.
type spinLock struct{ held uint32 }

// spins is how often a waiter looks before it yields: about as long as one
// decision takes.
const spins = 32

func (l *spinLock) lock() {
	if !l.tryLock() {
		l.wait()
	}
}

// tryLock takes the lock and reports true, unless somebody holds it.
func (l *spinLock) tryLock() bool { return atomic.CompareAndSwapUint32(&l.held, 0, 1) }

func (l *spinLock) wait() {
	for {
		for range spins {
			if atomic.LoadUint32(&l.held) == 0 && l.tryLock() {
				return
			}
		}
		runtime.Gosched()
	}
}
