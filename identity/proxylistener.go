package identity

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/halfclose"
)

// DefaultProxyTimeout is how long a peer may take to send its PROXY protocol
// header.
const DefaultProxyTimeout = 3 * time.Second

// ErrProxyHeader is wrapped by the error of every use of a connection whose
// PROXY protocol header is missing, malformed or late.
var ErrProxyHeader = errors.New("identity: PROXY protocol")

// ProxyListenerOptions configures a ProxyListener.
type ProxyListenerOptions struct {
	// Trusted are the networks of the proxies that send the header. Not empty.
	Trusted []netip.Prefix
	// TrustLocal takes peers without an IP address (unix sockets) for proxies.
	TrustLocal bool
	// Timeout is how long a proxy may take to send its header, at most a minute;
	// 0 means DefaultProxyTimeout.
	Timeout time.Duration
	// RefuseOthers closes connections of other peers. Otherwise they are served
	// as they are: no header is looked for, and the peer is the client.
	RefuseOthers bool
}

// ProxyListener accepts connections that begin with a header of the PROXY
// protocol, version 1 or 2, and gives each the addresses that the header names. A
// peer in Trusted must send one; any other peer's is never read, so that nobody
// can invent an address. Which of the two a connection is depends on its peer
// alone, never on what it sends.
//
// Accept does not wait for the header: the first Read, LocalAddr or RemoteAddr of
// a connection does, for Timeout at most. A server that asks for the address in
// its loop of accepts (net/http does so only in ConnContext and ConnState hooks)
// waits there. A connection whose header is bad is closed, and its addresses are
// the socket's.
//
// It is safe for concurrent use.
type ProxyListener struct {
	net.Listener
	trusted      networks
	trustLocal   bool
	refuseOthers bool
	timeout      time.Duration

	accepted, bad, refused atomic.Uint64
}

// NewProxyListener wraps inner.
func NewProxyListener(inner net.Listener, o ProxyListenerOptions) (*ProxyListener, error) {
	var bad problems
	l := &ProxyListener{
		Listener: inner, trusted: newNetworks(o.Trusted, &bad),
		trustLocal: o.TrustLocal, refuseOthers: o.RefuseOthers, timeout: o.Timeout,
	}
	if len(o.Trusted) == 0 && !o.TrustLocal {
		bad.add("Trusted", "empty", "name the networks of the proxies that send the header")
	}
	l.timeout = cmp.Or(l.timeout, DefaultProxyTimeout)
	if l.timeout < 0 || l.timeout > time.Minute {
		bad.add("Timeout", o.Timeout.String(), "write up to a minute; 0 means "+DefaultProxyTimeout.String())
	}
	return l, bad.err()
}

// Accept returns the next connection.
func (l *ProxyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, ok := parseHop(conn.RemoteAddr().String())
		if ok && l.trusted.contains(addr) || !ok && l.trustLocal {
			l.accepted.Add(1)
			return &proxyConn{Conn: conn, listener: l}, nil
		}
		if !l.refuseOthers {
			return conn, nil
		}
		l.refused.Add(1)
		// What closing says does not matter: the connection was not asked for.
		_ = conn.Close()
	}
}

// ProxyListenerStats counts connections since the start.
type ProxyListenerStats struct {
	// Proxied is how many came from trusted peers.
	Proxied uint64
	// Bad is how many of those were closed for a header that was missing,
	// malformed, too long or late.
	Bad uint64
	// Refused is how many of other peers were closed by RefuseOthers.
	Refused uint64
}

// Stats returns the counts so far.
func (l *ProxyListener) Stats() ProxyListenerStats {
	return ProxyListenerStats{Proxied: l.accepted.Load(), Bad: l.bad.Load(), Refused: l.refused.Load()}
}

// proxyConn is a connection of a trusted peer. Its header is read once, by
// whoever needs it first.
type proxyConn struct {
	net.Conn
	listener *ProxyListener

	once   sync.Once
	err    error
	header proxyHeader

	// mu orders deadlines: those that are set while the header is awaited are
	// kept, and count from then on.
	mu struct {
		sync.Mutex
		// rest is what came behind the header in the same read.
		rest     []byte
		done     bool
		limit    time.Time
		deadline time.Time
	}
}

