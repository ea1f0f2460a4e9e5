// Package h2guard ends connections of HTTP/2 that send frames which cost the
// server work and ask for nothing: streams that are reset as soon as they are opened,
// PING, SETTINGS, PRIORITY, empty DATA, CONTINUATION without end. It stands between the
// listener and the server, whichever that is, and reads the nine bytes before each
// frame, nothing else; so TLS has to be taken off before it. A connection that speaks
// something else, TLS among it, is passed through as it is.
//
// Each connection has a budget. Frames of the kinds above draw on it, what the server
// answers refills it, and so does time. So a client that is served is never hit, however
// fast it is, nor is one whose calls all run into their timeouts, and what a client can
// have for nothing is bounded: see the constants.
package h2guard

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/halfclose"
)

// The budget of a connection, in units of the cheapest frame that is counted.
const (
	// fullBudget is what a new connection has, and the most it can have.
	fullBudget = 64_000
	// perSecond is what time refills: 1,000 frames of no use in a second, or 16,000
	// resets of streams that have waited in vain.
	perSecond = 16_000
	// costUseless is that of a frame that asks for nothing. costCheap is that of one
	// that a client sends in the course of a call, and that is little work.
	costUseless, costCheap = 16, 1
	// costExtra is that of a frame which a call needs once at most, where it is not
	// plain whether it belongs to one.
	costExtra = 4
	// creditAnswer is what each frame of an answer gives back.
	creditAnswer = 32
)

const (
	// ripe is the age from which the reset of a stream is taken for a timeout. It is a
	// multiple of the shortest that clients have, so a flood of older streams is bounded
	// by how many may be open at a time, and by costCheap.
	ripe = 2 * time.Millisecond
	// smallData is the length up to which DATA that ends nothing is of no use.
	smallData = 8
	// shortData is the length up to which it is cheap.
	shortData = 256
)

// Bounds of the end of a connection: what is still read of it, so that the peer sees why.
const (
	lingerFor   = time.Second
	lingerBytes = 4 << 20
)

// Types and flags of frames (RFC 9113, section 6).
const (
	typeData, typeHeaders, typeReset, typeSettings = 0, 1, 3, 4
	typePing, typeWindowUpdate                     = 6, 8
	flagEnd, flagAck, flagPadded                   = 1, 1, 8
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// ErrFlood is why a connection ended.
var ErrFlood = errors.New("h2guard: too many frames that ask for nothing")

// Listen returns l with guarded connections. onFlood, when not nil, is told of each that
// is ended; it must not block.
func Listen(l net.Listener, onFlood func(remote net.Addr)) net.Listener {
	return &listener{l, onFlood, time.Now}
}

type listener struct {
	net.Listener
	onFlood func(net.Addr)
	now     func() time.Time
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(c, l.onFlood, l.now), nil
}

// What a connection speaks.
const (
	unknown = iota
	http2
	other
)

// conn is a connection under guard.
type conn struct {
	net.Conn
	onFlood func(net.Addr)
	now     func() time.Time
	speaks  atomic.Uint32
	budget  atomic.Int64
	// Of reading, which one goroutine does at a time.
	begun  int // bytes of the preface that have come
	in     frames
	client client

	mu struct {
		sync.Mutex
		out frames
		cut bool
	}
}

func newConn(c net.Conn, onFlood func(net.Addr), now func() time.Time) *conn {
	g := &conn{Conn: c, onFlood: onFlood, now: now}
	g.budget.Store(fullBudget)
	g.client.refilled = now()
	g.client.ticked = g.client.refilled
	return g
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || c.speaks.Load() == other {
		return n, err
	}
	got := p[:n]
	if c.speaks.Load() == unknown {
		if got = c.begin(got); c.speaks.Load() != http2 {
			return n, err
		}
	}
	now := c.now()
	c.refill(now)
	spent := c.client.read(&c.in, got, now)
	if c.budget.Add(-spent) >= 0 {
		return n, err
	}
	c.hangUp()
	return 0, ErrFlood
}

// begin compares what came with the preface, and returns what is after it.
func (c *conn) begin(p []byte) []byte {
	for i, b := range p {
		if b != preface[c.begun] {
			c.speaks.Store(other)
			return nil
		}
		if c.begun++; c.begun == len(preface) {
			c.speaks.Store(http2)
			return p[i+1:]
		}
	}
	return nil
}

// refill gives what time gives.
func (c *conn) refill(now time.Time) {
	since := now.Sub(c.client.refilled)
	if since < time.Millisecond {
		return
	}
	c.client.refilled = now
	more := fullBudget - c.budget.Load()
	if earned := int64(min(since, time.Hour)/time.Microsecond) * perSecond / 1_000_000; earned < more {
		more = earned
	}
	c.budget.Add(more) // below 0 where answers have given too much
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.speaks.Load() == other {
		return c.Conn.Write(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.cut {
		return 0, ErrFlood
	}
	if earned := answered(&c.mu.out, p); earned != 0 && c.budget.Load() < fullBudget {
		c.budget.Add(earned)
	}
	return c.Conn.Write(p)
}

// NetConn returns the connection under guard.
func (c *conn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends what is written, where the connection can; net/http asks for it.
func (c *conn) CloseWrite() error { return halfclose.Write(c.Conn) }

// goAway is GOAWAY with ENHANCE_YOUR_CALM; the last stream is filled in.
var goAway = [17]byte{2: 8, 3: 7, 16: 11}

// hangUp tells the peer why, as far as that can be, and reads what is on its way, because
// the end of a connection with unread bytes may reach the peer before the reason does.
func (c *conn) hangUp() {
	if c.onFlood != nil {
		c.onFlood(c.RemoteAddr())
	}
	// Who writes now may wait for a peer that does not read: then it is not told.
	if c.mu.TryLock() {
		c.mu.cut = true
		if c.mu.out.between() {
			last, frame := c.client.last, goAway
			frame[9], frame[10], frame[11], frame[12] = byte(last>>24), byte(last>>16), byte(last>>8), byte(last)
			_ = c.SetWriteDeadline(time.Now().Add(lingerFor))
			_, _ = c.Conn.Write(frame[:]) // whoever does not take it hears nothing
		}
		c.mu.Unlock()
	}
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(lingerFor))
	var rest [4096]byte
	for left := lingerBytes; left > 0; {
		n, err := c.Conn.Read(rest[:])
		if err != nil {
			break
		}
		left -= n
	}
	_ = c.Conn.Close()
}
