// Package backlog closes listeners without resetting connections that wait to be accepted.
//
// The kernel takes connections before a server does, and keeps them in the backlog of the
// listener. When a listener is closed, all that wait there are reset, although their clients
// were told that they are connected and may have sent their requests. A Listener of this
// package ends in another order: it first lets nobody new connect, then accepts all who wait,
// and is closed when nobody does.
//
// On Linux that holds for TCP and unix sockets. Elsewhere a Listener goes on accepting for
// the time that it is given, and a connection that comes right before the end may still be
// reset.
package backlog

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBacklog bounds how many are accepted after the time that End was given: more
	// than a kernel lets wait where nobody new can connect.
	maxBacklog = 1 << 16
	// acceptTimeout bounds the acceptance of a connection that waits already, because it
	// may be gone.
	acceptTimeout = time.Second
)

// Listener is a net.Listener that can End. It is safe for concurrent use. Make one with
// Listen.
type Listener struct {
	net.Listener
	ending    atomic.Bool
	late      atomic.Int64 // accepted after the time that End was given
	emptied   chan struct{}
	closed    chan struct{}
	empty     sync.Once
	closeOnce sync.Once
	closing   sync.Mutex // of the inner listener; also while it is told to refuse
}

// deadlined are the listeners of package net whose Accept can be interrupted.
type deadlined interface{ SetDeadline(time.Time) error }

// Listen returns l as a Listener. What is no listener of TCP or of a unix socket ends as it
// is closed.
func Listen(l net.Listener) *Listener {
	return &Listener{Listener: l, emptied: make(chan struct{}), closed: make(chan struct{})}
}

// Accept implements net.Listener. When the listener has ended, it waits for Close, and
// fails then as it does after any Close.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil || !l.ending.Load() {
		return c, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if c := l.acceptWaiting(); c != nil {
			return c, nil
		}
	}
	l.empty.Do(func() {
		_ = l.closeInner()
		close(l.emptied)
	})
	<-l.closed
	return nil, &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
}

// acceptWaiting returns a connection of the backlog, nil when it is empty.
func (l *Listener) acceptWaiting() net.Conn {
	for waiting(l.Listener) && l.late.Add(1) <= maxBacklog {
		d := l.Listener.(deadlined)
		if d.SetDeadline(time.Now().Add(acceptTimeout)) != nil {
			return nil
		}
		c, err := l.Listener.Accept()
		if d.SetDeadline(time.Now()) != nil || err == nil {
			return c
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
	}
	return nil
}

// End lets nobody new connect, and returns when all who were about to are accepted, or when
// ctx has ended. handshakes is how long those have who are connecting right now. Somebody
// must go on calling Accept. Close the listener afterwards, as any other.
func (l *Listener) End(ctx context.Context, handshakes time.Duration) {
	d, ok := l.Listener.(deadlined)
	if !ok || !l.ending.CompareAndSwap(false, true) {
		return
	}
	l.refuse()
	if d.SetDeadline(time.Now().Add(handshakes)) != nil {
		return // it is closed
	}
	select {
	case <-l.emptied:
	case <-l.closed:
	case <-ctx.Done():
	}
}

// Close implements net.Listener.
func (l *Listener) Close() (err error) {
	l.closeOnce.Do(func() {
		if err = l.closeInner(); l.ending.Load() && errors.Is(err, net.ErrClosed) {
			err = nil
		}
		close(l.closed)
	})
	return err
}

func (l *Listener) closeInner() error {
	l.closing.Lock()
	defer l.closing.Unlock()
	return l.Listener.Close()
}

// refuse lets nobody new connect; who is connected and waits, stays.
func (l *Listener) refuse() {
	l.closing.Lock()
	defer l.closing.Unlock()
	switch l := l.Listener.(type) {
	case *net.UnixListener:
		// Else another process, that has taken the path meanwhile, would lose it by
		// our Close.
		l.SetUnlinkOnClose(false)
		_ = os.Remove(l.Addr().String())
	case *net.TCPListener:
		refuseTCP(l)
	}
}
