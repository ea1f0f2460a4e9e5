package backlog

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// noInterface is the index of a network interface that there is not. The kernel numbers them
// from 1 up.
const noInterface = 1<<31 - 1

// refuseTCP lets nobody new connect to l: it is bound to an interface on which nobody comes,
// so who asks for a connection is refused at once. Handshakes under way are not affected,
// nor are connections that wait. This needs Linux 5.7, or the capability NET_RAW; without
// it, the listener ends as on other systems.
func refuseTCP(l *net.TCPListener) {
	control(l, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, noInterface)
	})
}

// waiting reports whether somebody waits to be accepted by l.
func waiting(l net.Listener) (somebody bool) {
	control(l, func(fd int) {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(list, 0)
			if err != unix.EINTR {
				somebody = n == 1 && list[0].Revents&unix.POLLIN != 0
				return
			}
		}
	})
	return somebody
}

// control calls f with the file descriptor of l; not when l is closed.
func control(l net.Listener, f func(fd int)) {
	if l, ok := l.(syscall.Conn); ok {
		if raw, err := l.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}
