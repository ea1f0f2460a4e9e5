package httpanswer

import (
	"net/http"
	"time"

	"github.com/headgate/headgate"
)

// Summary is what a client is told of a Response, in numbers. It refers to the
// Response and must not outlive it.
type Summary struct {
	// Status is 200, 429, or 503 when the denial is not a count but the failure
	// mode of a rule that the store could not decide.
	Status int
	// Verdict is the one that speaks for the request; nil when none does.
	Verdict *headgate.Verdict
	// Counted says that Limit, Remaining and ResetAfter hold counts; a degraded
	// answer and one that nothing limits have none.
	Counted bool
	// Limit is the quota of a window or the burst of a bucket.
	Limit int64
	// Remaining is how many hits would pass now; never negative, rounded down.
	Remaining int64
	// ResetAfter is the time until the limit is as if unused.
	ResetAfter time.Duration
	// RetryAfter is the time until this request would pass, jittered; 0 when it
	// was allowed or never can pass.
	RetryAfter time.Duration
	// Delay is how long an allowed request must wait before it goes on: the
	// longest that a limit which shapes asks for.
	Delay time.Duration
}

// Summarize takes from resp what its client is told.
func (e *Encoder) Summarize(resp *headgate.Response) Summary {
	s := Summary{Status: http.StatusOK, Verdict: resp.Decisive(-1)}
	for i := range resp.Verdicts {
		if v := &resp.Verdicts[i]; v.Enforced && resp.Allowed {
			s.Delay = max(s.Delay, v.Decision.Delay)
		}
	}
	v := s.Verdict
	if !resp.Allowed {
		s.Status = http.StatusTooManyRequests
		if v != nil && v.Guessed() {
			s.Status = http.StatusServiceUnavailable
		}
	}
	if v == nil {
		return s
	}
	if v.Counted() {
		s.Counted = true
		s.Limit = max(v.Decision.Limit, 0)
		s.Remaining = max(v.Decision.Remaining, 0)
		s.ResetAfter = max(v.Decision.ResetAfter, 0)
	}
	if !resp.Allowed && !v.Decision.Never {
		s.RetryAfter = e.jittered(max(v.Decision.RetryAfter, 1))
	}
	return s
}

// Never reports whether the request was denied and can never pass.
func (s *Summary) Never() bool { return s.Status != http.StatusOK && s.RetryAfter == 0 }

// RetryAfterSeconds is Retry-After: whole seconds, rounded up, at least 1; 0
// when there is none.
func (s *Summary) RetryAfterSeconds() int64 { return CeilSeconds(s.RetryAfter) }

// wait is the one time that the header fields tell: when denied until this
// request fits, else until the limit is as if unused. 0 is no such time.
func (s *Summary) wait() time.Duration {
	if s.RetryAfter > 0 {
		return s.RetryAfter
	}
	return s.ResetAfter
}

// jittered lengthens d by a random share of itself.
func (e *Encoder) jittered(d time.Duration) time.Duration {
	if e.options.Jitter == 0 {
		return d
	}
	extra := time.Duration(float64(d) * e.options.Jitter * e.options.Random())
	if longer := d + extra; longer > d {
		return longer
	}
	return d // no extra, or past the end of time.Duration
}

// CeilSeconds rounds up to whole seconds, the one rounding at the edge: header
// fields hold no fraction, and Envoy drops one. 0 and less are 0.
func CeilSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
