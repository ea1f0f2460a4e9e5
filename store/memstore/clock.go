package memstore

import (
	"math"
	"time"

	"github.com/headgate/headgate/internal/fastclock"
	"github.com/headgate/headgate/limit"
)

// clock reads the time: a wall time once, and the monotonic clock from there
// on, which is cheaper to read. It may step back by fastclock.Error. A wall clock
// that is set later is not followed, nor is the time that a machine sleeps.
type clock struct {
	base    limit.Micros
	elapsed *fastclock.Clock
}

func newClock() clock {
	start := time.Now()
	return clock{base: limit.MicrosOf(start), elapsed: fastclock.New(start)}
}

func (c *clock) now() limit.Micros {
	return c.base + limit.Micros(c.elapsed.Elapsed()/time.Microsecond)
}

// Expiry is kept in units of 2^20 µs (about a second) since the Unix epoch.
// The largest unit, in the year 2112, means never.
const (
	unitShift = 20
	never     = math.MaxUint32
	// margin is how much longer than its lifetime a bucket is kept at least,
	// so that a clock that steps back by less finds every bucket still there.
	margin = limit.Micros(time.Second / time.Microsecond)
)

// unitOf is the unit that holds now, rounded down: a slot whose expiry is
// before it is dead.
func unitOf(now limit.Micros) uint32 {
	return uint32(min(max(now>>unitShift, 0), never))
}

// expiryOf is the last unit in which a bucket must be kept whose lifetime at now
// is given.
func expiryOf(now limit.Micros, lifetime time.Duration) uint32 {
	end := now + margin + limit.Micros(lifetime/time.Microsecond)
	if end < now {
		return never
	}
	return unitOf(end)
}
