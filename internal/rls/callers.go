package rls

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/refusals"
)

// Metadata by which a caller shows its token.
const (
	authorization = "authorization"
	ownToken      = "x-headgate-token" // callers.TokenHeader in lower case
)

// Enter returns the door of gate for who makes the call of ctx: by its metadata, or by the
// certificate of its connection.
func Enter[D any](ctx context.Context, gate *callers.Gate[D]) (D, error) {
	if !gate.Asks() {
		return gate.Enter(callers.Shown{})
	}
	md := incoming(ctx)
	s := callers.TokenOf(md[authorization], md[ownToken])
	from, _ := peer.FromContext(ctx)
	if from != nil {
		s.Peer, _ = from.AuthInfo.(*inlet.Peer)
	}
	door, err := gate.Enter(s)
	if err != nil {
		err = gate.Refuse(err, addressOf(from))
	}
	return door, err
}

// Callers returns Options.Admit for the callers of gate.
func Callers[D Checker](gate *callers.Gate[D]) func(context.Context) (Checker, error) {
	return func(ctx context.Context) (Checker, error) {
		return Enter(ctx, gate)
	}
}

// keptOut answers an error of Options.Admit.
func keptOut(err error) error {
	code := codes.Unauthenticated
	if kept := (*callers.Refused)(nil); errors.As(err, &kept) && kept.Reason == refusals.WrongScope {
		code = codes.PermissionDenied
	}
	return status.Error(code, err.Error())
}

// enter keeps out who may not make a call when its header has come: neither is its message
// read nor does anything run for it. The goroutine that reads the connection asks.
func (o *Options) enter(ctx context.Context, call *tap.Info) (context.Context, error) {
	switch own := o.Entrances[call.FullMethodName]; {
	case own != nil:
		return ctx, own(ctx)
	case call.FullMethodName == fullMethod && o.Admit != nil:
		if _, err := o.Admit(ctx); err != nil {
			return ctx, keptOut(err)
		}
	}
	return ctx, nil
}

// addressOf returns the address of a peer, the zero one for a socket of this machine.
func addressOf(p *peer.Peer) netip.Addr {
	if p == nil || p.Addr == nil {
		return netip.Addr{}
	}
	at, _ := netip.ParseAddrPort(p.Addr.String())
	return at.Addr()
}

// incomingKey is the key under which package metadata keeps what came with a call. That
// package has no way to read one value without a copy of it, which every call would pay
// for; so it is asked once which key it looks for.
var incomingKey = keyOfIncoming()

// asking is a context that notes for which key it is asked.
type asking struct {
	context.Context
	key any
}

// Value implements context.Context.
func (a *asking) Value(key any) any {
	a.key = key
	return nil
}

func keyOfIncoming() any {
	a := &asking{Context: context.Background()}
	metadata.FromIncomingContext(a)
	return a.key
}

// incoming returns the metadata of a call, which is not to be changed; nil for none.
func incoming(ctx context.Context) metadata.MD {
	md, _ := ctx.Value(incomingKey).(metadata.MD)
	return md
}

// handshaker leaves the handshake of a connection to what is before the server, package
// inlet, and tells handlers who is there.
type handshaker struct{}

var _ credentials.TransportCredentials = handshaker{}

// ServerHandshake implements credentials.TransportCredentials.
func (handshaker) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	p, err := inlet.Handshake(c)
	if p == nil || err != nil {
		return c, nil, err
	}
	return c, p, nil
}

var errNoClient = errors.New("connect: these credentials are those of a server")

// ClientHandshake implements credentials.TransportCredentials; there is none.
func (handshaker) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNoClient
}

// Info implements credentials.TransportCredentials.
func (handshaker) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// Clone implements credentials.TransportCredentials.
func (h handshaker) Clone() credentials.TransportCredentials { return h }

// OverrideServerName implements credentials.TransportCredentials.
func (handshaker) OverrideServerName(string) error { return nil }
