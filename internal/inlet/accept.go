package inlet

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// The pause after a connection could not be accepted, because there are too many files open. It
// doubles from time to time.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// accept accepts a connection of l. What passes by itself is waited for, so that no server ends by
// it: it fails only where l is closed, or of no use any more.
func accept(l net.Listener) (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		c, err := l.Accept()
		if err == nil || !passes(err) {
			return c, err
		}
		_ = sleep.For(context.Background(), pause)
	}
}

// passes reports errors of Accept after which others may follow, such as too many open files.
func passes(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}
