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

// Caller is who makes a call, as far as the transport knows. It is of use during the call
// alone.
type Caller struct {
	// ctx is the context of the call, or of its connection where there are fields.
	ctx context.Context
	// fields are the metadata of a call whose context has none.
	fields fields
}

// fields are the metadata of a call.
type fields interface {
	// Values returns those of a name, which is in lower case; nil for none. The slice is not to
	// be changed, nor kept.
	Values(name string) []string
}

// values returns the metadata of that name, which is in lower case; nil for none.
func (c Caller) values(name string) []string {
	if c.fields != nil {
		return c.fields.Values(name)
	}
	return incoming(c.ctx)[name]
}

// peer returns who is at the other end of the connection; nil without TLS.
func (c Caller) peer() *inlet.Peer {
	if from, _ := peer.FromContext(c.ctx); from != nil {
		if p, ok := from.AuthInfo.(*inlet.Peer); ok {
			return p
		}
	}
	return inlet.PeerOf(c.ctx)
}

// address returns that of the other end, the zero one for a socket of this machine.
func (c Caller) address() netip.Addr {
	if from, _ := peer.FromContext(c.ctx); from != nil {
		return addressOf(from.Addr)
	}
	return netip.Addr{}
}

// Enter returns the door of gate for who makes the call of ctx: by its metadata, or by the
// certificate of its connection.
func Enter[D any](ctx context.Context, gate *callers.Gate[D]) (D, error) {
	return enter(Caller{ctx: ctx}, gate)
}

func enter[D any](from Caller, gate *callers.Gate[D]) (D, error) {
	if !gate.Asks() {
		return gate.Enter(callers.Shown{})
	}
	s := callers.TokenOf(from.values(authorization), from.values(ownToken))
	s.Peer = from.peer()
	door, err := gate.Enter(s)
	if err != nil {
		err = gate.Refuse(err, from.address())
	}
	return door, err
}

// Callers returns Options.Admit for the callers of gate.
func Callers[D Checker](gate *callers.Gate[D]) func(Caller) (Checker, error) {
	return func(from Caller) (Checker, error) { return enter(from, gate) }
}

// KeptOut returns the error of package status that answers an error of Enter, which is that of
// Options.Admit too.
func KeptOut(err error) error {
	code := codes.Unauthenticated
	if kept, ok := errors.AsType[*callers.Refused](err); ok && kept.Reason == refusals.WrongScope {
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
		if _, err := o.Admit(Caller{ctx: ctx}); err != nil {
			return ctx, KeptOut(err)
		}
	}
	return ctx, nil
}

// addressOf returns the address in a, the zero one for none and for a socket of this machine.
func addressOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return a.AddrPort().Addr()
	}
	at, _ := netip.ParseAddrPort(a.String())
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
