// Package explain says how a request would be decided now, and why: which rules were
// tried, what counts for it, and the arithmetic of each limit. Nothing is charged.
package explain

import (
	"context"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
)

// Limiter is whose decisions are explained.
type Limiter interface {
	// Rules returns the rules in force, nil for none.
	Rules() *rules.Set
	// Peek tells what Check would say, without charging anything; see headgate.Limiter.
	Peek(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

// Request says how req would be decided by limiter now. It changes nothing, neither in
// the store nor in req. An error says what is wrong with req.
func Request(ctx context.Context, limiter Limiter, req headgate.Request) (view.Explanation, error) {
	return view.Explanation{}, nil
}

// Handler answers POST /v1/explain.
func Handler(limiter Limiter) http.Handler {
	return http.NotFoundHandler()
}
