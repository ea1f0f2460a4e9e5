// Package wallclock is the wall clock by which a node decides: that of the machine, which a
// drill may put ahead or back for a time.
//
// It tells what day and time it is, for what begins or ends at one. What lasts is measured by
// the monotonic clock, which no step of a wall clock moves, and so never by this one.
package wallclock

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
)

// Clock is the clock of the machine, or one that is ahead of it. Its zero value is that of the
// machine; it is safe for concurrent use and must not be copied.
type Clock struct{ ahead atomic.Int64 }

// Set puts c ahead of the clock of the machine by that much; a negative duration puts it back,
// and 0 has it be that of the machine.
func (c *Clock) Set(ahead time.Duration) { c.ahead.Store(int64(ahead)) }

// Ahead is by how much c is ahead of the clock of the machine.
func (c *Clock) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }

// Now is the time of c. While c is not that of the machine, it has no monotonic reading, so
// that differences from it are those of the wall clock.
func (c *Clock) Now() time.Time {
	if ahead := c.Ahead(); ahead != 0 {
		return time.Now().Round(0).Add(ahead)
	}
	return time.Now()
}

// Micros is Now in microseconds since 1970.
func (c *Clock) Micros() limit.Micros { return limit.MicrosOf(c.Now()) }
