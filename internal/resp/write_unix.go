//go:build unix

package resp

import (
	"errors"
	"syscall"
)

// writeSome writes as much of b as a socket, which does not block, takes at once.
func writeSome(fd uintptr, b []byte) (n int, err error) {
	for n < len(b) {
		m, err := syscall.Write(int(fd), b[n:])
		if m > 0 {
			n += m
		}
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return n, nil
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return n, err
		}
	}
	return n, nil
}
