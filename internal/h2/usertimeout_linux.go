package h2

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout has the kernel end a connection whose other side has acknowledged nothing of
// what was sent for that long, as a machine does that is gone. Without it, what the kernel has
// taken over is sent again for a quarter of an hour. Connections that are not TCP are left
// alone.
func setUserTimeout(nc net.Conn, timeout time.Duration) {
	control(nc, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(max(timeout.Milliseconds(), 1)))
	})
}

// control calls f with the file descriptor of nc, below TLS too; not where it has none.
func control(nc net.Conn, f func(fd int)) {
	if secured, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = secured.NetConn()
	}
	if c, ok := nc.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}
