package inlet

import (
	"context"
	"net"
	"net/http"
)

// peerKey is the key of a *Peer in a context.
type peerKey struct{}

// HTTP makes s serve the connections of a Listener with TLS as it would serve those of
// TLS of its own: handlers find the state in Request.TLS, and HTTP/2 is spoken to those
// who begin with it. Without TLS nothing of that is needed.
func HTTP(s *http.Server) {
	s.Protocols.SetUnencryptedHTTP2(true) // by the time that it is seen it is
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if own := find(c); own != nil && own.tls != nil {
			return context.WithValue(ctx, peerKey{}, &own.peer)
		}
		return ctx
	}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := PeerOf(r.Context()); p != nil {
			r.TLS = &p.State
		}
		next.ServeHTTP(w, r)
	})
}

// Greet does the handshake of a connection of a Listener, if there is one to do, and returns
// ctx with who is there, for PeerOf.
func Greet(ctx context.Context, c net.Conn) (context.Context, error) {
	p, err := Handshake(c)
	if p == nil || err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, peerKey{}, p), nil
}

// PeerOf returns who has sent the request of a context; nil without TLS.
func PeerOf(ctx context.Context) *Peer {
	p, _ := ctx.Value(peerKey{}).(*Peer)
	return p
}
