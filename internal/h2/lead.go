package h2

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Call is one call of a fast method: its message, and the answer that Unary.Serve gives.
type Call struct {
	// Header is the fields of the call but for the pseudo-fields.
	Header Header
	// Message is the encoded request, without what gRPC puts before it. It is only there
	// until the call is answered, as Header is.
	Message []byte
	// Deadline is when the client stops waiting; the zero value for never.
	Deadline time.Time
	// Reply is the encoded answer: Serve appends to Reply[:0].
	Reply []byte
	// Code is the gRPC status code; anything but 0 is answered without Reply. Status is
	// the message that goes with it, of which at most 1,024 bytes are sent.
	Code   uint32
	Status string
	// Done lets Batch.Flush send the answer.
	Done bool

	stream   *stream
	answered bool
}

// Batch is the calls that one read of a connection has brought. Serve answers all of them.
type Batch struct {
	// Calls are in the order in which they came, and all of one method.
	Calls []Call
	// Context ends when the connection does. It has no deadline: each call has its own.
	Context context.Context

	conn   *conn
	unary  Unary
	passed atomic.Bool
	now    time.Time
}

// Blocking lets another goroutine read the connection. Who serves the batch calls it just
// before the first step that waits for another machine, such as a store; calls after the
// first one do nothing. It is safe for concurrent use while Serve runs.
func (b *Batch) Blocking() {
	if b.passed.Swap(true) {
		return
	}
	c := b.conn
	c.mu.Lock()
	if c.airborne++; c.airborne >= maxAir {
		c.unled = true
	} else {
		c.passOn()
	}
	c.mu.Unlock()
	c.flush(b.now) // what else has come is answered now
}

// passOn gives the right to read to a goroutine that waits for it, or to a new one.
func (c *conn) passOn() {
	switch {
	case c.closed:
	case c.parked > 0:
		c.parked--
		c.baton <- struct{}{}
	default:
		c.running++
		go c.lead(new(Batch))
	}
}

// Flush sends the answers of those calls that are Done.
func (b *Batch) Flush() {
	c := b.conn
	c.mu.Lock()
	for i := range b.Calls {
		if one := &b.Calls[i]; one.Done {
			c.answer(one)
		}
	}
	c.mu.Unlock()
	c.flush(time.Now())
}

// lead reads the connection, and answers what has come, until somebody else does or the
// connection ends. b is used for one read after the other.
func (c *conn) lead(b *Batch) {
	defer c.leave()
	for c.fill(b) {
		if c.takeIn(b); len(b.Calls) == 0 {
			c.flush(b.now)
			continue
		}
		c.serve(b)
		if b.passed.Load() && !c.resume() {
			return
		}
	}
	c.close()
}

// takeIn handles the frames that have come until all are done, or b is full.
func (c *conn) takeIn(b *Batch) {
	b.conn, b.Context = c, c.ctx
	b.Calls = b.Calls[:0]
	b.unary = nil
	b.passed.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b.Calls) < maxBatch && !c.failed && !c.closed {
		f, length := nextFrame(c.in[c.start:c.end])
		if length == 0 {
			break
		}
		if len(f.payload) == 0 && length > frameHeaderSize {
			c.fail(frameSizeError, Malformed, "a frame is longer than 16384 bytes")
			break
		}
		if !c.handle(b, &f) {
			break // of another method: it begins the next batch
		}
		c.start += length
	}
	c.watchMessages(b.now)
	if c.failed {
		c.dropped += c.end - c.start
		c.start, c.end = 0, 0
		c.broken = c.broken || c.dropped > maxDropped
	}
}

// serve has b answered and sends the answers.
func (c *conn) serve(b *Batch) {
	c.server.count(Calls, len(b.Calls))
	c.server.count(Batches, 1)
	c.call(b)
	c.mu.Lock()
	for i := range b.Calls {
		c.answer(&b.Calls[i])
	}
	if b.passed.Load() {
		c.airborne--
	}
	c.mu.Unlock()
	now := b.now
	if b.passed.Load() {
		now = time.Now()
	}
	c.flush(now)
}

// call calls Serve. Calls of a batch that panics are answered by INTERNAL, unless they
// were answered before.
func (c *conn) call(b *Batch) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		c.server.panicked(cause, debug.Stack())
		for i := range b.Calls {
			b.Calls[i].Code, b.Calls[i].Status = codeInternal, "the server panicked"
		}
	}()
	b.unary.Serve(b)
}

// Status codes of gRPC that the transport itself answers by: the call has come to its own
// timeout, the server has a fault, or it cannot take the call now and another one may.
const (
	codeDeadlineExceeded = 4
	codeInternal         = 13
	codeUnavailable      = 14
)

// resume makes the goroutine of a batch that waited the leader again if there is none;
// else it waits for its turn, unless another one does already. It reports false when the
// goroutine is not needed any more.
func (c *conn) resume() bool {
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return false
	case c.unled:
		c.unled = false
		c.mu.Unlock()
		return true
	case c.parked > 0:
		c.mu.Unlock()
		return false
	}
	c.parked++
	c.mu.Unlock()
	_, open := <-c.baton
	return open
}

// minRead is the room for a first read, and growRead what it grows by when a read fills it.
const (
	minRead  = 4 << 10
	growRead = 4
)

// fill reads what there is, unless a whole frame is left. It reports false when the
// connection is over.
func (c *conn) fill(b *Batch) bool {
	b.now = time.Now()
	if c.start > 0 {
		c.end = copy(c.in, c.in[c.start:c.end])
		c.start = 0
	}
	if c.begun {
		if _, length := nextFrame(c.in[:c.end]); length > 0 {
			return !c.isClosed()
		}
	}
	for {
		if !c.await(b.now) {
			return false
		}
		n, err := c.nc.Read(c.in[c.end:])
		b.now = time.Now()
		c.noteRead(n, b.now)
		c.grow(n)
		if n > 0 {
			c.heard(b.now)
			if !c.begin() {
				return false
			}
			if c.begun {
				return true
			}
		}
		if err != nil && !isTimeout(err) || err != nil && !c.overdue(b.now) {
			return false
		}
		if err != nil {
			c.flush(b.now)
		}
	}
}

// noteRead notes since when what was read may have waited in the socket: nobody reads while
// too many batches wait for a store.
func (c *conn) noteRead(n int, now time.Time) {
	if c.arrived = c.emptied; c.end+n < len(c.in) {
		c.emptied = now
	}
}

// grow notes that n more bytes were read, and makes more room when there is none.
func (c *conn) grow(n int) {
	c.end += n
	if most := maxRead + frameHeaderSize + maxFrame; c.end == len(c.in) && c.end < most {
		in := make([]byte, min(growRead*len(c.in), most))
		copy(in, c.in[:c.end])
		c.in = in
	}
}

func isTimeout(err error) bool {
	if err == nil {
		return false
	}
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// begin takes the preface off what was read. It reports false for a client that does not
// speak HTTP/2.
func (c *conn) begin() bool {
	if c.begun {
		return true
	}
	n := min(c.end, len(preface))
	if string(c.in[:n]) != preface[:n] {
		c.server.count(NoPreface, 1)
		return false
	}
	if n == len(preface) {
		c.begun = true
		c.end = copy(c.in, c.in[n:c.end])
	}
	return true
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
