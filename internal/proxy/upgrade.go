package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/headgate/headgate/internal/halfclose"
)

// upgrades are the connections that speak another protocol by now. net/http
// knows them no more, so they are ended here.
type upgrades struct {
	mu struct {
		sync.Mutex
		open   map[*upgrade]struct{}
		ending bool
		// idle is closed when the last is gone; not nil once ending.
		idle chan struct{}
	}
}

func (u *upgrades) add(one *upgrade) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.open == nil {
		u.mu.open = map[*upgrade]struct{}{}
	}
	u.mu.open[one] = struct{}{}
	if u.mu.ending {
		one.leave()
	}
}

func (u *upgrades) remove(one *upgrade) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.mu.open, one)
	u.tellIdleLocked()
}

func (u *upgrades) tellIdleLocked() {
	if u.mu.ending && len(u.mu.open) == 0 && u.mu.idle != nil {
		close(u.mu.idle)
		u.mu.idle = nil
	}
}

func (u *upgrades) open() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return int64(len(u.mu.open))
}

// end asks all to go and returns a channel that is closed when none is left.
func (u *upgrades) end() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	idle := make(chan struct{})
	u.mu.ending, u.mu.idle = true, idle
	for one := range u.mu.open {
		one.leave()
	}
	u.tellIdleLocked()
	return idle
}

// cut ends what is left, and returns how many that were.
func (u *upgrades) cut() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	for one := range u.mu.open {
		one.cut()
	}
	return len(u.mu.open)
}

// Shutdown asks the websockets to go, waits until no upgraded connection is left
// or ctx ends, cuts off the rest then, and returns how many that were. The
// requests of HTTP are those of the http.Server, which should be shut down at the
// same time.
func (p *Proxy) Shutdown(ctx context.Context) (cut int) {
	idle := p.upgrades.end()
	select {
	case <-idle:
	case <-ctx.Done():
		cut = p.upgrades.cut()
	}
	p.transport.CloseIdleConnections()
	return cut
}

// forwardUpgrade passes on a request for another protocol.
func (p *Proxy) forwardUpgrade(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	u := &upgrade{ResponseWriter: w, cancel: cancel, websocket: strings.EqualFold(r.Header.Get("Upgrade"), "websocket")}
	p.upgrades.add(u)
	defer p.upgrades.remove(u)
	p.reverse.ServeHTTP(u, r.WithContext(ctx))
}

// upgrade is a request for another protocol, and its connection once it is
// granted.
type upgrade struct {
	http.ResponseWriter
	cancel    context.CancelFunc // closes the backend's side
	websocket bool

	mu struct {
		sync.Mutex
		leaving bool
		conn    net.Conn // the client's side; nil: not granted yet
	}
}

// Unwrap lets an http.ResponseController find what the writer can do.
func (u *upgrade) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Hijack implements http.Hijacker. Package httputil calls it when the backend has
// granted the protocol, sends the header by the bufio.ReadWriter, and copies by the
// connection.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return conn, rw, err
	}
	if rw.Reader.Buffered() > 0 {
		conn = &earlyConn{conn, rw.Reader}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.websocket {
		ws := &websocketConn{Conn: conn}
		ws.mu.leaving = u.mu.leaving
		conn = ws
	}
	u.mu.conn = conn
	return conn, rw, nil
}

// leave asks the client to go, if it can be asked.
func (u *upgrade) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.leaving = true
	if ws, ok := u.mu.conn.(*websocketConn); ok {
		go ws.leave() // it writes, and the client may not read
	}
}

// cut ends both sides.
func (u *upgrade) cut() {
	u.cancel()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.conn != nil {
		u.mu.conn.Close()
	}
}

// earlyConn is a connection whose client has sent something before the protocol
// was granted.
type earlyConn struct {
	net.Conn
	early *bufio.Reader
}

// Read implements net.Conn.
func (c *earlyConn) Read(p []byte) (int, error) {
	if n := c.early.Buffered(); n > 0 {
		return c.early.Read(p[:min(n, len(p))])
	}
	return c.Conn.Read(p)
}

// CloseWrite tells the client that the backend sends no more.
func (c *earlyConn) CloseWrite() error { return halfclose.Write(c.Conn) }
