package history

import (
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Clock reads the store's clock. The takes of a batch are decided in one step at one instant (package
// store), and the answer to a hit of a fixed window says how long that window still
// lasts. So a batch of a clock's take, the take in question, and another clock's take tells the instant of
// the one between.
type Clock struct {
	limit *limit.Limit
	keys  [2][]byte
}

// NewClock returns a clock on two buckets of its own, which no one else may use.
func NewClock(first, second []byte) *Clock {
	return &Clock{
		limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: limit.MaxPeriod}),
		keys:  [2][]byte{first, second},
	}
}

// Around returns the batch that asks for t.
func (c *Clock) Around(t store.Take) []store.Take {
	return []store.Take{{Key: c.keys[0], Limit: c.limit, Hits: 1}, t, {Key: c.keys[1], Limit: c.limit, Hits: 1}}
}

// Read returns the instant at which the take of such a batch was decided, twice. Where the batch fell
// apart, which the two clocks tell, or they have not answered, it returns the instants between which it was
// decided by the local clock, which then has to be the store's.
func (c *Clock) Read(results []store.Result, called, returned time.Time) (from, to limit.Micros) {
	from, to = limit.MicrosOf(called), limit.MicrosOf(returned)
	first, second := &results[0], &results[2]
	if first.Err != nil || second.Err != nil {
		return from, to
	}
	if a := c.instant(first, from); a == c.instant(second, from) {
		return a, a
	}
	return from, to
}

// instant returns the instant of an answer, given one that is less than half a window from it.
func (c *Clock) instant(r *store.Result, near limit.Micros) limit.Micros {
	window := limit.Micros(c.limit.PeriodMicros())
	at := near - near%window + window - micros(r.ResetAfter)
	switch {
	case at > near+window/2:
		at -= window
	case at < near-window/2:
		at += window
	}
	return at
}
