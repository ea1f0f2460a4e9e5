package forwardauth

import (
	"sync/atomic"
	"time"
)

// tellEvery is how often troubles are told of at most.
const tellEvery = time.Second

// troubles counts what an operator should put right.
type troubles struct {
	total, told atomic.Uint64
	toldAt      atomic.Int64 // nanoseconds; 0 is never
}

// add counts one at now. It returns how many there were since it last returned some,
// which it does at most every tellEvery; else 0.
func (t *troubles) add(now time.Time) uint64 {
	total := t.total.Add(1)
	at, last := now.UnixNano(), t.toldAt.Load()
	if last != 0 && at >= last && at-last < int64(tellEvery) || !t.toldAt.CompareAndSwap(last, at) {
		return 0
	}
	if told := t.told.Swap(total); told < total {
		return total - told
	}
	return 0
}
