package h2

import (
	"slices"
	"sync"
	"time"
)

// sending is what a connection has to send, and what the client lets it.
type sending struct {
	// out is what has to be sent, and idle the buffer that was sent last. writing says
	// that a goroutine writes: it takes along what others append meanwhile.
	out, idle []byte
	writing   bool
	room      *sync.Cond // out is shorter, or the connection has closed
	broken    bool       // nothing can be written any more
	// writeBy is the write deadline that is set.
	writeBy time.Time
	// window is what may be sent on the connection, and initial on a new stream. No
	// stream has a larger delta than widest.
	window, initial, widest int
	// waiting are the streams whose answers wait for a window, in their order, and held
	// is how many bytes those are.
	waiting []*stream
	held    int
	// noTable says that the client's table of header fields is not used, shrink that it
	// has to be told so, and taught that the fields of usual answers are in it.
	noTable, shrink, taught bool
}

// initialWindow is what a client that has said nothing takes on a stream and on the
// connection, and tableSize the size of its table of header fields (RFC 9113, 6.5.2).
const (
	initialWindow = 65535
	tableSize     = 4096
)

// setInitial takes over the initial window of the client. It changes that of all streams;
// false says that one of them would be too large.
func (c *conn) setInitial(n int) bool {
	if n+c.widest > maxWindow {
		for _, s := range c.streams {
			if n+s.delta > maxWindow {
				return false
			}
		}
	}
	c.initial = n
	return true
}

// widen adds to the window of a stream, and reports whether it is not too large then.
func (c *conn) widen(s *stream, n int) bool {
	if c.initial+s.delta+n > maxWindow {
		return false
	}
	s.delta += n
	c.widest = max(c.widest, s.delta)
	return true
}

// setTable takes over the size of the client's table. It is used only where it has its
// usual size or more, so that nothing ever leaves it.
func (c *conn) setTable(size uint32) {
	if size < tableSize && !c.noTable {
		c.noTable, c.shrink, c.taught = true, true, false
	}
}

// answer sends the answer of a call, unless that was done, or nobody wants it any more.
func (c *conn) answer(one *Call) {
	if one.answered {
		return
	}
	one.answered = true
	s := one.stream
	s.serving = false
	c.earn()
	if s.reset || c.closed {
		c.release(s)
		return
	}
	if one.Code != 0 {
		c.out = c.appendStatus(c.out, s.id, one.Code, one.Status)
		c.release(s)
		return
	}
	length := prefixSize + len(one.Reply)
	if len(c.waiting) > 0 || length > c.window || length > c.initial+s.delta || length > maxFrame || len(c.out) > midOut {
		c.hold(s, one.Reply)
		return
	}
	c.window -= length
	c.out = c.appendAnswer(c.out, s.id, one.Reply)
	c.release(s)
}

// hold keeps the answer of a stream until the client gives it a window, and what is to be sent
// before it is short enough.
func (c *conn) hold(s *stream, reply []byte) {
	c.out = c.appendHead(c.out, s.id)
	s.held = append(appendPrefix(s.held[:0], len(reply)), reply...)
	s.isHeld = true
	if !c.setHeld(c.held + len(s.held)) {
		c.endUnread()
	}
	c.waiting = append(c.waiting, s)
	if len(c.waiting) == 1 {
		c.stalled(true)
	}
	c.checkOut()
	c.pump()
}

// unhold forgets the answer of a stream that waits.
func (c *conn) unhold(s *stream) {
	if !s.isHeld {
		return
	}
	s.isHeld = false
	c.setHeld(c.held - len(s.held))
	s.held = s.held[:0]
	if i := slices.Index(c.waiting, s); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	if len(c.waiting) == 0 {
		c.stalled(false)
	}
}

// pump sends what windows let of answers that wait, and wakes slow streams that do. What is too
// much to be sent at once follows when the rest was written.
func (c *conn) pump() {
	sent := false
	for i := 0; i < len(c.waiting) && len(c.out) <= midOut; {
		s := c.waiting[i]
		n := min(len(s.held), c.window, c.initial+s.delta, maxFrame)
		if n > 0 {
			c.out = append(appendFrame(c.out, typeData, 0, s.id, n), s.held[:n]...)
			s.held = append(s.held[:0], s.held[n:]...)
			c.window -= n
			s.delta -= n
			c.setHeld(c.held - n)
			c.earn() // the client says by frames of its own that it has taken this in
			sent = true
		}
		switch {
		case len(s.held) == 0:
			c.unhold(s)
			c.out = c.appendEnd(c.out, s.id)
			c.release(s)
		case n <= 0:
			i++
		}
	}
	if sent && len(c.waiting) > 0 {
		c.stalled(true)
	}
	c.wakeSlow()
	c.checkOut()
}

// checkOut ends a connection for which too much waits to be sent.
func (c *conn) checkOut() {
	if len(c.out) > maxOut {
		c.endUnread()
	}
}

// endUnread ends a connection of which there is no room for more answers.
func (c *conn) endUnread() {
	c.fail(enhanceYourCalm, TooSlow, "too many answers are not read")
	c.broken = true
}

// flush writes what there is to send, unless another goroutine does so.
func (c *conn) flush(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		c.checkOut()
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.broken && !c.closed {
		out := c.out
		c.out, c.idle = c.idle[:0], nil
		c.mu.Unlock()
		err := c.write(out, now)
		c.mu.Lock()
		if cap(out) <= lowOut {
			c.idle = out[:0]
		}
		switch {
		case err != nil:
			c.broken = true
		case len(c.waiting) > 0 && !c.failed:
			c.pump()
		}
	}
	c.writing = false
	c.room.Broadcast()
	if c.broken && !c.closed {
		c.nc.SetReadDeadline(now) // the leader ends it
	}
}

// write writes a buffer. The deadline is renewed when half of it has passed.
func (c *conn) write(out []byte, now time.Time) error {
	timeout := c.server.Limits.WriteTimeout
	if c.writeBy.Sub(now) < timeout/2 {
		c.writeBy = now.Add(timeout)
		if err := c.nc.SetWriteDeadline(c.writeBy); err != nil {
			return err
		}
	}
	_, err := c.nc.Write(out)
	if isTimeout(err) {
		c.server.count(TooSlow, 1)
	}
	return err
}

// mayRead waits until what is to be sent is short enough for more to be read. It reports
// false when the connection is over.
func (c *conn) mayRead() bool {
	for len(c.out) > lowOut && c.writing && !c.closed && !c.broken {
		c.room.Wait()
	}
	return !c.closed && !c.broken
}
