package adminapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/explain"
)

// explain answers how a request would be decided.
func (c *call) explain() (*answer, error) {
	request, bad := parseExplained(c.body)
	if bad != nil {
		return nil, bad
	}
	if c.options.Watch.Explain == nil {
		return nil, errNotShown
	}
	ctx, cancel := context.WithTimeout(c.request.Context(), usageTimeout)
	defer cancel()
	done, bad := c.look(ctx)
	if bad != nil {
		return nil, bad
	}
	defer done()
	e, err := c.options.Watch.Explain(ctx, request)
	if err != nil {
		c.options.OnError(fmt.Errorf("explain a request: %w", err))
		return nil, fail(http.StatusServiceUnavailable, "it could not be asked what would be decided; the log of this process says why").with("Retry-After", strconv.Itoa(retryAfter))
	}
	return jsonAnswer(http.StatusOK, e)
}

// parseExplained reads a request as the route of the same name at the ops address does.
func parseExplained(text []byte) (headgate.Request, *problem) {
	r, bad := explain.Decode(text)
	if bad == nil {
		return r, nil
	}
	status := http.StatusUnprocessableEntity
	if bad.Malformed() {
		status = http.StatusBadRequest
	}
	return r, badFields(status, []fieldError{{Field: bad.Field, Message: bad.Message, Hint: bad.Hint}})
}
