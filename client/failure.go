package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// failed notes why q had no answer that counts, for CheckerStats, and returns reason.
func (c *Checker) failed(reason store.Reason, q *question, err error) store.Reason {
	c.failure.Store(&store.Error{Op: "ask", Store: q.target, Reason: reason, Hint: hintFor(err), Err: err})
	return reason
}

// lastFailure returns why the last call had no answer that counts, nil if it had one.
func (c *Checker) lastFailure() error {
	if err := c.failure.Load(); err != nil {
		return err
	}
	return nil
}

// strangeAnswer is an answer that is no decision.
type strangeAnswer struct{ status int }

// Error implements error.
func (e *strangeAnswer) Error() string {
	return fmt.Sprintf("an answer of status %d that is no decision", e.status)
}

// hintFor says what can be done about a failure.
func hintFor(err error) string {
	answer, ok := errors.AsType[*strangeAnswer](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the server did not answer within CheckerOptions.Budget, or the caller's own deadline"
	case ok && answer.status == http.StatusUnauthorized:
		return "the server does not know the token of Credentials"
	case ok && answer.status >= http.StatusInternalServerError:
		return "the server, or a proxy before it, is in trouble: see its log"
	case ok:
		return "something else than a Headgate answers at the URL: see CheckerOptions.URL"
	}
	return ""
}

// failedRetryAfter is what a request denied by failure mode closed is told to
// wait, as headgate.Limiter does.
const failedRetryAfter = time.Second

// answerByMode answers in place of the server. A refund and a reset are never denied. A
// request that passes because the answer was late may hold something there, so it
// renews and releases it, as it does when a store was late.
func answerByMode(req *headgate.Request, resp *headgate.Response, mode rules.FailureMode, reason store.Reason) {
	d := limit.Decision{Allowed: true}
	if mode == rules.Closed && asks(req) {
		d = limit.Decision{RetryAfter: failedRetryAfter}
	}
	v := headgate.Verdict{Hits: req.Descriptors[0].Hits, Limit: req.Descriptors[0].Limit, Decision: d, By: verdict.ByFailureMode, Degraded: reason}
	*resp = headgate.Response{Allowed: d.Allowed, DomainKnown: true, Verdicts: append(resp.Verdicts[:0], v)}
	if d.Allowed && reason == store.Timeout && mayHold(req) {
		resp.Hold, resp.HoldFor = req.Hold, rules.DefaultHoldTimeout
	}
}

// mayHold reports whether a request that passes may hold something.
func mayHold(req *headgate.Request) bool {
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		if d.Op == store.Renew || d.Op == store.Hit && d.Hits > 0 {
			return req.Hold != 0
		}
	}
	return false
}

// asks reports whether a request wants leave to pass.
func asks(req *headgate.Request) bool {
	return slices.ContainsFunc(req.Descriptors, func(d headgate.Descriptor) bool { return d.Op == store.Hit })
}
