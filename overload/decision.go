package overload

import "time"

// Status is the HTTP status of a request that was shed: 503. It is never 429,
// which tells a client that it asked too much; here others did.
const Status = 503

// Reason says which shedder shed a request. The zero value is Admitted.
type Reason uint8

// The reasons.
const (
	// Admitted: the request was not shed.
	Admitted Reason = iota
	// FleetShare: the fleet is near its capacity.
	FleetShare
	// WorkerLimit: this process has in flight what this priority may fill of
	// its limit.
	WorkerLimit
	// HardCap: this process has in flight the most that it may ever have.
	HardCap
)

// String returns a word for logs and label values.
func (r Reason) String() string {
	return [...]string{"admitted", "fleet", "worker", "hard_cap"}[r]
}

// Decision says whether a request is admitted. The zero value admits.
type Decision struct {
	Reason   Reason
	Priority Priority
	// RetryAfter is the time after which the client may ask again; 0 when the
	// request was admitted. It is jittered upward.
	RetryAfter time.Duration
}

// Admitted reports whether the request may go on.
func (d Decision) Admitted() bool { return d.Reason == Admitted }

// RetryAfterSeconds is RetryAfter for the header of that name: rounded up, and
// at least 1 where the request was shed.
func (d Decision) RetryAfterSeconds() int64 {
	if d.Admitted() {
		return 0
	}
	return max(1, int64((d.RetryAfter+time.Second-1)/time.Second))
}

// jittered spreads d upward over [d, 3d) by a draw from [0, 1), so that a crowd
// that was shed in one instant does not come back in one. The span is wide
// because the header counts whole seconds: half a second becomes one or two of
// them, evenly.
func jittered(d time.Duration, draw float64) time.Duration {
	return d + time.Duration(draw*float64(2*d))
}
