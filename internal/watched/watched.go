// Package watched puts a watcher over an http.ResponseWriter: it sees when the
// answer begins, with which status, and when a handler takes the connection over.
// What the server's own ResponseWriter can do beyond the three methods (flush,
// hijack, push, copy by sendfile) it still can, because many libraries ask for that
// directly and not by an http.ResponseController.
package watched

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Watcher is what *W does to be told of an answer. W is kept inside of the
// ResponseWriter, so that watching one request takes one allocation.
type Watcher[W any] interface {
	*W
	// Begin is called with each status that may be the answer's, and the header,
	// right before they leave; only the first call is about this answer. It may
	// change the header. Informational answers are not told of, but for 101, which
	// ends HTTP.
	Begin(status int, h http.Header)
	// Hijacked is called when the handler has taken the connection over.
	Hijacked()
}

// Writer returns a ResponseWriter over w that tells watcher, and where watcher is
// kept.
func Writer[W any, P Watcher[W]](w http.ResponseWriter, watcher W) (http.ResponseWriter, P) {
	plain := writer[W, P]{w, watcher}
	flusher, canFlush := w.(http.Flusher)
	flushing := flushWriter[W, P]{plain, flusher}
	hijacker, canHijack := w.(http.Hijacker)
	readerFrom, canReadFrom := w.(io.ReaderFrom)
	pusher, canPush := w.(http.Pusher)
	switch {
	case !canFlush:
		c := new(writer[W, P])
		*c = plain
		return c, &c.watcher
	case canHijack && canReadFrom:
		c := &http1Writer[W, P]{hijackWriter[W, P]{flushing, hijacker}, readerFrom}
		return c, &c.watcher
	case canHijack:
		c := &hijackWriter[W, P]{flushing, hijacker}
		return c, &c.watcher
	case canPush:
		c := &http2Writer[W, P]{flushing, pusher}
		return c, &c.watcher
	}
	c := new(flushWriter[W, P])
	*c = flushing
	return c, &c.watcher
}

type writer[W any, P Watcher[W]] struct {
	inner   http.ResponseWriter
	watcher W
}

func (c *writer[W, P]) begin(status int) { P(&c.watcher).Begin(status, c.inner.Header()) }

// Unwrap lets an http.ResponseController find what the inner one can do.
func (c *writer[W, P]) Unwrap() http.ResponseWriter { return c.inner }

// Watcher returns the watcher, for those who find it on their way through Unwrap.
func (c *writer[W, P]) Watcher() any { return P(&c.watcher) }

// Header implements http.ResponseWriter.
func (c *writer[W, P]) Header() http.Header { return c.inner.Header() }

// WriteHeader implements http.ResponseWriter.
func (c *writer[W, P]) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		c.begin(status)
	}
	c.inner.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *writer[W, P]) Write(p []byte) (int, error) {
	c.begin(http.StatusOK)
	return c.inner.Write(p)
}

// WriteString implements io.StringWriter.
func (c *writer[W, P]) WriteString(s string) (int, error) {
	c.begin(http.StatusOK)
	return io.WriteString(c.inner, s)
}

type flushWriter[W any, P Watcher[W]] struct {
	writer[W, P]
	flusher http.Flusher
}

// Flush implements http.Flusher.
func (c *flushWriter[W, P]) Flush() {
	c.begin(http.StatusOK)
	c.flusher.Flush()
}

// FlushError is what an http.ResponseController asks for first.
func (c *flushWriter[W, P]) FlushError() error {
	c.begin(http.StatusOK)
	return http.NewResponseController(c.inner).Flush()
}

type hijackWriter[W any, P Watcher[W]] struct {
	flushWriter[W, P]
	hijacker http.Hijacker
}

// Hijack implements http.Hijacker.
func (c *hijackWriter[W, P]) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := c.hijacker.Hijack()
	if err == nil {
		P(&c.watcher).Hijacked()
	}
	return conn, rw, err
}

// http1Writer has what the ResponseWriter of HTTP/1 has.
type http1Writer[W any, P Watcher[W]] struct {
	hijackWriter[W, P]
	readerFrom io.ReaderFrom
}

// ReadFrom implements io.ReaderFrom: io.Copy to the client by sendfile.
func (c *http1Writer[W, P]) ReadFrom(src io.Reader) (int64, error) {
	c.begin(http.StatusOK)
	return c.readerFrom.ReadFrom(src)
}

// http2Writer has what the ResponseWriter of HTTP/2 has.
type http2Writer[W any, P Watcher[W]] struct {
	flushWriter[W, P]
	pusher http.Pusher
}

// Push implements http.Pusher.
func (c *http2Writer[W, P]) Push(target string, o *http.PushOptions) error {
	return c.pusher.Push(target, o)
}
