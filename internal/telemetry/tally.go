package telemetry

import (
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// storeReasons are the values of the label reason, in the order of tally.errors.
var storeReasons = [...]store.Reason{
	store.Timeout, store.Unavailable, store.Overloaded, store.BreakerOpen, store.Denied, store.Full,
	store.ReadOnly, store.Loading, store.Misconfigured, store.Internal,
}

// reasonIndex returns the position of r in storeReasons. A reason that is not there is a
// slip on our side, and counted as one.
func reasonIndex(r store.Reason) int {
	for i := range storeReasons {
		if storeReasons[i] == r {
			return i
		}
	}
	return len(storeReasons) - 1 // store.Internal
}

// roles are the values of the label role, by the Role.
var roles = [...]rules.Role{rules.Main, rules.InFlight, rules.Secondary, rules.Sustained, rules.Banning, rules.Candidate}

// softActions are the values of the label action, by the SoftAction.
var softActions = [...]rules.SoftAction{rules.Warn, rules.Delay, rules.Degrade, rules.Challenge}

// holdCall is a call for requests in flight, and how it ended.
type holdCall uint8

const (
	renewed holdCall = iota
	renewedDegraded
	released
	releasedDegraded
	holdCalls // their number
)

// holdCallNames are the values of the labels op and outcome.
var holdCallNames = [holdCalls][2]string{
	renewed:          {"renew", "done"},
	renewedDegraded:  {"renew", "degraded"},
	released:         {"release", "done"},
	releasedDegraded: {"release", "degraded"},
}

// retryBounds are the bounds of the histogram of what denied clients are told to wait.
var retryBounds = [...]time.Duration{
	10 * time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// remainingBounds are the bounds of the histogram of the share of a limit that is left.
var remainingBounds = [...]float64{0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1}

// tally is what decisions have added up to, apart from what is told by rule. It is plain
// numbers, so that tallies can be added. What a usual decision counts comes first.
type tally struct {
	requests [verdict.Outcomes]uint64
	took     time.Duration // of all decisions together
	failOpen uint64
	cells    cellCounts

	errors  [len(storeReasons)]uint64 // requests that the store could not decide
	denials [len(roles)]uint64
	soft    [len(softActions)]uint64
	holds   [holdCalls]uint64

	retries   [len(retryBounds) + 1]uint64 // between retryBounds, and above
	retry     time.Duration
	remaining [len(remainingBounds) + 1]uint64 // between remainingBounds, and above
	left      float64                          // sum of the shares
}

// add adds other to t.
func (t *tally) add(other *tally) {
	t.took += other.took
	t.failOpen += other.failOpen
	t.retry += other.retry
	t.left += other.left
	sum(t.requests[:], other.requests[:])
	sum(t.cells[:], other.cells[:])
	sum(t.errors[:], other.errors[:])
	sum(t.denials[:], other.denials[:])
	sum(t.soft[:], other.soft[:])
	sum(t.holds[:], other.holds[:])
	sum(t.retries[:], other.retries[:])
	sum(t.remaining[:], other.remaining[:])
}

// answered returns how many requests were answered, and of how many calls the store could not
// decide something.
func (t *tally) answered() (requests, undecided uint64) {
	for _, n := range t.requests {
		requests += n
	}
	for _, n := range t.errors {
		undecided += n
	}
	return requests, undecided
}

// sum adds each of counts to that of total.
func sum(total, counts []uint64) {
	for i, n := range counts {
		total[i] += n
	}
}

// retryAfter counts what a denied client is told to wait.
func (t *tally) retryAfter(wait time.Duration) {
	t.retries[bucketOf(retryBounds[:], wait)]++
	t.retry += wait
}

// share counts the share of a limit that is left.
func (t *tally) share(left float64) {
	t.remaining[bucketOf(remainingBounds[:], left)]++
	t.left += left
}
