package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/h1"
	"github.com/headgate/headgate/internal/h2"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/telemetry"
)

// newcomersTimeout bounds how long the end of a server waits for connections that have
// brought no request yet: as long as net/http waits for them. Some clients open connections
// that they may never use.
const newcomersTimeout = 5 * time.Second

// httpServing is an http.Server, or one that serves a part of its requests in another way.
type httpServing interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// gentleServer is a server of HTTP whose end cuts nobody off who is on the way.
type gentleServer struct {
	server    httpServing
	name      string // in messages
	logger    *slog.Logger
	listener  net.Listener
	newcomers *newcomers
	// patience is how long connections that were accepted last have to bring their
	// first request, and settling is how long a server has to begin to serve it.
	patience, settling time.Duration
}

// gentle serves by s on the listener of the front of that name.
func (p *process) gentle(name string, s *http.Server) func(net.Listener) server {
	return p.gentleBy(name, s, s)
}

// quick is gentle for a front whose requests are mostly small, and answered at once.
func (p *process) quick(name string, s *http.Server) func(net.Listener) server {
	return p.gentleBy(name, s, h1.New(s))
}

// gentleBy is gentle where requests of s are served by another server.
func (p *process) gentleBy(name string, s *http.Server, by httpServing) func(net.Listener) server {
	return func(l net.Listener) server {
		l = p.httpInlet(name, l, s)
		g := &gentleServer{
			server: by, name: name, logger: p.logger, listener: l, newcomers: &newcomers{conns: map[net.Conn]struct{}{}},
			patience: min(newcomersTimeout, p.settings.DrainTimeout), settling: min(lastRequests, p.settings.DrainTimeout),
		}
		s.ConnState = g.newcomers.watch
		return g
	}
}

// httpInlet is inlet for s, whose TLS is spoken before it.
func (p *process) httpInlet(name string, l net.Listener, s *http.Server) net.Listener {
	l = p.inlet(name, l, s.TLSConfig)
	if s.TLSConfig != nil {
		s.TLSConfig = nil
		inlet.HTTP(s)
	}
	return l
}

// Serve implements server.
func (g *gentleServer) Serve() error { return serveHTTP(g.server, g.listener) }

// Shutdown implements server. From the shutdown of an http.Server on, it hangs up on requests
// that it has read but not begun to serve: so it is told when there is none.
func (g *gentleServer) Shutdown(ctx context.Context) {
	g.listener.Close()
	g.newcomers.wait(ctx, g.patience)
	_ = sleep.For(ctx, g.settling)
	if err := g.server.Shutdown(ctx); err != nil {
		g.logger.Warn("HTTP requests were cut off", "front", g.name, "error", err)
		g.server.Close()
	}
}

// newcomers are the connections of a server that have not brought a request yet.
type newcomers struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	// count is len(conns), so that requests on other connections need no lock.
	count atomic.Int64
}

// watch is the ConnState of a server.
func (n *newcomers) watch(c net.Conn, state http.ConnState) {
	if state != http.StateNew && n.count.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if state == http.StateNew {
		n.conns[c] = struct{}{}
	} else {
		delete(n.conns, c)
	}
	n.count.Store(int64(len(n.conns)))
}

// wait returns when there are none, or after the time that it is given.
func (n *newcomers) wait(ctx context.Context, longest time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for range sleep.AtOnce(ctx, 5*time.Millisecond) {
		if n.count.Load() == 0 {
			return
		}
	}
}

func serveHTTP(server httpServing, l net.Listener) error {
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

// healthEvery is how often grpc.health.v1 hears whether the process is ready.
const healthEvery = time.Second

// startGRPC answers Envoy as o says.
func (p *process) startGRPC(o rls.Options, settings *tls.Config) func(net.Listener) server {
	return func(l net.Listener) server {
		g := &grpcServer{Server: rls.NewServer(o), done: make(chan struct{})}
		g.listener = p.inletWith("grpc", l, inlet.Options{TLS: settings, Unguarded: o.Own})
		g.ctx, g.stop = context.WithCancel(context.Background())
		if o.Own {
			p.watchOwn(g.Counters())
		}
		p.keepHealth(g.SetServing)
		return g
	}
}

// keepHealth has grpc.health.v1 say what /readyz does, by setServing: from now on, and at once when
// the end begins.
func (p *process) keepHealth(setServing func(bool)) {
	var mu sync.Mutex // so that what was true before the end is not said after it
	tell := func() {
		ready := p.health.ready() == nil // may wait for somebody, whom the end does not wait for
		mu.Lock()
		defer mu.Unlock()
		setServing(ready && !p.health.draining.Load())
	}
	tell()
	p.tasks = append(p.tasks, func(ctx context.Context) {
		for range sleep.Every(ctx, healthEvery) {
			tell()
		}
	})
	p.onDrain = append(p.onDrain, func() {
		mu.Lock()
		defer mu.Unlock()
		setServing(false)
	})
}

// watchOwn adds what the own transport of gRPC counts to the metrics.
func (p *process) watchOwn(c *h2.Counters) {
	p.inlets.floods.own = func() uint64 { return c.Of(h2.Flooded) + c.Of(h2.ResetTooMuch) }
	p.metrics.WatchGRPC(func() (all []telemetry.GRPCEvent) {
		c.Each(func(e h2.Event, n uint64) {
			all = append(all, telemetry.GRPCEvent{Event: e.String(), Count: n})
		})
		return all
	})
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
