package h2

import (
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/inlet"
)

// setUserTimeout has the kernel end a connection whose other side has acknowledged nothing of
// what was sent for that long, as a machine does that is gone. Without it, what the kernel has
// taken over is sent again for a quarter of an hour. Connections that are not TCP are left
// alone.
func setUserTimeout(nc net.Conn, timeout time.Duration) {
	if socket := inlet.Socket(nc); socket != nil {
		_ = socket.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(max(timeout.Milliseconds(), 1)))
		})
	}
}
