//go:build unix

package conn

import "syscall"

// hasUnread reports whether a connection has bytes that have not been read. It takes
// none of them, and does not wait.
func hasUnread(raw syscall.RawConn) bool {
	var found bool
	err := raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		found = err == nil && n > 0
	})
	return err == nil && found
}
