package h1

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/headgate/headgate/internal/halfclose"
)

// Memory of a connection.
const (
	// firstRead is room for what is read at once.
	firstRead = 4 << 10
	// maxKept is the most that is kept of one buffer from a request to the next, maxHeadKept of
	// the head that was read last.
	maxKept     = 4 << 10
	maxHeadKept = 2 << 10
	// maxWaiting and maxDelay are how long answers may be together, and how old the first of
	// them when another has been added, before they are sent, although more requests have come
	// with them. So an answer waits for one that takes its time, and no more.
	maxWaiting = 64 << 10
	maxDelay   = 200 * time.Microsecond
)

// The end of a connection that the server wants to end: what a client has sent meanwhile is read,
// because the end of a connection with unread bytes may reach it before the answer does.
const (
	lingerFor   = 500 * time.Millisecond
	lingerBytes = 256 << 10
)

// A deadline that is set already, and earlier than asked for by no more than a part of its time,
// stays: so it is not set anew for each request.
const slackPart = 64

// conn is a connection that brings plain requests. One goroutine has it.
type conn struct {
	net.Conn
	server *Server
	ctx    context.Context
	cancel context.CancelFunc // of ctx
	line   line
	remote string

	in      []byte // what was read; no longer than two heads
	from    int    // of in: what is before was served
	scanned int    // of what waits: lines of a head before that are whole
	blanks  int    // that may be skipped before the next head
	asked   bool   // something was served
	head    head
	fields  http.Header
	request http.Request
	body    body
	answer  writer
	out     []byte    // answers that are not sent yet
	begunAt time.Time // when the first of them was asked for
	date    dated
	inPart  bool      // a part of what waits is read, by a time that is set
	since   time.Time // when what waits began to come, or the connection did; zero where it is not known
	readBy  deadline
	writeBy deadline
	handed  bool // under the lock of the server
}

// writer is what a handler writes to.
type writer struct {
	answer
	conn *conn
}

// body is the body of a request. It is read as it is asked for, so that who is refused by the
// header is refused before the body has come.
type body struct {
	conn *conn
	left int   // bytes that were not read yet
	err  error // why no more can be read
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n := copy(p, b.next())
	b.skip(n)
	switch {
	case n > 0 || len(p) == 0:
		return n, nil
	case b.err != nil:
		return 0, b.err
	}
	return 0, io.EOF
}

// Close implements io.Closer.
func (*body) Close() error { return nil }

// next returns what comes next of the body, and waits for it; nothing at its end, or where b.err
// says that no more comes.
func (b *body) next() []byte {
	c := b.conn
	for b.left > 0 && len(c.waiting()) == 0 && b.err == nil {
		if !c.flush() {
			b.err = net.ErrClosed
		} else if b.err = c.readMore(c.server.http.ReadTimeout); b.err == io.EOF {
			b.err = io.ErrUnexpectedEOF
		}
	}
	return c.waiting()[:min(b.left, len(c.waiting()))]
}

func (b *body) skip(n int) {
	b.left -= n
	b.conn.from += n
}

// rest reads what the handler has left. It reports false where that does not come.
func (b *body) rest() bool {
	if b.err == io.ErrUnexpectedEOF {
		return true // the handler has seen it, and nobody sends more
	}
	for b.left > 0 && b.err == nil {
		b.skip(len(b.next()))
	}
	return b.left == 0
}

// SetReadDeadline is for a handler that gives the rest of the body a time of its own, by an
// http.ResponseController.
func (w *writer) SetReadDeadline(t time.Time) error {
	c := w.conn
	c.inPart, c.readBy.time = true, t
	return c.Conn.SetReadDeadline(t)
}

func newConn(s *Server, inner net.Conn) *conn {
	c := &conn{Conn: inner, server: s, fields: make(http.Header), answer: writer{answer: answer{header: make(http.Header)}}}
	c.body.conn, c.answer.conn = c, c
	return c
}

// waiting is what was read and not served.
func (c *conn) waiting() []byte { return c.in[c.from:] }

