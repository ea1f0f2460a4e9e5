package rls

import (
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// Codes of an answer, numbered as RateLimitResponse.Code. UNKNOWN (0) is never
// sent: Envoy lets it pass.
const (
	codeOK        int32 = 1
	codeOverLimit int32 = 2
)

// descriptorStatus is a DescriptorStatus.
type descriptorStatus struct {
	code         int32
	currentLimit currentLimit
	remaining    uint32
	// resetSeconds is duration_until_reset. It is sent when currentLimit is.
	resetSeconds int64
}

// statusAllowed is the status of a descriptor that nothing limits.
var statusAllowed = descriptorStatus{code: codeOK}

// currentLimit is a RateLimitResponse.RateLimit; the zero value stands for none.
type currentLimit struct {
	present  bool
	requests uint32
	name     string
	unit     int32
	// multiplier is sent when it is more than 1.
	multiplier uint32
}

// appendStatuses appends one status for each descriptor of req, in order.
func appendStatuses(dst []descriptorStatus, req *headgate.Request, resp *headgate.Response, now func() time.Time) []descriptorStatus {
	rest := resp.Verdicts
	for i := range req.Descriptors {
		// Verdicts come in the order of the descriptors.
		n := 0
		for n < len(rest) && rest[n].Descriptor == i {
			n++
		}
		dst = append(dst, statusOf(req.Descriptors[i].Op, &headgate.Response{Verdicts: rest[:n]}, i, now))
		rest = rest[n:]
	}
	return dst
}

// statusOf sums up the verdicts on descriptor i, of which part is the response. A denial
// counts also where nothing is enforced by this process: the overall code alone is held
// back then, as in envoyproxy/ratelimit, so that Envoy's statistics still show the denials.
func statusOf(op store.Op, part *headgate.Response, i int, now func() time.Time) descriptorStatus {
	s := statusAllowed
	speaker := part.SpeakerFor(i)
	if speaker == nil {
		return s
	}
	if speaker.Denied() && op == store.Hit { // a refund is never over, whatever is left
		s.code = codeOverLimit
	}
	switch {
	case speaker.Counted():
		s.count(speaker, now)
	case speaker.Rule != nil && speaker.Limit == nil && speaker.By == verdict.ByStore: // unlimited, by the rule or by a quota
		s.remaining = math.MaxUint32
	}
	return s
}

// waitOf returns when whoever v denies may come back. A slot may be free at any
// moment, not only when the first one ends by itself.
func waitOf(v *headgate.Verdict) time.Duration {
	if v.Role == rules.InFlight {
		return min(v.Decision.RetryAfter, time.Second)
	}
	return v.Decision.RetryAfter
}

// count fills in the limit of v and its numbers. The window of a limit of which nothing is
// used ends as well: envoyproxy/ratelimit never says 0.
func (s *descriptorStatus) count(v *headgate.Verdict, now func() time.Time) {
	unit, multiplier := wireUnit(v.Limit)
	if v.Role == rules.InFlight || v.Role == rules.Banning {
		unit, multiplier = unitUnknown, 1 // a number of requests or denials, not a rate
	}
	s.currentLimit = currentLimit{
		present:    true,
		requests:   clamp(v.Limit.Quota),
		name:       headerSafe(v.Name),
		unit:       unit,
		multiplier: multiplier,
	}
	if v.Decision.Allowed {
		s.remaining = clamp(v.Decision.Remaining)
		reset := v.Decision.ResetAfter
		if reset <= 0 {
			reset = v.Limit.WindowLeft(now())
		}
		s.resetSeconds = httpanswer.CeilSeconds(reset)
		return
	}
	// A denial that would pass later says when. One that never will says when
	// the limit is as if unused, for Envoy insists on a time.
	wait := waitOf(v)
	if v.Decision.Never {
		wait = v.Decision.ResetAfter
	}
	s.resetSeconds = max(httpanswer.CeilSeconds(wait), 1)
}

// clamp brings n into the range of uint32.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// headerSafe returns name, or "" if it cannot stand where Envoy puts it: between
// quotes in a header field, unescaped.
func headerSafe(name string) string {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return ""
		}
	}
	return name
}
