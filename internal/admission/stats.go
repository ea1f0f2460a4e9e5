package admission

import "sync/atomic"

type counts struct {
	allowed, denied, unavailable, failed, malformed atomic.Uint64
	delayed, gaveUp, refunded, refundsDropped       atomic.Uint64
	renewed, renewalsFailed, unrenewed              atomic.Uint64
	released, releasesDropped                       atomic.Uint64
}

// Stats is what a Gate has counted since it was made.
type Stats struct {
	// Allowed, Denied (by a count) and Unavailable (by a failure mode, or
	// because too many waited) are the outcomes.
	Allowed, Denied, Unavailable uint64
	// Failed counts errors of the Checker that the failure mode answered; those
	// calls are in Allowed or Unavailable too.
	Failed uint64
	// Malformed counts requests that the Checker refused; they have no outcome.
	Malformed uint64
	// Delayed counts calls that were held back, GaveUp those whose context
	// ended meanwhile; these have no outcome.
	Delayed, GaveUp uint64
	// Refunded counts refunds, RefundsDropped those that were too many or
	// failed: the callers keep what they were charged.
	Refunded, RefundsDropped uint64
	// Renewed counts renewals of what calls in flight hold, RenewalsFailed those
	// that the Checker or the store did not do: they are tried again. Unrenewed
	// counts calls that were too many to be renewed (maxHeld).
	Renewed, RenewalsFailed, Unrenewed uint64
	// Released counts calls whose slots were freed when they had ended,
	// ReleasesDropped those for which that failed for as long as these last, or
	// which were too many: the slots end by their timeout.
	Released, ReleasesDropped uint64
	// Waiting is how many calls are held back now, and Held how many hold slots,
	// or have their time counted, and are renewed.
	Waiting, Held int
}

// Stats returns the counts.
func (g *Gate) Stats() Stats {
	c := &g.counts
	return Stats{
		Allowed: c.allowed.Load(), Denied: c.denied.Load(), Unavailable: c.unavailable.Load(),
		Failed: c.failed.Load(), Malformed: c.malformed.Load(),
		Delayed: c.delayed.Load(), GaveUp: c.gaveUp.Load(),
		Refunded: c.refunded.Load(), RefundsDropped: c.refundsDropped.Load(),
		Renewed: c.renewed.Load(), RenewalsFailed: c.renewalsFailed.Load(), Unrenewed: c.unrenewed.Load(),
		Released: c.released.Load(), ReleasesDropped: c.releasesDropped.Load(),
		Waiting: len(g.waiting), Held: g.keeper.held(),
	}
}
