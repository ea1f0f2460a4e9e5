package h2

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

// conn is one connection. One goroutine at a time, the leader, reads it; see lead.go. The
// fields of reading are the leader's. All others are guarded by mu, which nobody holds while
// a batch is served, or while bytes are read or written.
type conn struct {
	server *Server
	nc     net.Conn
	ctx    context.Context
	cancel context.CancelFunc

	reading
	mu sync.Mutex
	sending
	// streams are those that are open, and those that were reset while their work is
	// not done. spare are some that have ended.
	streams map[uint32]*stream
	spare   []*stream
	slow    int    // how many of streams are slow
	last    uint32 // the highest stream that was opened
	seen    uint32 // the highest one whose HEADERS came, answered or not
	opened  int    // how many
	early   int    // how many of them were reset early
	ended   ring
	// allowance is how many frames that ask for nothing may come; it grows with calls
	// and seconds, counted since refilled.
	allowance int
	refilled  time.Time
	// received is what may still be received on the connection, and unacked what was
	// taken in since the client was last told so.
	received, unacked int
	keeping
	bodies    bodies
	expecting expecting
	// running are the goroutines of the connection. parked of them wait for the right
	// to read, which they get by baton. airborne are batches that wait for a store, and
	// unled says that so many do that nobody reads.
	running, parked, airborne int
	unled                     bool
	baton                     chan struct{}
	// failed says that a GOAWAY for an error was sent, and that all that comes is
	// dropped; closed that the connection is gone.
	failed, closed bool
}

// reading is what the leader has read and not taken in.
type reading struct {
	in         []byte
	start, end int // what is unread of in
	begun      bool
	decoder    *hpack.Decoder
	memo       memo
	// decoding is the block that decoder emits into. Of one that has not ended,
	// fragment is what has come, on blockStream, in so many continuations.
	decoding      *block
	fragment      []byte
	blockStream   uint32
	blockFlags    uint8
	continuations int
	longLists     int
	dropped       int // bytes that came after the connection has failed
	// deadline is the read deadline that is set.
	deadline time.Time
	// emptied is when a read last left nothing in the socket. What the last read brought has
	// come after arrived.
	emptied, arrived time.Time
}

// stream is one stream, which is a call.
type stream struct {
	id    uint32
	block *block
	// ended says that the client has sent all of it, and reset that nobody wants an
	// answer; serving that the work is under way.
	ended, reset, serving bool
	// expected says that it is a fast call whose message has not come whole.
	expected bool
	// body is that of a fast call, got how long any body is so far, and declared what
	// content-length says, -1 for nothing.
	body          []byte
	got, declared int64
	// window is what may still be received, and uncredited what was received and is
	// not taken in. delta is what may be sent less the initial window of the client.
	window, uncredited int
	delta              int
	deadline           time.Time
	// givenUp is from when on the client may have given up, zero for never. It is before
	// deadline by the time that the call may have waited in the socket.
	givenUp time.Time
	// held is an answer that waits for a window; the end follows it.
	held   []byte
	isHeld bool
	slow   *slowStream
}

// newStream returns a stream that is opened by a HEADERS frame.
func (c *conn) newStream(id uint32, b *block) *stream {
	var s *stream
	if n := len(c.spare); n > 0 {
		s, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		s = new(stream)
	}
	*s = stream{id: id, block: b, body: s.body[:0], held: s.held[:0], window: streamWindow, declared: noLength}
	c.streams[id] = s
	return s
}

// maxSpare bounds the streams that a connection keeps for others, and maxSpareBody the
// memory of one of them.
const (
	maxSpare     = maxBatch
	maxSpareBody = 4 << 10
)

// release ends a stream of which nothing is left to do, and gives back what it has
// received.
func (c *conn) release(s *stream) {
	delete(c.streams, s.id)
	c.ended.add(s.id, s.reset || !s.ended)
	c.expectNoMore(s)
	c.dropBody(len(s.body))
	c.credit(s.uncredited)
	s.uncredited = 0
	if s.slow != nil {
		c.slow--
		s.slow = nil
	}
	c.recycle(s.block)
	if cap(s.body) <= maxSpareBody && cap(s.held) <= maxSpareBody && len(c.spare) < maxSpare {
		s.block = nil
		c.spare = append(c.spare, s)
	}
	c.finishDraining()
}

