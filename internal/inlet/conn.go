package inlet

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/headgate/headgate/internal/halfclose"
)

// conn is a connection that counts until it is closed.
type conn struct {
	net.Conn // of TCP or a unix socket
	from     *bounded
	tls      *tls.Conn // over Conn; nil for plain text
	peer     Peer

	shake  sync.Once
	failed error // of the handshake, once it is done
	end    sync.Once
}

func newConn(inner net.Conn, from *bounded) *conn {
	c := &conn{Conn: inner, from: from}
	if from.options.TLS != nil {
		c.tls = tls.Server(inner, from.options.TLS)
	}
	return c
}

// handshake does the handshake, or waits for who does; nil where there is none to do.
func (c *conn) handshake() error {
	if c.tls == nil {
		return nil
	}
	c.shake.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
		defer cancel()
		if err := c.tls.HandshakeContext(ctx); err != nil {
			c.fail(err)
			return
		}
		c.peer.State = c.tls.ConnectionState()
	})
	return c.failed
}

// plainAnswer is for who speaks HTTP where TLS is spoken.
const plainAnswer = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nTLS is spoken here; hint: https\n"

func (c *conn) fail(err error) {
	// So that a server takes it for what it is, a peer that cannot be read.
	c.failed = &net.OpError{Op: "read", Net: c.RemoteAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && record.Conn != nil && speaksHTTP(record.RecordHeader) {
		_, _ = io.WriteString(record.Conn, plainAnswer) // whoever does not take it hears nothing
	}
	if errors.Is(err, io.EOF) {
		return // it said nothing: a probe of whether the port is open
	}
	c.from.failed.Add(1)
	if told := c.from.options.OnFailure; told != nil {
		told(c.RemoteAddr(), err)
	}
}

// speaksHTTP reports whether the first bytes of a connection are those of a request.
func speaksHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PRI *":
		return true
	}
	return false
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.tls == nil {
		return c.Conn.Read(p)
	}
	if err := c.handshake(); err != nil {
		return 0, err
	}
	return c.tls.Read(p)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.tls == nil {
		return c.Conn.Write(p)
	}
	if err := c.handshake(); err != nil {
		return 0, err
	}
	return c.tls.Write(p)
}

// CloseWrite ends what is written, where the connection can; net/http asks for it.
func (c *conn) CloseWrite() error {
	if c.tls != nil {
		return c.tls.CloseWrite()
	}
	return halfclose.Write(c.Conn)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.end.Do(func() { c.from.open.Add(-1) })
	if c.tls != nil {
		return c.tls.Close()
	}
	return c.Conn.Close()
}

// find returns the connection of a Listener that c is, or is over.
func find(c net.Conn) *conn {
	for {
		if found, ok := c.(*conn); ok {
			return found
		}
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = over.NetConn()
	}
}

// Handshake does the handshake of a connection of a Listener, if there is one to do, and
// returns who is there; nil without TLS.
func Handshake(c net.Conn) (*Peer, error) {
	own := find(c)
	if own == nil || own.tls == nil {
		return nil, nil
	}
	return &own.peer, own.handshake()
}
