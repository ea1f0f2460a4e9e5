package app

import (
	"context"
	"fmt"
	"net"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/respfront"
	"github.com/headgate/headgate/internal/telemetry"
)

// redis returns the way in for clients of Redis; none without an address.
func (p *process) redis(s *config.Serve, answer httpanswer.Options) ([]front, error) {
	if s.RedisAddr == "" {
		return nil, nil
	}
	overTLS, err := p.callersTLS(&s.CallersTLS, "redis", s.RedisAddr)
	if err != nil {
		return nil, err
	}
	answers, err := respfront.New(respfront.Options{
		Entrance: respfront.Callers(p.gate(entrance{callers.Redis, s.RedisAddr, "redis", headgate.Rights{Check: true}})), // nothing is reserved there
		Answer:   answer,
		Turns:    p.doors.turns,
		OnPanic: func(cause any, stack []byte) {
			p.observer.Panicked(fmt.Errorf("while answering a client of Redis: %v\n%s", cause, stack))
		},
	})
	if err != nil {
		return nil, err
	}
	p.metrics.WatchRedis(func() (all []telemetry.RedisCommand) {
		for _, c := range answers.Commands() {
			all = append(all, telemetry.RedisCommand(c))
		}
		return all
	})
	return []front{{name: "redis", addr: s.RedisAddr, start: func(l net.Listener) server {
		return &redisServer{answers, p.inletWith("redis", l, inlet.Options{TLS: overTLS, Unguarded: true}), make(chan struct{})}
	}}}, nil
}

// redisServer is a respfront.Server on its listener.
type redisServer struct {
	*respfront.Server
	listener net.Listener
	served   chan struct{}
}

// Serve implements server.
func (r *redisServer) Serve() error {
	defer close(r.served)
	return r.Server.Serve(r.listener)
}

// Shutdown implements server.
func (r *redisServer) Shutdown(ctx context.Context) {
	r.listener.Close()
	<-r.served
	r.Server.Shutdown(ctx)
}
