package store

import (
	"sync/atomic"
	"time"
)

// DurationBounds are the upper bounds of the buckets of Durations, from a server on the
// same machine to one that is given up.
var DurationBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second,
}

// Durations counts how long calls of a server took, answered or given up. The zero value
// has counted nothing; it is safe for concurrent use.
type Durations struct {
	buckets [len(DurationBounds) + 1]atomic.Uint64
	total   atomic.Int64 // nanoseconds
}

// DurationCounts is what Durations has counted.
type DurationCounts struct {
	// Buckets has the calls that took up to each of DurationBounds and more than the
	// one before, and those that took more than all.
	Buckets [len(DurationBounds) + 1]uint64
	// Total is the sum of all.
	Total time.Duration
}

// Note counts a call.
func (d *Durations) Note(took time.Duration) {
	bucket := 0
	for bucket < len(DurationBounds) && took > DurationBounds[bucket] {
		bucket++
	}
	d.buckets[bucket].Add(1)
	d.total.Add(int64(took))
}

// Counts returns what was counted so far.
func (d *Durations) Counts() DurationCounts {
	c := DurationCounts{Total: time.Duration(d.total.Load())}
	for i := range d.buckets {
		c.Buckets[i] = d.buckets[i].Load()
	}
	return c
}

// Add adds other to c.
func (c *DurationCounts) Add(other *DurationCounts) {
	c.Total += other.Total
	for i, n := range other.Buckets {
		c.Buckets[i] += n
	}
}
