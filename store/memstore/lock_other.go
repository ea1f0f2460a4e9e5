//go:build !amd64 || race

package memstore

import "sync/atomic"

func (l *spinLock) unlock() { atomic.StoreUint32(&l.held, 0) }
