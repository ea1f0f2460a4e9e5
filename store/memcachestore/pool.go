package memcachestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// refusedPause is for how long a pool does without the place of a connection that the
// server has refused because it takes no more. Then it is tried again.
const refusedPause = time.Second

// pool holds the connections to one server. A connection serves one call at a
// time. A call that needs a new one waits for it within its own deadline; the
// dial goes on without it and leaves the connection to others. While the server
// takes no more connections, calls wait for one of those that there are.
type pool struct {
	options *Options
	server  string
	// places has one token for each connection that is in use or dialled, or was
	// refused a moment ago.
	places  chan struct{}
	ctx     context.Context // ends with the pool
	cancel  context.CancelFunc
	dials   sync.WaitGroup
	dialed  atomic.Uint64
	refused atomic.Uint64

	mu struct {
		sync.Mutex
		idle     []*conn // the last one was used last
		dialling int     // connections that are being made
		open     int     // connections there are
		withheld int     // places of refused ones
		closed   bool
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
			return nil, p.noConn()
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
	p.mu.dialling++
	p.dials.Add(1)
	p.mu.Unlock()
	return p.await(ctx)
}

// noConn says why no connection became free in time.
func (p *pool) noConn() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.withheld > 0 {
		return fmt.Errorf("%w, and there can be no other: %w", errNoConn, &clientError{tooMany})
	}
	return errNoConn
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
		c, err := p.enter(p.dial())
		if err != nil {
			p.vacate(err)
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
	return c, nil
}

// enter counts the connection with which a dial has ended, unless the pool has ended
// before.
func (p *pool) enter(c *conn, err error) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.dialling--
	switch {
	case err != nil:
		return nil, err
	case p.mu.closed:
		c.Close()
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
	if err := c.send(appendAuth(nil, text)); err != nil {
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

// drop gives back a connection that err has made of no use.
func (p *pool) drop(c *conn, err error) {
	c.Close()
	p.mu.Lock()
	p.mu.open--
	p.mu.Unlock()
	p.vacate(err)
}

// vacate gives back the place of a connection that err has ended. That of one which the
// server has refused stays taken for a moment if there are others: calls then wait for one
// of those. If there are none, somebody has to find out when the server takes one again.
func (p *pool) vacate(err error) {
	if !isRefusal(err) {
		<-p.places
		return
	}
	p.refused.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.open+p.mu.dialling == 0 {
		<-p.places
		return
	}
	p.mu.withheld++
	time.AfterFunc(refusedPause, func() {
		p.mu.Lock()
		p.mu.withheld--
		p.mu.Unlock()
		<-p.places
	})
}

// send writes b. The error of a server that has hung up is what it said before, if that
// is that it takes no more connections.
func (c *conn) send(b []byte) error {
	_, err := c.Write(b)
	if err == nil || isTimeout(err) {
		return err
	}
	if line, unread := readLine(c.r); unread == nil && string(line) == tooMany {
		return &clientError{tooMany}
	}
	return err
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

// another reports whether there is a connection to wait for, or may soon be one.
func (p *pool) another() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open+p.mu.dialling > 0
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
