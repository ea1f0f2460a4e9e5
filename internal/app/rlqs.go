package app

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/rlqs"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/telemetry"
)

// entering lets in who opens a stream over gRPC.
func entering(in *gate) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := rls.Enter(ctx, in); err != nil {
			return rls.KeptOut(err)
		}
		return nil
	}
}

// assigns serves Envoy's rate limit quota service to those who may check, on the port of
// Envoy's rate limit service.
func (p *process) assigns(s *config.Serve, envoy *rls.Options) {
	// What streams are promised is charged and given back for them: that is no right of theirs.
	charges := headgate.Rights{Check: true, GiveBack: true, Explain: true}
	enter := entering(p.gate(entrance{callers.GRPC, s.GRPCAddr, "rlqs", headgate.Rights{Check: true}}))
	service := rlqs.New(rlqs.Options{
		Decider: p.doors.openRaw("rlqs", charges),
		Store:   p.stack.backends[0].Store,
		Enter:   enter,
		OnPanic: envoy.OnPanic,
	})
	envoy.Serve(service.Register, rlqs.Method, enter)
	p.onDrain = append(p.onDrain, service.Drain)
	p.metrics.WatchRLQS(func() telemetry.RLQS { return telemetry.RLQS(service.Stats()) })
}
