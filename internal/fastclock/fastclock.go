// Package fastclock tells how much time has passed, as time.Since does, at less than half of
// its cost where the processor has a counter that suits.
//
// The runtime's clock waits for all loads that are under way before it reads the counter of
// the processor (RDTSCP), so that a lookup in a large table is not overlapped with the next.
// A Clock reads the counter without waiting (RDTSC), and scales it: from an anchor, an
// instant that was read by both clocks. An anchor lives for 2^20 ticks, which is a
// millisecond at 1 GHz and a quarter of one at 4. After that, or when the counter has gone
// back, the runtime's clock is read, and gives the next anchor. So a Clock follows the
// runtime's clock wherever that goes, and is never off by more than Error.
//
// The counter is used on Linux on amd64 only, where the processor says that it runs at one
// speed whatever the processor does (Intel SDM, volume 3, "Invariant TSC"), and the kernel
// keeps its own time by it: then it has checked that it is the same on all processors. When
// the two clocks part all the same (the machine was suspended, or has moved to a host whose
// counter runs at another speed), the speed is measured anew. Everywhere else, and until
// the speed is known, a Clock is time.Since.
//
// Inside of a bubble of testing/synctest time is not what processors count. There the
// runtime's clock stands still while a goroutine runs. A Clock looks for that whenever it
// takes an anchor, so that one that was made in a bubble reads the bubble's time.
package fastclock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Error is the most by which a reading may differ from the runtime's clock, and so the most
// by which the later of two readings may be before the earlier one.
const Error = 4 * time.Microsecond

// Clock reads the time since it was made. Make one with New. It is for many goroutines.
type Clock struct {
	start time.Time
	// usable says that the counter suits.
	usable bool

	// The anchor. The version is odd while it is written, and others each time.
	version atomic.Uint32
	ticks   atomic.Uint64
	nanos   atomic.Int64
	scale   atomic.Uint64 // 0: there is none

	mu    sync.Mutex
	speed speed
}

// New returns a Clock that counts from start, which has a monotonic reading.
func New(start time.Time) *Clock {
	c := &Clock{start: start, usable: hasCounter && suits()}
	c.elapsedByRuntime()
	return c
}

// Elapsed returns the time since start. It neither waits nor allocates.
func (c *Clock) Elapsed() time.Duration {
	if version, scale := c.version.Load(), c.scale.Load(); scale != 0 {
		ticks, nanos := c.ticks.Load(), c.nanos.Load()
		// A counter behind the anchor has passed by more than any life.
		if passed := counter() - ticks; passed < life && version&1 == 0 && version == c.version.Load() {
			return time.Duration(nanos + int64(passed*scale>>scaleShift))
		}
	}
	return c.elapsedByRuntime()
}

// elapsedByRuntime reads the runtime's clock, and takes an anchor from it when it is time to,
// unless somebody else does.
func (c *Clock) elapsedByRuntime() time.Duration {
	if !c.usable || c.learning() || !c.mu.TryLock() {
		return time.Since(c.start)
	}
	defer c.mu.Unlock()
	at, ok := c.read()
	switch {
	case ok:
		c.speed.learn(at)
		c.version.Add(1)
		c.ticks.Store(at.ticks)
		c.nanos.Store(at.nanos)
		c.scale.Store(c.speed.scale)
		c.version.Add(1)
	case c.speed.scale == 0:
		c.ticks.Store(at.ticks)
	}
	return time.Duration(at.nanos)
}

// learning reports whether it is too early to try and learn the speed (again).
func (c *Clock) learning() bool {
	return c.scale.Load() == 0 && counter()-c.ticks.Load() < learnTicks
}

// maxRead is how many ticks may pass while both clocks are read; what takes longer was
// interrupted.
const maxRead = 1 << 11

// read reads both clocks, and reports whether they can be compared: that nothing came
// between, and that the runtime's moves by itself.
func (c *Clock) read() (at instant, ok bool) {
	before := counter()
	nanos := time.Since(c.start)
	after := counter()
	moves := time.Since(c.start) > nanos
	return instant{ticks: before + (after-before)/2, nanos: int64(nanos)}, moves && after-before < maxRead
}
