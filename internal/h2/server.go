// Package h2 serves unary methods of gRPC over HTTP/2 batch by batch: all calls of a method that
// one read of a connection has brought are answered by one call of Unary.Serve and one
// write. It knows HTTP/2 (RFC 9113, RFC 7541) and as much of gRPC's framing as that takes,
// and nothing of what the methods do.
//
// Everything else on the same connection, be it a method that it does not know, a stream, a message that is
// compressed or longer than 64 KiB, or no gRPC at all, is a slow stream: a request of an
// http.Handler, such as a grpc.Server, in a goroutine of its own.
//
// # Who reads
//
// One goroutine of a connection at a time has the right to read: the leader. It reads what
// is there, takes in all frames, has the calls answered and writes the answers. As long as
// nothing has to wait no other goroutine is concerned. Before the first step that waits for
// another machine the batch passes the right on (Batch.Blocking), and what comes meanwhile
// is the next batch of the next leader. When maxAir batches wait nobody reads, so that what
// comes gathers in the socket.
//
// # What it does not trust
//
// A client may send anything. Everything that grows by what it sends has a bound; the bounds
// are in limits.go, with what happens beyond, and each has a test that goes there.
package h2

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
)

// Unary answers calls of one method. Serve is called by many goroutines at the same time,
// and fills in Reply, or Code and Status, of every call of the batch. Implementations are
// comparable.
type Unary interface {
	Serve(*Batch)
}

// Server serves HTTP/2 connections that begin with the preface (RFC 9113, section 3.3).
// Its fields are not changed once it serves.
type Server struct {
	// Fast answers the calls of methods, by their :path.
	Fast map[string]Unary
	// Slow answers all other requests.
	Slow http.Handler
	// Limits bound what a connection may cost.
	Limits Limits
	// ConnContext, when not nil, makes the context of a connection before anything is
	// read of it, such as after a TLS handshake. An error closes the connection.
	ConnContext func(context.Context, net.Conn) (context.Context, error)
	// Counters, when not nil, count what happens.
	Counters *Counters
	// OnPanic, when not nil, is told of a panic of a Unary or of Slow.
	OnPanic func(cause any, stack []byte)

	ready     sync.Once
	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	ending    bool
	gone      chan struct{} // closed when no connection is left after ending
	slowBytes atomic.Int64
	fastBytes atomic.Int64 // leased by connections
}

// ErrServerClosed is what Serve returns after Shutdown or Close.
var ErrServerClosed = errors.New("h2: server closed")

func (s *Server) prepare() {
	s.ready.Do(func() {
		s.Limits = s.Limits.withDefaults()
		s.listeners = make(map[net.Listener]struct{})
		s.conns = make(map[*conn]struct{})
		s.gone = make(chan struct{})
		if s.Counters == nil {
			s.Counters = new(Counters)
		}
	})
}

func (s *Server) count(e Event, n int) { s.Counters.add(e, n) }

// Serve serves the connections of l until it fails, and closes it. After Shutdown or Close
// the error is ErrServerClosed.
func (s *Server) Serve(l net.Listener) error {
	s.prepare()
	defer l.Close()
	if !s.addListener(l) {
		return ErrServerClosed
	}
	defer s.removeListener(l)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			go s.ServeConn(context.Background(), nc)
		case s.isEnding():
			return ErrServerClosed
		default:
			return err
		}
	}
}

// ServeConn serves one connection. It returns when the connection has ended, or goes on in
// another goroutine. The context of the connection derives from ctx.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) {
	s.prepare()
	ctx, cancel := context.WithCancel(ctx)
	if s.ConnContext != nil {
		var err error
		if ctx, err = s.ConnContext(ctx, nc); err != nil {
			cancel()
			nc.Close()
			return
		}
	}
	setUserTimeout(nc, s.Limits.PingTimeout)
	c := newConn(s, nc, ctx, cancel)
	if !s.add(c) {
		cancel()
		nc.Close()
		return
	}
	s.count(Connected, 1)
	c.flush(c.began)
	c.lead(new(Batch))
}

func newConn(s *Server, nc net.Conn, ctx context.Context, cancel context.CancelFunc) *conn {
	now := time.Now()
	c := &conn{
		server: s, nc: nc, ctx: ctx, cancel: cancel,
		streams: make(map[uint32]*stream), running: 1, baton: make(chan struct{}, maxAir),
		allowance: allowance, refilled: now, received: connWindow,
	}
	c.in = make([]byte, minRead)
	c.decoder = hpack.NewDecoder(tableSize, func(f hpack.HeaderField) { c.decoding.emit(f) })
	c.room = sync.NewCond(&c.mu)
	c.window, c.initial = initialWindow, initialWindow
	c.began, c.heardAt, c.emptied = now, now, now
	c.out = appendSettings(c.out,
		uint32(settingMaxStreams), uint32(s.Limits.MaxStreams),
		uint32(settingInitialWindow), streamWindow,
		uint32(settingMaxHeaderList), maxHeaderList)
	c.out = appendWindowUpdate(c.out, 0, connWindow-initialWindow)
	if s.Limits.Age > 0 {
		c.schedule(ageTimer, s.Limits.age(), func() {
			s.count(Aged, 1)
			c.drain()
		})
	}
	return c
}

// Shutdown stops accepting, ends all connections gently and waits until they have ended. When
// ctx ends first it returns its error; what is left then ends with Close.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.end() {
		c.drain()
	}
	select {
	case <-s.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close stops accepting and ends all connections at once.
func (s *Server) Close() error {
	for _, c := range s.end() {
		c.close()
	}
	return nil
}

// end stops accepting, and returns the connections that there are.
func (s *Server) end() []*conn {
	s.prepare()
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		l.Close()
	}
	if !s.ending {
		s.ending = true
		s.tellEmpty()
	}
	return slices.Collect(maps.Keys(s.conns))
}

// tellEmpty tells Shutdown when no connection is left.
func (s *Server) tellEmpty() {
	if s.ending && len(s.conns) == 0 {
		select {
		case <-s.gone:
		default:
			close(s.gone)
		}
	}
}

func (s *Server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	return !s.ending
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.tellEmpty()
}

// panicked tells of a panic.
func (s *Server) panicked(cause any, stack []byte) {
	s.count(Panicked, 1)
	if s.OnPanic != nil {
		s.OnPanic(cause, stack)
	}
}
