package httplimit

import (
	"context"
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/store"
)

// Result is what was decided of a request, for its handler.
type Result struct {
	// Status is 200, 429, or 503 when the denial is not a count.
	Status int
	// Code says why it was denied, as platform bodies do: RATE_LIMITED,
	// CONCURRENCY_LIMITED, SECONDARY_RATE_LIMITED, BANNED or SERVICE_UNAVAILABLE;
	// empty when it was allowed.
	Code string
	// Rule is the ID of the rule that speaks for the request, "" if none does.
	Rule string
	// Priority is the word for how late the request is shed when there are too
	// many, "p0" to "p3": of the rules that matched, of that which is shed first;
	// "" when none has one.
	Priority string
	// Counted says that Limit, Remaining and ResetAfter hold counts.
	Counted bool
	// Limit is the quota of a window or the burst of a bucket.
	Limit int64
	// Remaining is how many hits would pass now.
	Remaining int64
	// ResetAfter is the time until the limit is as if unused.
	ResetAfter time.Duration
	// RetryAfter is the time until this request would pass; 0 when it was
	// allowed or never can pass.
	RetryAfter time.Duration
	// Delay is how long the request was held back by limits that shape.
	Delay time.Duration
	// Degraded says why the store or the checker did not decide; empty when
	// they did.
	Degraded store.Reason
}

func resultOf(resp *headgate.Response, s *httpanswer.Summary) Result {
	r := Result{
		Status: s.Status, Counted: s.Counted,
		Limit: s.Limit, Remaining: s.Remaining, ResetAfter: s.ResetAfter,
		RetryAfter: s.RetryAfter, Delay: s.Delay, Degraded: resp.Degraded(),
	}
	if s.Status != http.StatusOK {
		r.Code = s.Code()
	}
	if v := s.Verdict; v != nil && v.Rule != nil {
		r.Rule = v.Rule.ID
	}
	for i := range resp.Verdicts {
		if rule := resp.Verdicts[i].Rule; rule != nil {
			r.Priority = max(r.Priority, rule.Priority) // "" < "p0" < "p3"
		}
	}
	return r
}

// FromContext returns what the innermost Middleware decided of the request whose
// context ctx is or descends from; false when none did, or none of them has
// Options.PassResult.
func FromContext(ctx context.Context) (Result, bool) {
	if r, ok := ctx.Value(resultKey{}).(*Result); ok {
		return *r, true
	}
	return Result{}, false
}

type resultKey struct{}

// resultContext carries a Result. It is one allocation where context.WithValue
// would be two.
type resultContext struct {
	context.Context
	result Result
}

// Value implements context.Context.
func (c *resultContext) Value(key any) any {
	if _, ok := key.(resultKey); ok {
		return &c.result
	}
	return c.Context.Value(key)
}
