// Package passage has the connections of this process to something that it needs, such as a
// store or a database: they can be cut and delayed on purpose, while the other end notices no
// more than that a client goes.
//
// It is for drills. What is cut fails as it does when nobody listens: those who ask find out
// as they would in an outage, and recover as they would after one. A passage that is open
// costs one atomic load for each connection that is made, and nothing for what is sent.
package passage

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// DialFunc makes a connection, as net.Dialer.DialContext does.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// Passage is the way to one thing. Its zero value is open; it is safe for concurrent use and
// must not be copied.
type Passage struct {
	// cut says which addresses nobody listens at; nil: somebody does at all of them.
	cut   atomic.Pointer[func(addr string) bool]
	delay atomic.Int64 // see Delay

	mu   sync.Mutex
	open map[*link]struct{}
}

// link is a connection that was made by a Passage.
type link struct {
	addr  string
	close func() error
}

// Via returns dial by way of p. What it returns refuses addresses that are cut.
func (p *Passage) Via(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p.isCut(addr) {
			return nil, refused(network, addr)
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l := &link{addr, conn.Close}
		p.keep(l)
		if p.isCut(addr) { // meanwhile
			p.forget(l)
			conn.Close()
			return nil, refused(network, addr)
		}
		return p.wrap(conn, l), nil
	}
}

// wrap returns conn, which is forgotten when it is closed. Clients ask connections of the
// system for more than net.Conn has.
func (p *Passage) wrap(conn net.Conn, l *link) net.Conn {
	switch c := conn.(type) {
	case *net.TCPConn:
		return &tcp{c, p, l}
	case *net.UnixConn:
		return &unix{c, p, l}
	}
	return &other{conn, p, l}
}

type tcp struct {
	*net.TCPConn
	p *Passage
	l *link
}

// Close implements net.Conn.
func (c *tcp) Close() error { c.p.forget(c.l); return c.TCPConn.Close() }

type unix struct {
	*net.UnixConn
	p *Passage
	l *link
}

// Close implements net.Conn.
func (c *unix) Close() error { c.p.forget(c.l); return c.UnixConn.Close() }

type other struct {
	net.Conn
	p *Passage
	l *link
}

// Close implements net.Conn.
func (c *other) Close() error { c.p.forget(c.l); return c.Conn.Close() }

func (p *Passage) keep(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[*link]struct{}{}
	}
	p.open[l] = struct{}{}
}

func (p *Passage) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l)
}

func (p *Passage) isCut(addr string) bool {
	cut := p.cut.Load()
	return cut != nil && (*cut)(addr)
}

// Cut closes the connections to addresses for which cut reports true, and refuses to make
// others, until Open. It returns how many it has closed. cut must not block.
func (p *Passage) Cut(cut func(addr string) bool) (closed int) {
	p.cut.Store(&cut)
	p.mu.Lock()
	var ending []*link
	for l := range p.open {
		if cut(l.addr) {
			ending = append(ending, l)
			delete(p.open, l)
		}
	}
	p.mu.Unlock()
	for _, l := range ending {
		_ = l.close() // whoever uses it is told
	}
	return len(ending)
}

// Slow has Delay return d, which is not negative, until Open.
func (p *Passage) Slow(d time.Duration) { p.delay.Store(int64(d)) }

// Delay is how much longer each exchange shall take: 0 where nothing is held up. Those who
// make exchanges wait for it, because what is held up in a connection holds up what comes
// behind as well.
func (p *Passage) Delay() time.Duration { return time.Duration(p.delay.Load()) }

// Open ends Cut and Slow.
func (p *Passage) Open() {
	p.cut.Store(nil)
	p.delay.Store(0)
}

// refused is the error of a dial to where nobody listens.
func refused(network, addr string) error {
	return &net.OpError{Op: "dial", Net: network, Addr: name{network, addr}, Err: syscall.ECONNREFUSED}
}

// name is an address as it was asked for.
type name struct{ network, addr string }

// Network implements net.Addr.
func (n name) Network() string { return n.network }

// String implements net.Addr.
func (n name) String() string { return n.addr }
