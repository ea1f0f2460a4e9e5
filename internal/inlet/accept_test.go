package inlet_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/inlet"
)

// tired is a listener that cannot accept so many times, and is closed after two connections.
type tired struct {
	given
	failures, accepted int
}

func (l *tired) Accept() (net.Conn, error) {
	switch {
	case l.failures > 0:
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	case l.accepted == 2:
		return nil, net.ErrClosed
	}
	l.accepted++
	return l.given.Accept()
}

// TestTooManyFiles: a listener that cannot accept for a while accepts later, after pauses that
// become longer up to a second, and begin anew with each connection. What does not pass is told.
func TestTooManyFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := net.Pipe()
		defer mine.Close()
		defer theirs.Close()
		below := &tired{given: given{theirs}, failures: 20}
		l := inlet.Listen(below, inlet.Options{})
		for _, want := range []time.Duration{
			5*time.Millisecond*(1+2+4+8+16+32+64+128) + 12*time.Second,
			5 * time.Millisecond,
		} {
			begin := time.Now()
			if _, err := l.Accept(); err != nil || time.Since(begin) != want {
				t.Errorf("accepted after %v, want %v: %v", time.Since(begin), want, err)
			}
			below.failures = 1
		}
		begin := time.Now()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || time.Since(begin) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}
