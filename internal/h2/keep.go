package h2

import "time"

// keeping is how long a connection is kept, and how it is ended.
type keeping struct {
	// settled says that the client has sent its SETTINGS, and acknowledged that it has
	// taken over those of the server; both have to happen soon after began.
	settled, acknowledged bool
	began                 time.Time
	blockBegan            time.Time // of the block that has not ended
	selfish               uint32    // a stream that depends on itself
	heardAt               time.Time
	pingAt                time.Time // when a PING was sent that is not answered; zero for none
	// leaving says that the client opens no more streams, draining that it was asked to,
	// and final that those above last are not answered.
	leaving, draining, final bool
	// lingering says that all is done, and what comes is dropped for a moment.
	lingering bool
	timers    [timers]*time.Timer
}

// Timers of a connection.
const (
	ageTimer     = iota // ends it gently
	drainTimer          // ends the wait for the answer to the PING of a drain
	graceTimer          // cuts it off
	stallTimer          // cuts off a client that gives no window
	messageTimer        // ends calls whose message does not come
	timers
)

// Payloads of PING frames.
const (
	pingAlive uint64 = 0x6865616467617465 // "headgate"
	pingDrain uint64 = 0x647261696e696e67 // "draining"
)

// drainWait is how long streams may come that were opened before the client knew of the
// end, and lingerTime how long a client has to read the last words.
const (
	drainWait  = time.Second
	lingerTime = time.Second
)

// schedule sets a timer in place of the one before.
func (c *conn) schedule(which int, after time.Duration, do func()) {
	if t := c.timers[which]; t != nil {
		t.Stop()
	}
	c.timers[which] = time.AfterFunc(after, do)
}

func (c *conn) stopTimers() {
	for i, t := range c.timers {
		if t != nil {
			t.Stop()
			c.timers[i] = nil
		}
	}
}

// heard notes that something came.
func (c *conn) heard(now time.Time) {
	c.mu.Lock()
	c.heardAt, c.pingAt = now, time.Time{}
	c.mu.Unlock()
}

// await sets the read deadline for the next thing that may be overdue. It reports false
// when the connection is over.
func (c *conn) await(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mayRead() {
		return false
	}
	if c.lingering {
		return true // linger has set it
	}
	limits := &c.server.Limits
	next := c.heardAt.Add(limits.IdleTimeout)
	if !c.pingAt.IsZero() {
		next = c.pingAt.Add(limits.PingTimeout)
	}
	if !c.settled || !c.acknowledged {
		next = earlier(next, c.began.Add(limits.HandshakeTimeout))
	}
	if c.blockStream != 0 {
		next = earlier(next, c.blockBegan.Add(limits.HeaderTimeout))
	}
	// A deadline that is too early only wakes the reader, who then sets the next one.
	if c.deadline.After(next) || c.deadline.Sub(now) < limits.IdleTimeout/4 {
		c.deadline = next
		return c.nc.SetReadDeadline(next) == nil
	}
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// overdue does what is due when nothing was read in time. It reports false when the
// connection is over.
func (c *conn) overdue(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	limits := &c.server.Limits
	c.deadline = time.Time{}
	switch {
	case c.lingering || c.broken || c.closed:
		return false
	case !c.settled && passed(now, c.began, limits.HandshakeTimeout):
		c.server.count(TooSlow, 1)
		return false
	case !c.acknowledged && passed(now, c.began, limits.HandshakeTimeout):
		c.fail(settingsTimeout, TooSlow, "SETTINGS are not acknowledged")
	case c.blockStream != 0 && passed(now, c.blockBegan, limits.HeaderTimeout):
		c.fail(enhanceYourCalm, TooSlow, "a block of header fields does not end")
	case !c.pingAt.IsZero():
		if passed(now, c.pingAt, limits.PingTimeout) {
			c.server.count(Silent, 1)
			return false
		}
	case passed(now, c.heardAt, limits.IdleTimeout):
		c.pingAt = now
		c.out = appendPing(c.out, 0, pingAlive)
	}
	return true
}

func passed(now, since time.Time, limit time.Duration) bool { return now.Sub(since) >= limit }

// stalled notes that answers wait for a window, and from now on; or that none do.
func (c *conn) stalled(yes bool) {
	if !yes {
		if t := c.timers[stallTimer]; t != nil {
			t.Stop()
		}
		return
	}
	c.schedule(stallTimer, c.server.Limits.WriteTimeout, func() {
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.mu.Unlock()
			return
		}
		c.fail(enhanceYourCalm, TooSlow, "there is no window for answers")
		c.mu.Unlock()
		c.flush(time.Now())
	})
}

// drain ends the connection gently: the client is told to open no more streams, and those
// that it has opened meanwhile are answered.
func (c *conn) drain() {
	c.mu.Lock()
	if c.draining || c.failed || c.closed {
		c.mu.Unlock()
		return
	}
	c.draining = true
	c.out = appendGoAway(c.out, maxWindow, noError, "")
	c.out = appendPing(c.out, 0, pingDrain)
	c.schedule(drainTimer, drainWait, c.drainOnTime)
	c.schedule(graceTimer, c.server.Limits.Grace, c.close)
	c.mu.Unlock()
	c.flush(time.Now())
}

func (c *conn) drainOnTime() {
	c.mu.Lock()
	c.finalGoAway()
	c.mu.Unlock()
	c.flush(time.Now())
}

// finalGoAway says which stream is the last that is answered.
func (c *conn) finalGoAway() {
	if !c.draining || c.final || c.failed || c.closed {
		return
	}
	c.final = true
	c.out = appendGoAway(c.out, c.last, noError, "")
	c.finishDraining()
}

// finishDraining ends the connection when it is to end and nothing is left to do.
func (c *conn) finishDraining() {
	if (c.final || c.leaving) && len(c.streams) == 0 && !c.failed && !c.closed {
		c.linger()
	}
}

// linger lets the client read the last words before the connection is closed: a socket that
// is closed while something unread has come would take them back.
func (c *conn) linger() {
	if c.lingering {
		return
	}
	c.lingering = true
	c.nc.SetReadDeadline(time.Now().Add(lingerTime))
}
