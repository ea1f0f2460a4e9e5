package httpshed

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/headgate/headgate/overload"
)

// recorder sees how an answer ends.
type recorder struct {
	m      *Middleware
	ticket overload.Ticket
	status int // 0: not answered yet
	// streams says that the answer is an upgrade or an event stream, which has
	// left the count.
	streams bool
}

// Begin implements watched.Watcher.
func (c *recorder) Begin(status int, h http.Header) {
	if c.status != 0 {
		return
	}
	c.status = status
	if status == http.StatusSwitchingProtocols || isEventStream(h) {
		c.stream()
	}
}

// Hijacked implements watched.Watcher.
func (c *recorder) Hijacked() { c.stream() }

// stream takes the request out of what is in flight.
func (c *recorder) stream() {
	if !c.streams {
		c.streams = true
		c.done(overload.Ignored)
	}
}

// eventStream is the media type of server-sent events (WHATWG HTML, section
// 9.2).
const eventStream = "text/event-stream"

func isEventStream(h http.Header) bool {
	values := h["Content-Type"]
	if len(values) == 0 || len(values[0]) < len(eventStream) || !strings.EqualFold(values[0][:len(eventStream)], eventStream) {
		return false
	}
	rest := values[0][len(eventStream):]
	return rest == "" || strings.ContainsRune("; \t", rune(rest[0]))
}

// end notes how the request ended, unless it has left before.
func (c *recorder) end(r *http.Request, returned bool) {
	if c.streams {
		return
	}
	if c.m.options.Waited != nil {
		c.ticket.Waited = max(c.m.options.Waited(r), 0)
	}
	outcome := overload.Ignored
	if returned {
		outcome = outcomeOf(c.status, r.Context().Err())
	}
	c.done(outcome)
}

func (c *recorder) done(outcome overload.Outcome) {
	c.m.options.Gate.Done(c.ticket, outcome, c.m.options.Now())
}

// outcomeOf says how a request ended whose handler returned: status is 0 when it
// wrote nothing, which is 200, and err that of the request's context.
func outcomeOf(status int, err error) overload.Outcome {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return overload.Overloaded
	case err != nil: // the client has gone
		return overload.Ignored
	case status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return overload.Overloaded
	case status == http.StatusTooManyRequests, status >= 500:
		return overload.Ignored
	}
	return overload.Served
}
