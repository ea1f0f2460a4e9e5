package app

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/streamfront"
	"github.com/headgate/headgate/internal/telemetry"
)

// streams serves checks over streams on the port of Envoy's rate limit service, whose options
// decide how they are answered. Beside an old service that answers in place of this one there
// are none: they would be answered by another.
func (p *process) streams(s *config.Serve, envoy *rls.Options) {
	if envoy.Instead != nil {
		return
	}
	in := p.gate(entrance{callers.GRPC, s.GRPCAddr, "stream", decides})
	enter := entering(in)
	o := *envoy
	o.Checker, o.Admit = p.doors.openRaw("stream", headgate.Rights{}), rls.Callers(in)
	service := streamfront.New(streamfront.Options{
		Rounds:  rls.NewRounds(o),
		Enter:   enter,
		Longest: s.GRPCMaxConnectionAgeGrace,
		OnPanic: envoy.OnPanic,
	})
	envoy.Serve(service.Register, streamfront.Method, enter)
	envoy.OnDrain = service.Drain
	p.metrics.WatchStreams(func() telemetry.Streams { return telemetry.Streams(service.Stats()) })
}
