package proxy

import (
	"encoding/binary"
	"math"
	"net"
	"sync"

	"github.com/headgate/headgate/internal/halfclose"
)

// frames finds where the frames of a websocket end in a stream of bytes (RFC
// 6455, section 5.2). It looks at nothing but their headers. The zero value is
// at the begin of a stream.
type frames struct {
	header [maxFrameHeader]byte
	seen   int    // bytes of the header of the frame at hand
	rest   uint64 // bytes to come after it
	// closed says that a frame of opcode close has begun.
	closed bool
}

const (
	// maxFrameHeader is the longest header: two bytes, a length of eight, a mask
	// of four.
	maxFrameHeader = 14
	opcodeClose    = 8
)

// between reports whether no frame is under way.
func (f *frames) between() bool { return f.seen == 0 && f.rest == 0 }

// next takes bytes off p up to the end of the frame at hand, or all of them if it
// does not end there. It returns how many; at least one of a p that is not empty.
func (f *frames) next(p []byte) int {
	n := 0
	for f.rest == 0 && n < len(p) {
		f.header[f.seen] = p[n]
		f.seen++
		n++
		if f.seen < f.headerLength() {
			continue
		}
		f.begin()
		if f.rest == 0 {
			return n // no payload
		}
	}
	taken := min(uint64(len(p)-n), f.rest)
	f.rest -= taken
	return n + int(taken)
}

// headerLength returns how long the header is, as far as it can be told.
func (f *frames) headerLength() int {
	if f.seen < 2 {
		return 2
	}
	length := 2
	switch f.header[1] & 0x7f {
	case 126:
		length += 2
	case 127:
		length += 8
	}
	if f.header[1]&0x80 != 0 {
		length += 4
	}
	return length
}

// begin ends the header at hand.
func (f *frames) begin() {
	f.closed = f.closed || f.header[0]&0x0f == opcodeClose
	switch length := f.header[1] & 0x7f; length {
	case 126:
		f.rest = uint64(binary.BigEndian.Uint16(f.header[2:]))
	case 127:
		// The first bit is 0, or it is no frame.
		f.rest = binary.BigEndian.Uint64(f.header[2:]) & math.MaxInt64
	default:
		f.rest = uint64(length)
	}
	f.seen = 0
}

// goodbye is a frame from a server: close, with the status 1001 (going away).
var goodbye = []byte{0x80 | opcodeClose, 2, 1001 >> 8, 1001 & 0xff}

// websocketConn is the client's side of a websocket. What the backend sends
// passes through Write.
type websocketConn struct {
	net.Conn
	reads sync.Once // the first of them

	mu struct {
		sync.Mutex
		frames frames
		// begun says that the header of HTTP is out: there is a stream of frames.
		begun   bool
		leaving bool // say goodbye when the frame at hand ends
		left    bool // nothing may follow
	}
}

// Read implements net.Conn. Nobody reads before the header is out. It never waits for a Write: a
// client may say something while it does not read what comes.
func (c *websocketConn) Read(p []byte) (int, error) {
	c.reads.Do(func() { go c.begin() })
	return c.Conn.Read(p)
}

// begin is told that the header of HTTP is out.
func (c *websocketConn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.begun = true
	c.partLocked()
}

// Write implements net.Conn. What comes after the goodbye is dropped.
func (c *websocketConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.begun = true
	c.partLocked()
	if c.mu.left {
		return len(p), nil
	}
	whole := 0
	for whole < len(p) {
		whole += c.mu.frames.next(p[whole:])
		if c.mu.leaving && c.mu.frames.between() {
			break
		}
	}
	if n, err := c.Conn.Write(p[:whole]); err != nil {
		return n, err
	}
	c.partLocked()
	return len(p), nil
}

// leave says goodbye between two frames, now or when the one at hand has ended.
// The client's answer goes to the backend, which ends the connection then.
func (c *websocketConn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.leaving = true
	c.partLocked()
}

// partLocked says goodbye if it is time for it. If the backend has, by a frame of
// its own, that is enough.
func (c *websocketConn) partLocked() {
	if !c.mu.begun || !c.mu.leaving || c.mu.left || !c.mu.frames.between() {
		return
	}
	c.mu.left = true
	if !c.mu.frames.closed {
		// An error shows in what is read next.
		_, _ = c.Conn.Write(goodbye)
	}
}

// CloseWrite tells the client that the backend sends no more.
func (c *websocketConn) CloseWrite() error { return halfclose.Write(c.Conn) }
