package respfront

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/limit"
)

// Checker decides. Package apikeys has one.
type Checker interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
	CheckOnce(ctx context.Context, requests []headgate.Request, ids []string, responses []headgate.Response) error
}

// Entrance lets callers in. See Callers.
type Entrance interface {
	// Asks reports whether anything depends on what callers show.
	Asks() bool
	// Enter returns what decides for who shows s, or an error.
	Enter(s callers.Shown) (Checker, error)
	// Refuse counts an error of Enter for an address, and returns what that is to hear.
	Refuse(err error, from netip.Addr) error
}

// Options configures a Server.
type Options struct {
	// Entrance lets callers in; required.
	Entrance Entrance
	// Answer is how long denials are said to last, for HEADGATE.CHECK, and which time of
	// reset is told. The zero value is usable.
	Answer httpanswer.Options
	// Turns are the places of commands that wait for the store; nil has places for all.
	Turns *turns.Turns
	// OnPanic is told of a panic, which ends its connection; required.
	OnPanic func(cause any, stack []byte)
}

// Server answers callers. Make one with New.
type Server struct {
	entrance Entrance
	encoder  *httpanswer.Encoder
	turns    *turns.Turns
	onPanic  func(cause any, stack []byte)
	limits   *memo.Memo[rate, *limit.Limit]
	commands []command
	shown    int // of the commands by COMMAND
	counts   counts
	started  time.Time
	ids      atomic.Int64

	ctx  context.Context
	stop context.CancelFunc
	// last is until when commands are still read, once the end has begun; in nanoseconds of
	// the Unix time, 0 before.
	last atomic.Int64

	mu       sync.Mutex
	sessions map[*session]struct{}
	running  sync.WaitGroup
}

// maxLimits bounds the limits of callers that are kept ready.
const maxLimits = 4096

// New returns a Server. The error is that of Options.Answer.
func New(o Options) (*Server, error) {
	encoder, err := httpanswer.New(o.Answer)
	if err != nil {
		return nil, err
	}
	s := &Server{
		entrance: o.Entrance, encoder: encoder, turns: o.Turns, onPanic: o.OnPanic, limits: memo.New(maxLimits, compile),
		started: time.Now(), sessions: map[*session]struct{}{}, commands: allCommands(),
	}
	s.counts.of = make([]atomic.Uint64, len(s.commands))
	for i := range s.commands {
		if !s.commands[i].hidden {
			s.shown++
		}
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Serve serves the connections of l until Shutdown, and returns nil then. Who may connect, TLS
// and how many connections there may be is up to l.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("serve the protocol of Redis on %v: %w", l.Addr(), err)
		}
		s.running.Go(func() { s.serve(conn) })
	}
}

// serve serves one connection.
func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	defer func() {
		if cause := recover(); cause != nil {
			s.onPanic(cause, debug.Stack())
		}
	}()
	peer, err := inlet.Handshake(conn)
	if err != nil {
		return // the listener has said so
	}
	now := time.Now()
	c := &session{
		server: s, conn: conn, id: s.ids.Add(1), peer: peer, from: addressOf(conn), opened: now, stranger: now, reply: reply{version: 2},
	}
	c.reader = newReader(c)
	_ = c.keptOut() // which notes it
	s.mu.Lock()
	s.sessions[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, c)
	}()
	c.run()
}

// addressOf returns the address of the other end, the zero one for a socket of this machine.
func addressOf(conn net.Conn) netip.Addr {
	at, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return at.Addr()
}

// lastCommands is for how long commands are still read when the end has begun: they may be on
// the way.
const lastCommands = 200 * time.Millisecond

func (s *Server) draining() bool { return s.last.Load() != 0 }

// lastRead returns until when commands are read, once the end has begun.
func (s *Server) lastRead() time.Time { return time.Unix(0, s.last.Load()) }

// Shutdown answers what has come, or is on the way, and closes all connections. It returns when
// that is done, or when ctx ends; then it cuts off who is still there. The listener of Serve is
// closed before, by whoever has made it.
func (s *Server) Shutdown(ctx context.Context) {
	s.last.Store(time.Now().Add(lastCommands).UnixNano())
	s.each(func(c *session) { _ = c.conn.SetReadDeadline(s.lastRead()) }) // who cannot be told is gone
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.stop()
		s.each(func(c *session) { c.conn.Close() })
		<-ended
	}
	s.stop()
}

func (s *Server) each(do func(*session)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		do(c)
	}
}