// serve serves requests until there is one that is not plain, or the end.
func (c *conn) serve() {
	defer c.server.end(c)
	if c.served() && c.handOver() {
		return
	}
	_ = c.Close()
	c.server.tell(c.Conn, http.StateClosed)
}

// served serves plain requests. It reports whether what comes then is for net/http.
func (c *conn) served() (rest bool) {
	c.ctx, c.cancel = context.WithCancel(c.context())
	defer c.cancel()
	defer func() {
		if cause := recover(); cause != nil {
			c.tellPanic(cause)
			c.flush() // what was answered before
			rest = false
		}
	}()
	c.remote = c.RemoteAddr().String()
	c.line.watch(c.Conn)
	if !c.await() {
		return false
	}
	c.server.tell(c.Conn, http.StateActive)
	for {
		switch c.find() {
		case other:
			return c.flush()
		case whole:
			if !c.serveOne() {
				return false
			}
		case part:
			if !c.flush() {
				return false
			}
			if len(c.waiting()) == 0 || c.little() {
				if !c.await() {
					return false
				}
				continue
			}
			switch err := c.readMore(c.headTime()); {
			case errors.Is(err, os.ErrDeadlineExceeded):
				return false // nobody may be waiting for an answer
			case err != nil:
				return true // net/http tells who hangs up in the middle
			}
		case late:
			c.refuse()
			return false
		}
	}
}

// headTime is how long a head may take to come.
func (c *conn) headTime() time.Duration {
	return cmp.Or(c.server.http.ReadHeaderTimeout, c.server.http.ReadTimeout)
}

// badRequest is what net/http answers to what is no request.
const badRequest = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"

// refuse answers what is no request, after what was answered before, and ends the connection.
func (c *conn) refuse() {
	c.out = append(c.out, badRequest...)
	if c.flush() {
		c.linger()
	}
}

// context is that of all requests.
func (c *conn) context() context.Context {
	h := c.server.http
	ctx := context.WithValue(context.Background(), http.ServerContextKey, h)
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, c.LocalAddr())
	if h.ConnContext != nil {
		ctx = h.ConnContext(ctx, c.Conn)
	}
	return ctx
}

// tellPanic tells the log of a panic of the handler, but for the one by which a handler hangs up.
func (c *conn) tellPanic(cause any) {
	if cause == http.ErrAbortHandler {
		return
	}
	const form = "http: panic serving %v: %v\n%s"
	if told := c.server.http.ErrorLog; told != nil {
		told.Printf(form, c.remote, cause, debug.Stack())
	} else {
		log.Printf(form, c.remote, cause, debug.Stack())
	}
}

// serveOne serves the plain request of which the head waits. It reports false when that was the
// last one.
func (c *conn) serveOne() bool {
	c.from += len(c.head.text)
	c.asked, c.scanned, c.inPart, c.blanks = true, 0, false, maxBlanks
	c.body.left, c.body.err = c.head.length, nil
	c.request = c.head.request
	c.request.Body = &c.body
	if len(c.out) == 0 {
		c.begunAt = time.Now()
	}
	if c.line.hungUp() {
		c.cancel()
	}
	c.server.http.Handler.ServeHTTP(&c.answer, &c.request)
	switch c.answer.WriteHeader(http.StatusOK); {
	case c.answer.last:
	case !c.body.rest():
		c.answer.end()
	case c.drained():
		c.answer.sayLast() // await ends it
	}
	c.inPart, c.since = false, time.Time{}
	now := time.Now()
	c.out = c.answer.appendTo(c.out, c.date.at(now))
	last := c.answer.last
	c.answer.reset()
	if last {
		if c.flush() {
			c.linger()
		}
		return false
	}
	return len(c.out) < maxWaiting && now.Sub(c.begunAt) < maxDelay || c.flush()
}

// drained reports whether the server is to end, and nothing else has come.
func (c *conn) drained() bool { return c.server.draining.Load() && len(c.waiting()) == 0 }

