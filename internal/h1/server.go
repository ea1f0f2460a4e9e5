// Package h1 serves small requests of HTTP/1.1 for less than net/http does: all that one read of a
// connection has brought are answered in one write, by a handler whose request, header and
// answer are memory of the connection.
//
// It serves what it knows in every byte, a plain request: a POST with the length of its body, to
// a path of plain characters, with fields that mean nothing to the connection. From the first
// request that is anything else, wrong ones among them, the connection is net/http's until it
// ends. So nothing is read here that could be read in two ways, and what net/http refuses it
// refuses in its own words.
//
// # What handlers see
//
// The same as from net/http, but for this:
//   - A request, its header and its URL last until the handler returns. A handler does not change
//     them, which http.Handler asks for too: the next request may be the same memory.
//   - The context ends with the connection, and not when the handler returns. It has ended before
//     the handler is called where the client has hung up by then, or has ended its half of the
//     connection, on Linux. Who hangs up later is served to the end.
//   - An answer is sent as a whole when the handler has returned, so it is for short ones, and there
//     is nothing to flush or to hijack. Of http.ResponseController there is SetReadDeadline.
package h1

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/halfclose"
)

// Server serves connections as an http.Server does, and plain requests by itself. Make one with
// New.
type Server struct {
	http *http.Server
	rest *handed

	draining atomic.Bool
	mu       sync.Mutex
	conns    map[*conn]struct{}
	gone     chan struct{} // closed when no connection is left while draining
}

// New returns a server that has the handler, the timeouts, the log, ConnContext and ConnState of s,
// and leaves to s what is not plain. Nobody else has s serve, and once it serves it is not changed.
func New(s *http.Server) *Server {
	return &Server{
		http: s, rest: &handed{conns: make(chan net.Conn), closed: make(chan struct{})},
		conns: make(map[*conn]struct{}), gone: make(chan struct{}),
	}
}

// Serve serves the connections of l until it is closed, and returns why it could accept no
// more. It is called once.
func (s *Server) Serve(l net.Listener) error {
	s.rest.addr = l.Addr()
	go func() { _ = s.http.Serve(s.rest) }() // it ends by Shutdown or Close, and then only
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		s.start(c)
	}
}

// start serves a connection in a goroutine of its own.
func (s *Server) start(inner net.Conn) {
	c := newConn(s, inner)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.tell(inner, http.StateNew)
	go c.serve()
}

// end forgets a connection that is closed, or net/http's from now on.
func (s *Server) end(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.tellGone()
}

// tellGone ends the wait of Shutdown. It is called with s.mu held.
func (s *Server) tellGone() {
	if len(s.conns) > 0 || !s.draining.Load() {
		return
	}
	select {
	case <-s.gone:
	default:
		close(s.gone)
	}
}

func (s *Server) tell(c net.Conn, state http.ConnState) {
	if s.http.ConnState != nil {
		s.http.ConnState(c, state)
	}
}

// Shutdown closes connections that wait for a request, waits for the others until ctx ends, and
// does the same for those of net/http. The listener is closed before, by whoever has it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.http.SetKeepAlivesEnabled(false) // what is under way there says that it is the last
	s.mu.Lock()
	s.draining.Store(true)
	for c := range s.conns {
		c.wake()
	}
	s.tellGone()
	s.mu.Unlock()
	select {
	case <-s.gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.http.Shutdown(ctx)
}

// Close closes all connections.
func (s *Server) Close() error {
	s.mu.Lock()
	s.draining.Store(true)
	for c := range s.conns {
		_ = c.Conn.Close()
	}
	s.mu.Unlock()
	return s.http.Close()
}

// handed is the listener of net/http: it accepts what is not served here.
type handed struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// give hands a connection over. It reports false when nobody takes it any more.
func (h *handed) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return h.addr }

// begun is a connection of which something was read before.
type begun struct {
	net.Conn
	read []byte // that is to be read again
	// late is how long the request that net/http reads first has been coming, in nanoseconds.
	late atomic.Int64
}

// SetReadDeadline implements net.Conn. A time that net/http gives to its first request has begun
// before net/http had the connection.
func (b *begun) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		t = t.Add(-time.Duration(b.late.Load()))
	}
	return b.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. It is set when a request has been read, or not at all.
func (b *begun) SetWriteDeadline(t time.Time) error {
	b.late.Store(0)
	return b.Conn.SetWriteDeadline(t)
}

// Write implements net.Conn.
func (b *begun) Write(p []byte) (int, error) {
	b.late.Store(0)
	return b.Conn.Write(p)
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.read) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.read)
	if b.read = b.read[n:]; len(b.read) == 0 {
		b.read = nil
	}
	return n, nil
}

// NetConn returns the connection.
func (b *begun) NetConn() net.Conn { return b.Conn }

// CloseWrite ends what is written, where the connection can; net/http asks for it.
func (b *begun) CloseWrite() error { return halfclose.Write(b.Conn) }