func (c *proxyConn) Read(p []byte) (int, error) {
	if c.once.Do(c.readHeader); c.err != nil {
		return 0, c.err
	}
	if n := c.readRest(p); n > 0 {
		return n, nil
	}
	return c.Conn.Read(p)
}

func (c *proxyConn) readRest(p []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(p, c.mu.rest)
	if c.mu.rest = c.mu.rest[n:]; len(c.mu.rest) == 0 {
		c.mu.rest = nil
	}
	return n
}

func (c *proxyConn) Write(p []byte) (int, error) {
	if c.once.Do(c.readHeader); c.err != nil {
		return 0, c.err
	}
	return c.Conn.Write(p)
}

// ReadFrom lets the system copy files and connections where it can.
func (c *proxyConn) ReadFrom(r io.Reader) (int64, error) {
	if c.once.Do(c.readHeader); c.err != nil {
		return 0, c.err
	}
	return io.Copy(c.Conn, r)
}

// CloseWrite ends what is sent, where the connection can do so. Servers use it so
// that the last answer is not lost when they close.
func (c *proxyConn) CloseWrite() error { return halfclose.Write(c.Conn) }

// NetConn returns the connection that the header came on.
func (c *proxyConn) NetConn() net.Conn { return c.Conn }

// RemoteAddr returns the source that the header names, and the peer's address
// where it names none.
func (c *proxyConn) RemoteAddr() net.Addr {
	if c.once.Do(c.readHeader); c.header.source.IsValid() {
		return net.TCPAddrFromAddrPort(c.header.source)
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr returns the target that the header names, and the socket's address
// where it names none.
func (c *proxyConn) LocalAddr() net.Addr {
	if c.once.Do(c.readHeader); c.header.target.IsValid() {
		return net.TCPAddrFromAddrPort(c.header.target)
	}
	return c.Conn.LocalAddr()
}

// SetDeadline sets both deadlines.
func (c *proxyConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline of reads. While the header is awaited, it
// can only bring the end of that nearer.
func (c *proxyConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.deadline = t
	if !c.mu.done && !c.mu.limit.IsZero() {
		t = nearer(t, c.mu.limit)
	}
	return c.Conn.SetReadDeadline(t)
}

// nearer returns the earlier deadline; the zero time is none.
func nearer(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// readHeader reads the header, and closes the connection when it is bad.
func (c *proxyConn) readHeader() {
	c.err = c.await()
	if c.err == nil {
		c.err = c.parse()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.done = true
	if c.err == nil {
		// Where this fails the connection is gone, and what is in rest may still
		// be read; the next Read of the connection says what happened.
		_ = c.Conn.SetReadDeadline(c.mu.deadline)
	} else {
		c.listener.bad.Add(1)
		c.err = fmt.Errorf("%w: %w", ErrProxyHeader, c.err)
		// The fault is told already; what closing adds would only hide it.
		_ = c.Conn.Close()
	}
}

// await sets the deadline of the header.
func (c *proxyConn) await() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A deadline on a socket is an instant of the wall clock, so this is the one
	// place that reads it.
	c.mu.limit = time.Now().Add(c.listener.timeout)
	return c.Conn.SetReadDeadline(nearer(c.mu.deadline, c.mu.limit))
}

// parse reads until the header is whole. It allocates for a long header only
// when the header says that it is long.
func (c *proxyConn) parse() error {
	buf := make([]byte, 0, 256)
	for {
		h, n, err := parseProxyHeader(buf)
		if err == nil {
			c.header = h
			c.mu.Lock()
			defer c.mu.Unlock()
			c.mu.rest = buf[n:]
			return nil
		}
		if !errors.Is(err, errProxyShort) {
			return err
		}
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, proxyFixed+MaxProxyHeader), buf...)
		}
		n, err = c.Conn.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n > 0 {
			continue
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}
