package headgate

import "sync/atomic"

// ReservationCounts is what a Limiter has reserved and settled since it was made.
type ReservationCounts struct {
	// Made counts the reservations that were granted, Denied those that were not.
	Made, Denied uint64
	// Commits and Cancels count the calls of Commit and Cancel by their Outcome. Calls
	// that returned an error are not among them.
	Commits, Cancels [Unknown + 1]uint64
}

// Reservations returns what was reserved and settled so far.
func (l *Limiter) Reservations() ReservationCounts {
	c := ReservationCounts{Made: l.reserved.made.Load(), Denied: l.reserved.denied.Load()}
	for outcome := range c.Commits {
		c.Commits[outcome], c.Cancels[outcome] = l.reserved.commits[outcome].Load(), l.reserved.cancels[outcome].Load()
	}
	return c
}

// reservationCounters count what ReservationCounts tells.
type reservationCounters struct {
	made, denied     atomic.Uint64
	commits, cancels [Unknown + 1]atomic.Uint64
}

// answered counts a reservation that was granted or denied.
func (c *reservationCounters) answered(granted bool) {
	if granted {
		c.made.Add(1)
	} else {
		c.denied.Add(1)
	}
}
