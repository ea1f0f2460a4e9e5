package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/headgate/headgate/internal/httpanswer"
)

// recorder is a ResponseWriter that sees the status of the answer, and puts
// fields over those of the handler right before they leave.
type recorder struct {
	inner  http.ResponseWriter
	status int // 0: not answered yet
	fields []httpanswer.Field
}

// Unwrap lets an http.ResponseController find what inner can do.
func (c *recorder) Unwrap() http.ResponseWriter { return c.inner }

// Header implements http.ResponseWriter.
func (c *recorder) Header() http.Header { return c.inner.Header() }

// WriteHeader implements http.ResponseWriter. Informational answers come before
// the one that counts, but for 101, which ends HTTP.
func (c *recorder) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		c.begin(status)
	}
	c.inner.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *recorder) Write(p []byte) (int, error) {
	c.begin(http.StatusOK)
	return c.inner.Write(p)
}

// begin notes the status of the first header that is written.
func (c *recorder) begin(status int) {
	if c.status != 0 {
		return
	}
	c.status = status
	if len(c.fields) > 0 {
		replaceFields(c.inner.Header(), c.fields)
	}
}

// beforeEnd is begin for a handler that wrote nothing: the server answers 200.
func (c *recorder) beforeEnd() { c.begin(http.StatusOK) }

// final is the status of the answer. A server ends one that panicked without
// any: 500 comes closest.
func (c *recorder) final(returned bool) int {
	switch {
	case c.status != 0:
		return c.status
	case returned:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// widened returns c with the methods that a server's ResponseWriter has beyond
// the three, since many libraries ask for them directly and not by an
// http.ResponseController.
func (c *recorder) widened() http.ResponseWriter {
	flusher, canFlush := c.inner.(http.Flusher)
	if !canFlush {
		return c
	}
	f := flushing{c, flusher}
	hijacker, canHijack := c.inner.(http.Hijacker)
	readerFrom, canReadFrom := c.inner.(io.ReaderFrom)
	if canHijack && canReadFrom {
		return &http1Recorder{f, hijacker, readerFrom}
	}
	if canHijack {
		return &hijackRecorder{f, hijacker}
	}
	if pusher, ok := c.inner.(http.Pusher); ok {
		return &http2Recorder{f, pusher}
	}
	return &f
}

type flushing struct {
	*recorder
	flusher http.Flusher
}

// Flush implements http.Flusher.
func (f *flushing) Flush() {
	f.begin(http.StatusOK)
	f.flusher.Flush()
}

// FlushError is what an http.ResponseController asks for first.
func (f *flushing) FlushError() error {
	f.begin(http.StatusOK)
	return http.NewResponseController(f.inner).Flush()
}

type hijackRecorder struct {
	flushing
	hijacker http.Hijacker
}

// Hijack implements http.Hijacker.
func (h *hijackRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.hijack(h.hijacker)
}

// http1Recorder has what the ResponseWriter of HTTP/1 has.
type http1Recorder struct {
	flushing
	hijacker   http.Hijacker
	readerFrom io.ReaderFrom
}

// Hijack implements http.Hijacker.
func (h *http1Recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.hijack(h.hijacker)
}

func (c *recorder) hijack(h http.Hijacker) (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.Hijack()
	if err == nil && c.status == 0 {
		c.status = http.StatusSwitchingProtocols
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
	return io.WriteString(h.inner, s)
}

// http2Recorder has what the ResponseWriter of HTTP/2 has.
type http2Recorder struct {
	flushing
	pusher http.Pusher
}

// Push implements http.Pusher.
func (h *http2Recorder) Push(target string, o *http.PushOptions) error {
	return h.pusher.Push(target, o)
}

var (
	_ http.Flusher  = (*http1Recorder)(nil)
	_ http.Hijacker = (*http1Recorder)(nil)
	_ io.ReaderFrom = (*http1Recorder)(nil)
	_ http.Pusher   = (*http2Recorder)(nil)
)
