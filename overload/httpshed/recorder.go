package httpshed

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/headgate/headgate/overload"
)

// recorder is a ResponseWriter that sees how the answer ends. A request has one
// of it, in one allocation with the methods around it.
type recorder struct {
	http.ResponseWriter
	m      *Middleware
	ticket overload.Ticket
	status int // 0: not answered yet
	// streams says that the answer is an upgrade or an event stream, which has
	// left the count.
	streams bool
}

// Unwrap lets an http.ResponseController find what the inner one can do.
func (c *recorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter. Informational answers come before
// the one that counts, but for 101, which ends HTTP.
func (c *recorder) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		c.begin(status)
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *recorder) Write(p []byte) (int, error) {
	c.begin(http.StatusOK)
	return c.ResponseWriter.Write(p)
}

// begin notes the status of the first header that is written.
func (c *recorder) begin(status int) {
	if c.status != 0 {
		return
	}
	c.status = status
	if status == http.StatusSwitchingProtocols || isEventStream(c.Header()) {
		c.stream()
	}
}

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

// record returns a recorder for w, and it with the methods that a server's
// ResponseWriter has beyond the three, since many libraries ask for them directly
// and not by an http.ResponseController.
func record(w http.ResponseWriter, m *Middleware, t overload.Ticket) (*recorder, http.ResponseWriter) {
	plain := recorder{ResponseWriter: w, m: m, ticket: t}
	flusher, canFlush := w.(http.Flusher)
	flushing := flushRecorder{plain, flusher}
	hijacker, canHijack := w.(http.Hijacker)
	readerFrom, canReadFrom := w.(io.ReaderFrom)
	pusher, canPush := w.(http.Pusher)
	switch {
	case !canFlush:
		c := new(recorder)
		*c = plain
		return c, c
	case canHijack && canReadFrom:
		c := &http1Recorder{flushing, hijacker, readerFrom}
		return &c.recorder, c
	case canHijack:
		c := &hijackRecorder{flushing, hijacker}
		return &c.recorder, c
	case canPush:
		c := &http2Recorder{flushing, pusher}
		return &c.recorder, c
	}
	c := new(flushRecorder)
	*c = flushing
	return &c.recorder, c
}

type flushRecorder struct {
	recorder
	flusher http.Flusher
}

// Flush implements http.Flusher.
func (f *flushRecorder) Flush() {
	f.begin(http.StatusOK)
	f.flusher.Flush()
}

// FlushError is what an http.ResponseController asks for first.
func (f *flushRecorder) FlushError() error {
	f.begin(http.StatusOK)
	return http.NewResponseController(f.ResponseWriter).Flush()
}

type hijackRecorder struct {
	flushRecorder
	hijacker http.Hijacker
}

// Hijack implements http.Hijacker.
func (h *hijackRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.hijack(h.hijacker)
}

// http1Recorder has what the ResponseWriter of HTTP/1 has.
type http1Recorder struct {
	flushRecorder
	hijacker   http.Hijacker
	readerFrom io.ReaderFrom
}

// Hijack implements http.Hijacker.
func (h *http1Recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.hijack(h.hijacker)
}

func (c *recorder) hijack(h http.Hijacker) (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.Hijack()
	if err == nil {
		c.stream()
	}
	return conn, rw, err
}

// ReadFrom implements io.ReaderFrom: io.Copy to the client by sendfile.
func (h *http1Recorder) ReadFrom(src io.Reader) (int64, error) {
	h.begin(http.StatusOK)
	return h.readerFrom.ReadFrom(src)
}

// WriteString implements io.StringWriter.
func (h *http1Recorder) WriteString(s string) (int, error) {
	h.begin(http.StatusOK)
	return io.WriteString(h.ResponseWriter, s)
}

// http2Recorder has what the ResponseWriter of HTTP/2 has.
type http2Recorder struct {
	flushRecorder
	pusher http.Pusher
}

// Push implements http.Pusher.
func (h *http2Recorder) Push(target string, o *http.PushOptions) error {
	return h.pusher.Push(target, o)
}

// WriteString implements io.StringWriter.
func (h *http2Recorder) WriteString(s string) (int, error) {
	h.begin(http.StatusOK)
	return io.WriteString(h.ResponseWriter, s)
}

var (
	_ http.Flusher  = (*http1Recorder)(nil)
	_ http.Hijacker = (*http1Recorder)(nil)
	_ io.ReaderFrom = (*http1Recorder)(nil)
	_ http.Pusher   = (*http2Recorder)(nil)
)
