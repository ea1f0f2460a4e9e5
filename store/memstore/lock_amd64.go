//go:build !race

package memstore

// unlock is a plain store. On amd64 whoever sees it sees all stores that were made
// before it (Intel SDM, volume 3, "Memory Ordering"), and the compiler moves none of
// them over a call that it does not inline. The atomic store of unlock elsewhere is an
// exchange there, which costs as much as taking the lock.
//
//go:noinline
func (l *spinLock) unlock() { l.held = 0 }
