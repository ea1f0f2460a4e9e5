package h1

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/inlet"
)

// line tells whether a client has hung up.
type line struct {
	raw  syscall.RawConn // nil where there is no socket
	look func(fd uintptr)
	fds  [1]unix.PollFd
	gone bool
}

// watch makes l look at the socket of c.
func (l *line) watch(c net.Conn) {
	l.raw = inlet.Socket(c)
	l.look = func(fd uintptr) {
		l.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP}
		n, err := unix.Poll(l.fds[:], 0)
		l.gone = err == nil && n > 0
	}
}

// hungUp reports whether the client sends no more. What it has sent may wait still, as when this
// process was stopped for a while.
func (l *line) hungUp() bool {
	return l.raw != nil && l.raw.Control(l.look) == nil && l.gone
}
