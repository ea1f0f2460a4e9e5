package drill

import (
	"slices"
	"sync/atomic"
	"time"
)

// latencyBounds are the upper ends of the buckets of Latency.
var latencyBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
}

// By says who decided a request: where several limits did, the one that is the last of these.
type By uint8

// The deciders.
const (
	ByStore By = iota
	// ByReserve denied by the reserve of a region whose home does not answer.
	ByReserve
	ByLocal
	ByOpen
	ByNobody
)

// Tally counts decisions. The zero value has counted none; it is safe for concurrent use.
type Tally struct {
	by      [ByNobody + 1]struct{ admitted, denied atomic.Uint64 }
	panics  atomic.Uint64
	buckets [len(latencyBounds) + 1]atomic.Uint64
	longest atomic.Int64 // microseconds
}

// Note counts a request: who decided it, and whether it was admitted. took is how long that
// took; a negative one was not measured, because it took next to nothing.
func (t *Tally) Note(by By, admitted bool, took time.Duration) {
	if admitted {
		t.by[by].admitted.Add(1)
	} else {
		t.by[by].denied.Add(1)
	}
	bucket, _ := slices.BinarySearch(latencyBounds[:], took)
	t.buckets[bucket].Add(1)
	for us := took.Microseconds(); ; {
		longest := t.longest.Load()
		if us <= longest || t.longest.CompareAndSwap(longest, us) {
			return
		}
	}
}

// NotePanic counts a decision that ended by a bug.
func (t *Tally) NotePanic() { t.panics.Add(1) }

// Counts returns what was counted so far.
func (t *Tally) Counts() Counts {
	var c Counts
	for by := range t.by {
		admitted, denied := t.by[by].admitted.Load(), t.by[by].denied.Load()
		c.Decided += admitted + denied
		c.Denied += denied
		switch By(by) {
		case ByStore:
			c.Store += admitted + denied
		case ByReserve:
			c.Reserve += admitted + denied
		case ByLocal:
			c.Local += admitted + denied
			c.Unchecked += admitted
		case ByOpen:
			c.Open += admitted + denied
			c.Unchecked += admitted
		case ByNobody:
			c.Passed += admitted
			c.Unchecked += admitted
			c.Failed += denied
		}
	}
	c.Panics = t.panics.Load()
	return c
}

// Latency returns how long decisions took so far.
func (t *Tally) Latency() Latency {
	l := Latency{Max: t.longest.Load(), Buckets: make([]uint64, len(t.buckets))}
	for i := range t.buckets {
		l.Buckets[i] = t.buckets[i].Load()
	}
	l.measure()
	return l
}
