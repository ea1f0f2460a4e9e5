package h2

import "time"

// expecting is what a connection knows of fast calls whose message has not come whole.
type expecting struct {
	calls int // how many
	// soonest is the first deadline of the calls that the read under way has begun, whether
	// their message came with them or not. Zero stands for none.
	soonest time.Time
	// by is the deadline for which messageTimer is set; zero for none.
	by time.Time
}

// expect notes that the message of a call has yet to come.
func (c *conn) expect(s *stream) {
	s.expected = true
	c.expecting.calls++
	if !s.deadline.IsZero() && (c.expecting.soonest.IsZero() || s.deadline.Before(c.expecting.soonest)) {
		c.expecting.soonest = s.deadline
	}
}

// expectNoMore notes that the message of a call has come, or does not matter any more.
func (c *conn) expectNoMore(s *stream) {
	if s.expected {
		s.expected = false
		c.expecting.calls--
	}
}

// watchMessages sees to it, after a read, that calls end by their timeout. Where each message
// came in the same read as its header, which is usual, nothing is left to watch.
func (c *conn) watchMessages(now time.Time) {
	soonest := c.expecting.soonest
	if soonest.IsZero() {
		return
	}
	c.expecting.soonest = time.Time{}
	if c.expecting.calls > 0 && (c.expecting.by.IsZero() || soonest.Before(c.expecting.by)) {
		c.endMessagesAt(soonest, now)
	}
}

// endMessagesAt sets the timer for the next call that may be overdue.
func (c *conn) endMessagesAt(deadline, now time.Time) {
	if c.failed || c.closed {
		return
	}
	c.expecting.by = deadline
	c.schedule(messageTimer, max(deadline.Sub(now), messageStep), func() { c.endMessages(time.Now()) })
}

// endMessages answers the calls whose message has not come by their own timeout.
func (c *conn) endMessages(now time.Time) {
	c.mu.Lock()
	c.expecting.by = time.Time{}
	var next time.Time
	for _, s := range c.streams {
		switch {
		case c.failed || c.closed || !s.expected || s.deadline.IsZero():
		case !now.Before(s.deadline):
			c.server.count(NoMessage, 1)
			c.turnAway(s, codeDeadlineExceeded, "the message of the call did not come in time")
		case next.IsZero() || s.deadline.Before(next):
			next = s.deadline
		}
	}
	if !next.IsZero() {
		c.endMessagesAt(next, now)
	}
	c.mu.Unlock()
	c.flush(now)
}
