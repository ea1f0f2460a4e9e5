package memcachestore

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pool holds the connections to one server. A connection serves one call at a
// time. A call that needs a new one waits for it within its own deadline; the
// dial goes on without it and leaves the connection to others.
type pool struct {
	options *Options
	server  string
	// places has one token for each connection that is in use or dialled.
	places chan struct{}
	ctx    context.Context // ends with the pool
	cancel context.CancelFunc
	dials  sync.WaitGroup
	dialed atomic.Uint64

	mu struct {
		sync.Mutex
		idle   []*conn // the last one was used last
		open   int     // connections there are
		closed bool
	}
}

// conn is a connection with what its next answers are read with.
type conn struct {
	net.Conn
	r    *bufio.Reader
	buf  []byte // of commands, used again and again
	used bool   // whether it has served a call before
}

func newPool(o *Options, server string) *pool {
	p := &pool{options: o, server: server, places: make(chan struct{}, o.MaxConns)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// get returns a connection that the caller gives back with put or drop.
func (p *pool) get(ctx context.Context) (*conn, error) {
	select {
	case p.places <- struct{}{}:
	default:
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			return nil, errNoConn
		}
	}
	p.mu.Lock()
	if n := len(p.mu.idle); n > 0 {
		c := p.mu.idle[n-1]
		p.mu.idle = p.mu.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	if p.mu.closed {
		p.mu.Unlock()
		<-p.places
		return nil, errClosed
	}
	p.dials.Add(1)
	p.mu.Unlock()
	return p.await(ctx)
}

// dialled is the end of a dial.
type dialled struct {
	conn *conn
	err  error
}

// await dials in the background, on the place of the caller, and waits for the
// end as long as ctx lasts.
func (p *pool) await(ctx context.Context) (*conn, error) {
	result := make(chan dialled, 1)
	var settled atomic.Bool // by the dial that ended, or the caller who left
	go func() {
		defer p.dials.Done()
		c, err := p.dial()
		if err != nil {
			<-p.places
		}
		if settled.CompareAndSwap(false, true) {
			result <- dialled{c, err}
		} else if err == nil {
			p.put(c)
		}
	}()
	select {
	case d := <-result:
		return d.conn, d.err
	case <-ctx.Done():
		if !settled.CompareAndSwap(false, true) {
			if d := <-result; d.err == nil {
				p.put(d.conn)
			}
		}
		return nil, ctx.Err()
	}
}

// dial connects and presents user and password.
func (p *pool) dial() (*conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.options.DialTimeout)
	defer cancel()
	p.dialed.Add(1)
	network := "tcp"
	if strings.HasPrefix(p.server, "/") {
		network = "unix"
	}
	dial := new(net.Dialer).DialContext
	if p.options.Via != nil {
		dial = p.options.Via(dial)
	}
	raw, err := dial(ctx, network, p.server)
	if err != nil {
		return nil, err
	}
	link, err := p.options.secure(ctx, raw, p.server)
	if err != nil {
		raw.Close()
		return nil, err
	}
	c := &conn{Conn: link, r: bufio.NewReaderSize(link, lineBytes)}
	if err := p.introduce(ctx, c); err != nil {
		raw.Close()
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		raw.Close()
		return nil, errClosed
	}
	p.mu.open++
	return c, nil
}

// introduce tells a new connection who is calling: a write whose value is the
// user and the password, whatever its key.
func (p *pool) introduce(ctx context.Context, c *conn) error {
	password, err := p.options.password()
	if err != nil || p.options.Username == "" && password == "" {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	// A connection that is closed under the exchange ends it.
	defer context.AfterFunc(ctx, func() { c.Close() })()
	text := p.options.Username + " " + password
	if _, err := c.Write(appendAuth(nil, text)); err != nil {
		return err
	}
	switch got, err := readOutcome(c.r); {
	case err != nil:
		return err
	case got != stored:
		return errNotMemcached
	}
	return c.SetDeadline(time.Time{})
}

// put gives back a connection that is in order.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.open--
		c.Close()
	} else {
		c.used = true
		p.mu.idle = append(p.mu.idle, c)
	}
	p.mu.Unlock()
	<-p.places
}

// drop gives back a connection that is of no use.
func (p *pool) drop(c *conn) {
	c.Close()
	p.mu.Lock()
	p.mu.open--
	p.mu.Unlock()
	<-p.places
}

// dropIdle closes the connections that nobody uses: one of them was found dead,
// and they are of its age.
func (p *pool) dropIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.mu.idle {
		c.Close()
		p.mu.open--
	}
	clear(p.mu.idle)
	p.mu.idle = p.mu.idle[:0]
}

// close ends all that nobody uses; what is in use is closed when it is given
// back.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.cancel()
	p.dropIdle()
	p.dials.Wait()
}

// counts returns how many connections there are, and how many nobody uses.
func (p *pool) counts() (open, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open, len(p.mu.idle)
}

// isTimeout reports whether time ran out, which says nothing about whether the
// connection was dead before.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