// recycle takes back a block that nobody looks at any more.
func (c *conn) recycle(b *block) {
	if b != nil && !b.kept && c.decoding == nil {
		c.decoding = b
	}
}

// credit notes that n bytes were taken in, whatever stream they came on, and tells the
// client now and then. All that is received is credited here, once.
func (c *conn) credit(n int) {
	if c.unacked += n; c.unacked >= connWindow/4 {
		c.out = appendWindowUpdate(c.out, 0, c.unacked)
		c.received += c.unacked
		c.unacked = 0
	}
}

// earn notes that a call is done, or that a piece of a slow answer was sent.
func (c *conn) earn() { c.allowance = min(c.allowance+perCall, maxAllowance) }

// spend takes a frame that asks for nothing off the allowance; each second gives one more.
// It reports false when there were too many.
func (c *conn) spend(now time.Time) bool {
	if c.allowance > 0 {
		c.allowance--
		return true
	}
	seconds := int(now.Sub(c.refilled) / time.Second)
	if seconds <= 0 {
		return false
	}
	c.refilled = now
	c.allowance = min(seconds, allowance) - 1
	return true
}

// resetEarly notes that a stream was reset before it was answered, and reports false when
// that has happened to too many of those opened.
func (c *conn) resetEarly() bool {
	c.early++
	return c.early <= earlyResets || 2*c.early <= c.opened
}

// ring remembers which streams have ended last.
type ring struct {
	ids  [closedRing]uint32
	next int
}

const resetBit = 1 << 31

// add remembers a stream; reset says that one side reset it.
func (r *ring) add(id uint32, reset bool) {
	if reset {
		id |= resetBit
	}
	r.ids[r.next] = id
	r.next = (r.next + 1) % closedRing
}

// find reports whether a stream ended lately, and whether it was reset.
func (r *ring) find(id uint32) (known, reset bool) {
	for _, one := range r.ids {
		if one&^resetBit == id {
			return true, one&resetBit != 0
		}
	}
	return false, false
}

// fail ends the connection with a GOAWAY that says why. What comes after that is dropped
// for a moment, so that the client gets to read it.
func (c *conn) fail(why code, e Event, text string) {
	if c.failed || c.closed {
		return
	}
	c.failed = true
	c.server.count(e, 1)
	c.out = appendGoAway(c.out, c.last, why, text)
	c.linger()
}

// resetStream ends a stream that the client got wrong. Its place is free when its work is
// done.
func (c *conn) resetStream(id uint32, why code) {
	e := StreamError
	if why == refusedStream {
		e = Refused
	}
	c.resetFor(id, why, e)
}

// resetFor is resetStream, counted as e.
func (c *conn) resetFor(id uint32, why code, e Event) {
	c.server.count(e, 1)
	c.out = appendReset(c.out, id, why)
	if !c.resetEarly() {
		c.fail(enhanceYourCalm, ResetTooMuch, "too many streams are reset early")
	}
	if s := c.streams[id]; s != nil {
		c.drop(s)
	} else {
		c.ended.add(id, true)
	}
}

// turnAway answers a call by a status of gRPC before it has come whole. The client need not
// send the rest, and is not charged for what it has sent.
func (c *conn) turnAway(s *stream, code uint32, text string) {
	c.out = c.appendStatus(c.out, s.id, code, text)
	c.out = appendReset(c.out, s.id, noError)
	s.reset = true
	c.earn()
	c.release(s)
}

// drop notes that nobody wants the answer of a stream, and releases it unless work of it
// is under way.
func (c *conn) drop(s *stream) {
	s.reset = true
	c.unhold(s)
	if s.slow != nil {
		s.slow.abort()
		return // its handler releases it
	}
	if !s.serving {
		c.release(s)
	}
}

// close ends the connection at once.
func (c *conn) close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	close(c.baton)
	c.room.Broadcast()
	c.stopTimers()
	for _, s := range c.streams {
		if s.slow != nil {
			s.slow.abort()
		}
	}
	c.mu.Unlock()
	c.cancel()
	c.nc.Close()
}

// leave notes that a goroutine of the connection ends. The last one takes it off the list.
func (c *conn) leave() {
	c.mu.Lock()
	c.running--
	gone := c.running == 0 && c.closed
	if gone {
		c.endBodies()
	}
	c.mu.Unlock()
	if gone {
		c.server.forget(c)
	}
}
