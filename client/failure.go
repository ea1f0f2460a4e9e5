package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/headgate/headgate/store"
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
