package testserver

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// proxyChunk is the most bytes that a proxy reads at one time, and
	// proxyQueue how many chunks it holds back in each direction of a
	// connection; beyond that the sender feels it.
	proxyChunk = 16 << 10
	proxyQueue = 1024
	// resent is how long TCP takes to send again what was lost: the least that Linux waits.
	resent = 200 * time.Millisecond
	// proxyDial bounds the dial to the server.
	proxyDial = time.Second
)

// Toxic is what a Proxy does to one direction. The zero value passes bytes on
// at once.
type Toxic struct {
	// Latency delays every byte, by up to Jitter more; the order stays.
	Latency, Jitter time.Duration
	// Loss is which part of what is sent, from 0 to 1, is lost on its way and sent again by TCP: it
	// comes resent later, and so does all that follows.
	Loss float64
	// Stall holds the bytes back until it is taken away.
	Stall bool
	// Slice writes no more than that many bytes at once; 0 means all.
	Slice int
	// CutAfter closes the connection when that many bytes more have passed in
	// this direction, in the middle of an answer if need be; 0 means never.
	CutAfter int64
}

// Toxics is what a Proxy does to its connections.
type Toxics struct {
	// Up concerns the bytes to the server, Down those from it.
	Up, Down Toxic
	// HalfOpen makes connections, old and new ones, dead without a word: they
	// stay open, take bytes and give none. They stay dead when it is taken away,
	// as after a server that lost its power.
	HalfOpen bool
	// Refuse resets new connections at once.
	Refuse bool
}

// ProxyStats counts what a Proxy has seen.
type ProxyStats struct {
	Accepted int64 // connections, ever
	Open     int64 // connections, now
	Up, Down int64 // bytes written on, or tried
}

// Proxy stands between a client and a TCP server and disturbs what passes. Its
// methods are safe for concurrent use.
type Proxy struct {
	// Addr is HOST:PORT.
	Addr string

	target   string
	listener net.Listener
	group    sync.WaitGroup
	accepted atomic.Int64
	up, down atomic.Int64

	mu      sync.Mutex
	toxics  Toxics
	changed chan struct{} // closed when toxics change
	conns   map[*proxied]struct{}
	closed  bool
}

// NewProxy starts a proxy to target, HOST:PORT, on a free port, and closes it when
// the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	p := &Proxy{
		Addr: l.Addr().String(), target: target, listener: l,
		changed: make(chan struct{}), conns: map[*proxied]struct{}{},
	}
	p.group.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Set puts toxics in place of those before, for old and new connections.
func (p *Proxy) Set(toxics Toxics) {
	p.mu.Lock()
	p.toxics = toxics
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if toxics.HalfOpen {
		for _, c := range p.open() {
			c.die()
		}
	}
}

// Heal takes all toxics away.
func (p *Proxy) Heal() { p.Set(Toxics{}) }

// Reset resets all connections that are open; new ones are not concerned.
func (p *Proxy) Reset() {
	for _, c := range p.open() {
		c.end(true)
	}
}

// open returns the connections that are open.
func (p *Proxy) open() []*proxied {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.conns))
}

// Stats returns what the proxy has seen so far.
func (p *Proxy) Stats() ProxyStats {
	p.mu.Lock()
	open := int64(len(p.conns))
	p.mu.Unlock()
	return ProxyStats{Accepted: p.accepted.Load(), Open: open, Up: p.up.Load(), Down: p.down.Load()}
}

// Close ends all connections and waits until nothing of the proxy runs. It may be
// called more than once.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Reset()
	p.group.Wait()
}

// state returns the present toxics and a channel that is closed when they
// change.
func (p *Proxy) state() (Toxics, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.toxics, p.changed
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.accepted.Add(1)
		c := &proxied{proxy: p, client: client, over: make(chan struct{})}
		p.mu.Lock()
		refuse := p.closed || p.toxics.Refuse
		if !refuse {
			p.conns[c] = struct{}{}
			p.group.Go(c.run)
		}
		p.mu.Unlock()
		if refuse {
			reset(client)
		}
	}
}

// reset closes a connection so that its peer sees a reset, not an end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// proxied is one connection of a client.
type proxied struct {
	proxy  *Proxy
	client net.Conn
	over   chan struct{} // closed when the connection has ended
	once   sync.Once
	dead   atomic.Bool // half-open for ever

	mu     sync.Mutex
	server net.Conn // nil until dialled
}

// end closes both sides.
func (c *proxied) end(hard bool) {
	c.once.Do(func() {
		close(c.over)
		for _, conn := range []net.Conn{c.client, c.serverSide()} {
			switch {
			case conn == nil:
			case hard:
				reset(conn)
			default:
				conn.Close()
			}
		}
		c.proxy.mu.Lock()
		delete(c.proxy.conns, c)
		c.proxy.mu.Unlock()
	})
}

