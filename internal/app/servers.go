package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/rls"
)

// lastRequests is how long the connections that were accepted last have to
// bring their first request before the server is shut down: from then on it
// hangs up on a request that it has read but not begun to serve.
const lastRequests = 200 * time.Millisecond

// gentleServer is an http.Server whose end cuts nobody off who is on the way.
type gentleServer struct {
	*http.Server
	name     string // in messages
	logger   *slog.Logger
	listener net.Listener
	// last is how long connections that were accepted last have to bring their
	// first request.
	last time.Duration
}

// gentle serves by s on the listener of the front of that name.
func (p *process) gentle(name string, s *http.Server) func(net.Listener) server {
	return func(l net.Listener) server {
		if s.TLSConfig == nil {
			l = p.floods.guard(name, l)
		}
		return &gentleServer{Server: s, name: name, logger: p.logger, listener: l, last: min(lastRequests, p.settings.DrainTimeout)}
	}
}

// Serve implements server.
func (g *gentleServer) Serve() error { return serveHTTP(g.Server, g.listener) }

// Shutdown implements server.
func (g *gentleServer) Shutdown(ctx context.Context) {
	g.listener.Close()
	select {
	case <-time.After(g.last):
	case <-ctx.Done():
	}
	if err := g.Server.Shutdown(ctx); err != nil {
		g.logger.Warn("HTTP requests were cut off", "front", g.name, "error", err)
		g.Close()
	}
}

func serveHTTP(server *http.Server, l net.Listener) error {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

// grpcServer is an rls.Server on its listener.
type grpcServer struct {
	*rls.Server
	listener net.Listener
	ctx      context.Context
	stop     context.CancelFunc
	done     chan struct{}
}

// startGRPC answers Envoy as o says.
func (p *process) startGRPC(o rls.Options) func(net.Listener) server {
	return func(l net.Listener) server {
		g := &grpcServer{Server: rls.NewServer(o), listener: p.floods.guard("grpc", l), done: make(chan struct{})}
		g.ctx, g.stop = context.WithCancel(context.Background())
		p.onDrain = append(p.onDrain, func() { g.SetServing(false) })
		return g
	}
}

// Serve implements server.
func (g *grpcServer) Serve() error {
	defer close(g.done)
	return g.Server.Serve(g.ctx, g.listener)
}

// Shutdown implements server. The timeout of the rls.Server bounds it.
func (g *grpcServer) Shutdown(context.Context) {
	g.stop()
	<-g.done
}