// await waits for the first bytes of a request. It reports false when there will be none.
func (c *conn) await() bool {
	c.giveBack()
	if !c.asked {
		c.allow(c.headTime())
	} else if c.readBy.renew(cmp.Or(c.server.http.IdleTimeout, c.server.http.ReadTimeout)) {
		_ = c.Conn.SetReadDeadline(c.readBy.time)
	}
	if c.server.draining.Load() {
		return false
	}
	return c.read() == nil
}

// giveBack gives back memory before a wait that may be long.
func (c *conn) giveBack() {
	if little := c.waiting(); len(little) == 0 {
		c.in, c.from = kept(c.in), 0
	} else if cap(c.in) > maxKept {
		c.in, c.from = bytes.Clone(little), 0
	}
	if len(c.head.text) > maxHeadKept {
		c.head = head{}
		clear(c.fields)
	}
}

// allow gives what waits so much time from when it began to come; that of the first request
// begins with the connection.
func (c *conn) allow(wait time.Duration) {
	if c.since.IsZero() {
		c.since = time.Now()
	}
	c.readBy.set(c.since, wait)
	_ = c.Conn.SetReadDeadline(c.readBy.time)
}

// readMore reads more of a request that has come in part, for as long as all of that may take.
func (c *conn) readMore(wait time.Duration) error {
	if !c.inPart {
		c.inPart = true
		c.allow(wait)
	}
	err := c.read()
	if c.server.draining.Load() && errors.Is(err, os.ErrDeadlineExceeded) && !c.readBy.over() {
		// It was woken, to see that it shall end: after this request.
		_ = c.Conn.SetReadDeadline(c.readBy.time)
		err = c.read()
	}
	return err
}

// read reads what there is, and waits for it.
func (c *conn) read() error {
	if free := cap(c.in) - len(c.in); free == 0 && c.from > 0 {
		c.in = c.in[:copy(c.in, c.waiting())]
		c.from = 0
	} else if free == 0 {
		c.in = append(make([]byte, 0, max(firstRead, 2*cap(c.in))), c.in...)
	}
	n, err := c.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	return err
}

// flush sends the answers that wait. It reports false when the connection is of no use.
func (c *conn) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	if c.writeBy.renew(c.server.http.WriteTimeout) {
		_ = c.SetWriteDeadline(c.writeBy.time)
	}
	_, err := c.Write(c.out)
	c.out = kept(c.out)
	return err == nil
}

// kept returns b without what is in it, and without its memory if that is much.
func kept(b []byte) []byte {
	if cap(b) > maxKept {
		return nil
	}
	return b[:0]
}

// linger ends a connection to a client that may still be sending.
func (c *conn) linger() {
	_ = halfclose.Write(c.Conn)
	_ = c.Conn.SetReadDeadline(time.Now().Add(lingerFor))
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
}

// handOver gives the connection, with what waits, to net/http. It reports false when nobody
// takes it.
func (c *conn) handOver() bool {
	c.server.mu.Lock()
	c.handed = true // so that nobody wakes it any more
	c.server.mu.Unlock()
	_ = c.SetDeadline(time.Time{})
	c.server.tell(c.Conn, http.StateHijacked)
	b := &begun{Conn: c.Conn, read: bytes.Clone(c.waiting())}
	if !c.since.IsZero() {
		b.late.Store(int64(time.Since(c.since)))
	}
	return c.server.rest.give(b)
}

// wake makes a connection that waits for a request see that it shall end. It is called with
// the lock of the server.
func (c *conn) wake() {
	if !c.handed {
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// deadline is one that is set on a connection.
type deadline struct{ time time.Time }

// set makes it end so long after from; 0 is never.
func (d *deadline) set(from time.Time, wait time.Duration) {
	d.time = time.Time{}
	if wait > 0 {
		d.time = from.Add(wait)
	}
}

// renew is set from now on, unless d is nearly that. It reports whether d has changed.
func (d *deadline) renew(wait time.Duration) bool {
	before := *d
	d.set(time.Now(), wait)
	if early := d.time.Sub(before.time); early == 0 || 0 < early && early < wait/slackPart {
		*d = before
		return false
	}
	return true
}

// over reports whether it has passed.
func (d *deadline) over() bool { return !d.time.IsZero() && !time.Now().Before(d.time) }
