package grpclimit

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/httpanswer"
)

// direction is where metadata goes.
type direction struct {
	from func(context.Context) (metadata.MD, bool) // a copy
	with func(context.Context, metadata.MD) context.Context
}

var (
	incoming = direction{metadata.FromIncomingContext, metadata.NewIncomingContext}
	outgoing = direction{metadata.FromOutgoingContext, metadata.NewOutgoingContext}
)

// withActions returns ctx with what soft limits ask of whatever serves the call in
// its metadata.
func withActions(ctx context.Context, pass *admission.Pass, d direction) context.Context {
	actions := httpanswer.AppendUpstream(nil, pass.Response())
	if len(actions) == 0 {
		return ctx
	}
	md, ok := d.from(ctx)
	if !ok {
		md = metadata.MD{}
	}
	for _, f := range actions {
		md.Set(f.Name, f.Value)
	}
	return d.with(ctx, md)
}

// withoutForged returns ctx without the metadata that only we set.
func (s *Server) withoutForged(ctx context.Context) context.Context {
	if !s.ruled { // without rules there are no soft limits
		return ctx
	}
	var md metadata.MD
	for _, name := range s.upstream.Of(s.gate.Rules()) {
		if len(metadata.ValueFromIncomingContext(ctx, name)) == 0 {
			continue
		}
		if md == nil {
			md, _ = metadata.FromIncomingContext(ctx)
		}
		delete(md, name)
	}
	if md == nil {
		return ctx
	}
	return metadata.NewIncomingContext(ctx, md)
}
