package dualrun

import (
	"fmt"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Cause is why an answer differs.
type Cause string

// The causes, in the order in which they are looked for.
const (
	// Same is no difference.
	Same Cause = ""
	// Shape: there are not as many statuses, so that one of the two is not the service that it
	// is taken for.
	Shape Cause = "shape"
	// Limit: a descriptor has a limit on one side alone, or another number or unit: the rules
	// differ.
	Limit Cause = "limit"
	// Start: the old service counts in a window that began before the dual run, of which it
	// knows hits that Headgate does not.
	Start Cause = "start"
	// Window: the same limit ends at another instant: the windows are not the same.
	Window Cause = "window"
	// Counts: the same limit in the same window, and one of the two has counted more: requests
	// that came together and were decided in another order, or hits of denied requests, which
	// one of the two counts.
	Counts Cause = "counts"
)

// Causes are all of them but Same.
func Causes() []Cause { return []Cause{Shape, Limit, Start, Window, Counts} }

// difference is what differs between two answers.
type difference struct {
	cause Cause
	// decides says that one of them lets the request pass and the other does not.
	decides bool
	// descriptor is the index of the first status that differs; -1 for a difference of the whole.
	descriptor int
}

// windowsApart is how far the ends of a window may lie apart that is the same: both say them in
// whole seconds.
const windowsApart = 2 * time.Second

// compare finds out how the answer of the old service and our own differ to one request. The
// dual run has begun at start.
func compare(theirs, ours *rlsv3.RateLimitResponse, start, now time.Time) difference {
	decides := theirs.GetOverallCode() != ours.GetOverallCode()
	if len(theirs.GetStatuses()) != len(ours.GetStatuses()) {
		return difference{Shape, decides, -1}
	}
	for i, t := range theirs.GetStatuses() {
		if !sameLimit(t.GetCurrentLimit(), ours.GetStatuses()[i].GetCurrentLimit()) {
			return difference{Limit, decides, i}
		}
	}
	for i, t := range theirs.GetStatuses() {
		if o := ours.GetStatuses()[i]; t.GetCode() != o.GetCode() {
			return difference{causeOf(t, o, start, now), decides, i}
		}
	}
	if decides {
		return difference{Shape, true, -1}
	}
	return difference{cause: Same, descriptor: -1}
}

// causeOf returns why two statuses of the same limit have not the same code.
func causeOf(theirs, ours *rlsv3.RateLimitResponse_DescriptorStatus, start, now time.Time) Cause {
	if now.Sub(start) < unitOf(theirs.GetCurrentLimit()) && theirs.GetCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
		return Start
	}
	t, o := theirs.GetDurationUntilReset(), ours.GetDurationUntilReset()
	if t != nil && o != nil && (t.AsDuration()-o.AsDuration()).Abs() > windowsApart {
		return Window
	}
	return Counts
}

// sameLimit reports whether two statuses are of the same limit; the name is of no weight.
func sameLimit(a, b *rlsv3.RateLimitResponse_RateLimit) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.GetRequestsPerUnit() == b.GetRequestsPerUnit() && a.GetUnit() == b.GetUnit()
}

const day = 24 * time.Hour

// unitOf returns the length of the windows of a limit, of months and years the longest.
func unitOf(l *rlsv3.RateLimitResponse_RateLimit) time.Duration {
	switch l.GetUnit() {
	case rlsv3.RateLimitResponse_RateLimit_SECOND:
		return time.Second
	case rlsv3.RateLimitResponse_RateLimit_MINUTE:
		return time.Minute
	case rlsv3.RateLimitResponse_RateLimit_HOUR:
		return time.Hour
	case rlsv3.RateLimitResponse_RateLimit_DAY:
		return day
	case rlsv3.RateLimitResponse_RateLimit_WEEK:
		return 7 * day
	case rlsv3.RateLimitResponse_RateLimit_MONTH:
		return 31 * day
	case rlsv3.RateLimitResponse_RateLimit_YEAR:
		return 366 * day
	}
	return 0
}

// say returns what a status says, for people.
func say(m *rlsv3.RateLimitResponse, i int) string {
	if i < 0 || i >= len(m.GetStatuses()) {
		return fmt.Sprintf("%s, %d statuses", m.GetOverallCode(), len(m.GetStatuses()))
	}
	s := m.GetStatuses()[i]
	l := s.GetCurrentLimit()
	if l == nil {
		return fmt.Sprintf("%s, no limit", s.GetCode())
	}
	return fmt.Sprintf("%s, %d/%s, %d left, resets in %v", s.GetCode(), l.GetRequestsPerUnit(), l.GetUnit(), s.GetLimitRemaining(), s.GetDurationUntilReset().AsDuration())
}
