// Package steady has the clock by which leases and other things that a node holds end, and
// notices when this clock cannot be trusted: a machine that was suspended may have stopped its
// monotonic clock.
package steady

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxParting is by how much wall and monotonic clock may part between two
	// looks at them before nothing that was measured holds. A machine that was
	// suspended for less overruns what it holds by less.
	maxParting = 100 * time.Millisecond
	// rebaseAfter is how long two looks may be apart: slower partings are the
	// wall clock being slewed, at most 500 µs in a second.
	rebaseAfter = 10 * time.Second
)

// Clock reads a monotonic time: since Start and a second more, so that 0 is before
// everything. Call Start before anything else.
type Clock struct {
	// now and wall are set by tests; nil means time.Now, and its wall reading.
	now, wall func() time.Time
	start     time.Time
	// offset is wall minus monotonic time at based, both in ns.
	offset, based atomic.Int64
	parting       sync.Mutex
}

// Start begins to count. now is the clock, of which only the monotonic reading counts; nil
// means time.Now. wall is the wall clock that it is compared with; nil means the wall
// reading of now.
func (c *Clock) Start(now, wall func() time.Time) {
	c.now, c.wall = now, wall
	if c.now == nil {
		c.now = time.Now
	}
	c.start = c.now()
	at, offset := c.look()
	c.offset.Store(offset)
	c.based.Store(int64(at))
}

// look returns the monotonic time and how far the wall clock is from it.
func (c *Clock) look() (at time.Duration, offset int64) {
	t := c.now()
	at = t.Sub(c.start) + time.Second
	if c.wall != nil {
		t = c.wall()
	}
	return at, t.UnixNano() - int64(at)
}

// Read returns the monotonic time. Before it does, it calls parted if the clocks
// have parted since the last look: the monotonic clock may have stood still
// while the machine was suspended, and nothing that was measured with it holds.
func (c *Clock) Read(parted func()) time.Duration {
	at, offset := c.look()
	if by := offset - c.offset.Load(); by > int64(maxParting) || by < -int64(maxParting) {
		c.part(parted)
	} else if int64(at)-c.based.Load() > int64(rebaseAfter) {
		c.based.Store(int64(at))
		c.offset.Store(offset)
	}
	return at
}

// part calls parted once for all who have noticed; the others wait until it is
// done, because they must not decide before.
func (c *Clock) part(parted func()) {
	c.parting.Lock()
	defer c.parting.Unlock()
	at, offset := c.look()
	if by := offset - c.offset.Load(); by <= int64(maxParting) && by >= -int64(maxParting) {
		return
	}
	parted()
	c.based.Store(int64(at))
	c.offset.Store(offset)
}

// Now is the clock itself, of which only the monotonic reading counts.
func (c *Clock) Now() time.Time { return c.now() }

// Wall is what time the wall clock says it is, which nothing that a node holds may end by.
func (c *Clock) Wall() time.Time {
	if c.wall != nil {
		return c.wall()
	}
	return c.now()
}
