package httpanswer

import (
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
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
	// ResetAfter is the time until the limit is as if unused, and WindowEndsAfter until
	// its current window ends; see limit.WindowEndsAfter.
	ResetAfter, WindowEndsAfter time.Duration
	// RetryAfter is the time until this request would pass, jittered; 0 when it
	// was allowed or never can pass. For want of a slot it is a second: one may be
	// free at any moment.
	RetryAfter time.Duration
	// Delay is how long an allowed request must wait before it goes on: the
	// longest that a limit which shapes, or a soft one, asks for.
	Delay time.Duration

	// told is the verdict that the RateLimit fields speak of, and plain the one
	// that X-RateLimit-* do, which cannot say that they count requests in flight;
	// nil for none.
	told, plain *headgate.Verdict
	// retrySeconds is RetryAfter in whole seconds.
	retrySeconds int64
	// windowReset is Options.WindowReset.
	windowReset bool
}

// slotRetry is when to ask again for a slot.
const slotRetry = time.Second

// Summarize takes from resp what its client is told.
func (e *Encoder) Summarize(resp *headgate.Response) Summary {
	s := Summary{Status: http.StatusOK, Verdict: resp.Speaker(), Delay: resp.Delay(), windowReset: e.options.WindowReset}
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
		s.WindowEndsAfter = v.Limit.WindowEndsAfter(s.ResetAfter)
		s.speakOf(v, resp)
	}
	if !resp.Allowed && !v.Decision.Never {
		wait := v.Decision.RetryAfter
		if isConcurrency(v) && !v.Guessed() {
			wait = slotRetry
		}
		s.RetryAfter, s.retrySeconds = e.options.Jitter.Lengthen(max(wait, 1))
	}
	return s
}

// speakOf says which verdicts the fields speak of, where v speaks for the request:
// of a secondary limit only when it denies; of a ban and of time in flight never,
// because they count other things than requests.
func (s *Summary) speakOf(v *headgate.Verdict, resp *headgate.Response) {
	switch {
	case isConcurrency(v):
		s.told, s.plain = v, tightestMain(resp.Verdicts)
	case v.Role.IsMain(), v.Role == rules.Secondary && !resp.Allowed:
		s.told, s.plain = v, v
	}
}

// tightestMain returns the main limit with the smallest remaining, of equals the
// one with the longest reset; nil if none is enforced and counted.
func tightestMain(verdicts []headgate.Verdict) *headgate.Verdict {
	var best *headgate.Verdict
	for i := range verdicts {
		v := &verdicts[i]
		if !v.Enforced() || !v.Counted() || !v.Role.IsMain() || isConcurrency(v) {
			continue
		}
		d := &v.Decision
		if best == nil || d.Remaining < best.Decision.Remaining ||
			d.Remaining == best.Decision.Remaining && d.ResetAfter > best.Decision.ResetAfter {
			best = v
		}
	}
	return best
}

// Never reports whether the request was denied and can never pass.
func (s *Summary) Never() bool { return s.Status != http.StatusOK && s.RetryAfter == 0 }

// RetryAfterSeconds is Retry-After: whole seconds, rounded up, at least 1; 0
// when there is none.
func (s *Summary) RetryAfterSeconds() int64 { return s.retrySeconds }

// wait is the one time that the header fields tell: when denied until this
// request fits, else until the limit is as if unused or, with Options.WindowReset,
// until its window ends. 0 is no such time.
func (s *Summary) wait() time.Duration {
	if s.RetryAfter > 0 {
		return time.Duration(s.retrySeconds) * time.Second
	}
	return s.Reset()
}

// Reset is the time of reset that is told: ResetAfter or, with Options.WindowReset,
// WindowEndsAfter.
func (s *Summary) Reset() time.Duration {
	if s.windowReset {
		return s.WindowEndsAfter
	}
	return s.ResetAfter
}

// resetOf is the time of reset that is told of l, which is as if unused after full.
func (s *Summary) resetOf(full time.Duration, l *limit.Limit) time.Duration {
	if s.windowReset {
		return l.WindowEndsAfter(full)
	}
	return full
}

// CeilSeconds rounds up to whole seconds, the one rounding at the edge: header
// fields hold no fraction, and Envoy drops one. 0 and less are 0.
func CeilSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
