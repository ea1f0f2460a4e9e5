// Package inlet is what stands between a listener and the server on it, whichever that
// is: a bound on the connections that are open, TLS, and a guard against floods of HTTP/2
// inside of it. A server never hears of what passes by itself, such as too many open files. So all servers have the same bounds before they know who is there.
//
// A handshake is done by whoever reads first from a connection, which is the goroutine
// that the server has made for it: nobody who connects holds up others.
package inlet

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/h2guard"
)

// handshakeTimeout bounds a handshake of TLS: more than a phone on a bad line needs, and
// all that a connection can have before it has shown anything.
const handshakeTimeout = 10 * time.Second

// Options configures a Listener. The zero value passes connections through, under guard.
type Options struct {
	// TLS secures the connections; nil leaves them in plain text.
	TLS *tls.Config
	// MaxConnections bounds those that are open at a time; 0 is no bound. One beyond it
	// is closed at once, so that who balances load hears of it.
	MaxConnections int
	// Unguarded leaves the guard against floods out, for a server that has its own.
	Unguarded bool
	// OnFull, OnFailure and OnFlood, when not nil, are told of a connection that was
	// closed because there are too many, whose handshake failed, or which was cut off by
	// the guard. They must not block.
	OnFull    func(remote net.Addr)
	OnFailure func(remote net.Addr, err error)
	OnFlood   func(remote net.Addr)
}

// Listener is a net.Listener whose connections are bounded, secured and guarded. Make one
// with Listen.
type Listener struct {
	net.Listener // of guarded connections, or bounded itself
	bounded      *bounded
}

// Listen returns l with such connections.
func Listen(l net.Listener, o Options) *Listener {
	b := &bounded{Listener: l, options: o}
	if o.Unguarded {
		return &Listener{b, b}
	}
	return &Listener{h2guard.Listen(b, o.OnFlood), b}
}

// Stats is what a Listener has counted.
type Stats struct {
	// Open is how many connections there are now.
	Open int64
	// Full and Failed are how many were closed since the start because there were too
	// many, and because their handshakes failed.
	Full, Failed uint64
}

// Stats returns the counts.
func (l *Listener) Stats() Stats {
	b := l.bounded
	return Stats{b.open.Load(), b.full.Load(), b.failed.Load()}
}

// bounded accepts as many connections as may be open.
type bounded struct {
	net.Listener
	options      Options
	open         atomic.Int64
	full, failed atomic.Uint64
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := accept(b.Listener)
		if err != nil {
			return nil, err
		}
		if n := b.open.Add(1); b.options.MaxConnections == 0 || n <= int64(b.options.MaxConnections) {
			return newConn(c, b), nil
		}
		b.open.Add(-1)
		b.full.Add(1)
		_ = c.Close()
		if b.options.OnFull != nil {
			b.options.OnFull(c.RemoteAddr())
		}
	}
}

// Peer is who is at the other end of a connection with TLS.
type Peer struct {
	// State is set once the handshake is done.
	State tls.ConnectionState
	// Note is for who looks up what the certificate stands for: what was found once
	// holds for all that comes on the connection.
	Note atomic.Value
}

// AuthType names how the peer is known, for gRPC.
func (*Peer) AuthType() string { return "tls" }

// Certificate returns the certificate of the peer, which an authority has signed; nil
// where it has shown none.
func (p *Peer) Certificate() *x509.Certificate {
	if p == nil || len(p.State.VerifiedChains) == 0 || len(p.State.PeerCertificates) == 0 {
		return nil
	}
	return p.State.PeerCertificates[0]
}