func (c *proxied) serverSide() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// die makes the connection half-open: the server is let go, the client hears
// nothing more.
func (c *proxied) die() {
	c.dead.Store(true)
	if server := c.serverSide(); server != nil {
		server.Close()
	}
}

// run connects to the server and passes bytes on until the connection ends.
func (c *proxied) run() {
	defer c.end(false)
	if toxics, _ := c.proxy.state(); toxics.HalfOpen {
		c.dead.Store(true)
	}
	var server net.Conn
	if !c.dead.Load() {
		var err error
		if server, err = net.DialTimeout("tcp", c.proxy.target, proxyDial); err != nil {
			c.end(true)
			return
		}
		c.mu.Lock()
		c.server = server
		c.mu.Unlock()
		defer server.Close()
		// Whoever ended the connection meanwhile did not know its server.
		select {
		case <-c.over:
			return
		default:
		}
		if c.dead.Load() {
			server.Close()
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		c.pass(route{to: server, from: c.client, toxic: func(t *Toxics) Toxic { return t.Up }, passed: &c.proxy.up})
	})
	if server != nil {
		group.Go(func() {
			c.pass(route{to: c.client, from: server, toxic: func(t *Toxics) Toxic { return t.Down }, passed: &c.proxy.down})
		})
	}
	group.Wait()
}

// route is one direction of a connection.
type route struct {
	to, from net.Conn
	toxic    func(*Toxics) Toxic
	passed   *atomic.Int64
}

// chunk is what was read, and the instant at which it may be passed on.
type chunk struct {
	data []byte
	due  time.Time
}

// pass copies from one side to the other through the toxics of that direction.
// When it ends the connection does, unless it is half-open and this is the side
// of the server.
func (c *proxied) pass(r route) {
	queue := make(chan chunk, proxyQueue)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(queue)
		c.read(r, queue)
	})
	w := &proxyWriter{c: c, route: r}
	for piece := range queue {
		if !w.write(piece) {
			c.end(w.cut)
			break
		}
	}
	reader.Wait()
	if r.from == c.client || !c.dead.Load() {
		c.end(w.cut)
	}
}

// read puts what arrives into queue, until the connection ends.
func (c *proxied) read(r route, queue chan<- chunk) {
	var last time.Time
	for {
		data := make([]byte, proxyChunk)
		n, err := r.from.Read(data)
		if n > 0 {
			toxics, _ := c.proxy.state()
			x := r.toxic(&toxics)
			due := time.Now().Add(x.Latency)
			if x.Jitter > 0 {
				due = due.Add(rand.N(x.Jitter))
			}
			if x.Loss > 0 && rand.Float64() < x.Loss {
				due = due.Add(resent)
			}
			if due.Before(last) {
				due = last
			}
			last = due
			select {
			case queue <- chunk{data[:n], due}:
			case <-c.over:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// proxyWriter is the far end of one direction.
type proxyWriter struct {
	route
	c *proxied

	cut     bool  // the connection ended by CutAfter
	limit   int64 // the CutAfter that counts, 0 if none
	counted int64 // bytes passed since limit was set
}

// write passes one chunk on, and reports whether the connection goes on.
func (w *proxyWriter) write(piece chunk) bool {
	if !w.waitUntil(piece.due) {
		return false
	}
	for data := piece.data; len(data) > 0; {
		toxics, changed := w.c.proxy.state()
		if w.c.dead.Load() {
			return true
		}
		x := w.toxic(&toxics)
		if x.Stall {
			select {
			case <-changed:
				continue
			case <-w.c.over:
				return false
			}
		}
		n := len(data)
		if x.Slice > 0 {
			n = min(n, x.Slice)
		}
		if x.CutAfter != w.limit {
			w.limit, w.counted = x.CutAfter, 0
		}
		if w.limit > 0 {
			n = int(min(int64(n), w.limit-w.counted))
		}
		// Counted first: whoever has received the bytes finds them counted.
		w.passed.Add(int64(n))
		if _, err := w.to.Write(data[:n]); err != nil {
			return w.c.dead.Load()
		}
		w.counted += int64(n)
		data = data[n:]
		if w.limit > 0 && w.counted >= w.limit {
			w.cut = true
			return false
		}
	}
	return true
}

// waitUntil waits for an instant, and reports false when the connection ends
// before it.
func (w *proxyWriter) waitUntil(due time.Time) bool {
	pause := time.Until(due)
	if pause <= 0 {
		return true
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.c.over:
		return false
	}
}
