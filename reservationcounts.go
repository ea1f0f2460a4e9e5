package headgate

import (
	"sync/atomic"

	"github.com/headgate/headgate/reservation"
)

// Reservations returns what was reserved and settled so far.
func (l *Limiter) Reservations() reservation.Counts {
	c := reservation.Counts{Made: l.reserved.made.Load(), Denied: l.reserved.denied.Load()}
	for outcome := range c.Commits {
		c.Commits[outcome], c.Cancels[outcome] = l.reserved.commits[outcome].Load(), l.reserved.cancels[outcome].Load()
	}
	return c
}

// reservationCounters count what reservation.Counts tells.
type reservationCounters struct {
	made, denied     atomic.Uint64
	commits, cancels [reservation.Unknown + 1]atomic.Uint64
}

// answered counts a reservation that was granted or denied.
func (c *reservationCounters) answered(granted bool) {
	if granted {
		c.made.Add(1)
	} else {
		c.denied.Add(1)
	}
}
