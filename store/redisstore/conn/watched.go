package conn

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// readLately is for how long after something was read it may still be on its way to
// whoever waits for it.
const readLately = time.Millisecond

// watchedConn tells the session when the connection is closed, which the pipe does on
// every error, and knows whether the server has said something that nobody has heard yet.
type watchedConn struct {
	net.Conn
	raw    syscall.RawConn // nil where there is none
	closed func()
	epoch  time.Time
	// waiting is whether the reader waits for bytes, read when it was given some last,
	// in nanoseconds since epoch.
	waiting atomic.Bool
	read    atomic.Int64
}

// watchConn returns conn, watched.
func watchConn(conn net.Conn, closed func()) *watchedConn {
	c := &watchedConn{Conn: conn, closed: closed, epoch: time.Now()}
	below := conn
	if secure, ok := below.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	if system, ok := below.(syscall.Conn); ok {
		c.raw, _ = system.SyscallConn() // without it nothing is known to be unread
	}
	return c
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	c.waiting.Store(true)
	n, err := c.Conn.Read(p)
	c.read.Store(int64(time.Since(c.epoch)))
	c.waiting.Store(false)
	return n, err
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// answering reports whether at now there are bytes of the server that have not been
// read, or that were read and may not have got to those who wait for them. It asks the
// operating system, so it is for when an answer is overdue.
func (c *watchedConn) answering(now time.Time) bool {
	if !c.waiting.Load() || now.Sub(c.epoch)-time.Duration(c.read.Load()) < readLately {
		return true
	}
	return c.raw != nil && hasUnread(c.raw)
}
