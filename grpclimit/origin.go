package grpclimit

import (
	"context"
	"net"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/trace"
)

// originOf returns what the connection and the metadata of a call say of who sent it.
func originOf(ctx context.Context) headgate.Origin {
	origin := headgate.Origin{Trace: trace.ParentOf(metadata.ValueFromIncomingContext(ctx, "traceparent"))}
	if agent := metadata.ValueFromIncomingContext(ctx, "user-agent"); len(agent) > 0 {
		origin.UserAgent = agent[0]
	}
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return origin
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		origin.ClientIP = tcp.AddrPort().Addr().Unmap().WithZone("")
	} else {
		origin.ClientIP = admission.PeerAddr(p.Addr.String())
	}
	return origin
}
