package reservation

import "github.com/headgate/headgate/descriptor"

// Actual is what was used of a reservation.
type Actual struct {
	// Hits is the cost of each descriptor, in their order, from 0 to limit.MaxQuota;
	// one number is that of all of them, and none leaves them as estimated.
	Hits []int64
	// Attributes are for rules that take their cost from elsewhere than the hits, as
	// headgate.Request.Attributes; a cost from a descriptor entry stands here under the key of
	// that. What is not here stays as it was reserved; where the hits are 0, the cost is
	// 0 too.
	Attributes []descriptor.Entry
}

// Outcome is what became of a Commit or a Cancel.
type Outcome uint8

const (
	// Undecided: the store did not answer. Whether the reservation is settled is not
	// known; to try again is safe.
	Undecided Outcome = iota
	// Settled: this call has settled the reservation.
	Settled
	// SettledBefore: another call had, or this one when its answer got lost. Nothing
	// was charged or given back.
	SettledBefore
	// Unknown: there was nothing to settle. The store does not remember the reservation, and
	// nothing was used of it or it is one of Of: it was denied, never made, made while the
	// store was away, or is long over. Or no limit in force counts what it was charged for.
	// Nothing was charged or given back.
	Unknown
)

// String returns the word used in JSON and metrics.
func (o Outcome) String() string {
	return [...]string{"undecided", "settled", "settled_before", "unknown"}[o]
}

// Counts are what a Limiter has reserved and settled since it was made.
type Counts struct {
	// Made counts the reservations that were granted, Denied those that were not.
	Made, Denied uint64
	// Commits and Cancels count the calls of Commit and Cancel by their Outcome. Calls
	// that returned an error are not among them.
	Commits, Cancels [Unknown + 1]uint64
}
