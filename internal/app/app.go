// Package app wires the parts of a serving headgate together and runs them: it
// is the only place that knows them all.
//
// The order of an end is the order in which callers can follow: first the
// process says that it is not ready, and goes on serving for a while; then it
// takes no new connections and finishes what is under way, within a deadline;
// then the operators' address goes; then what was leased is given back, the node
// leaves the fleet, and last the store is closed.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/telemetry"
)

// Options is what Run needs beside the settings.
type Options struct {
	// Build says which headgate this is.
	Build telemetry.Build
	// Logger gets all messages; required.
	Logger *slog.Logger
	// Out gets the addresses once they serve, and hints; required.
	Out io.Writer
	// Reload asks for a reload of the rules by every value; nil never does.
	Reload <-chan os.Signal
}

// Run serves by settings s until ctx ends, then stops gently. It returns nil
// when everything under way was finished.
func Run(ctx context.Context, s config.Settings, o Options) error {
	a, err := build(s, o)
	if err != nil {
		return err
	}
	// Last: what this node holds goes back when no decision can follow.
	defer a.stack.leave(o.Logger)
	if a.health.rules != nil {
		if err := a.health.rules.Load(); err != nil {
			return err
		}
	} else {
		o.Logger.Warn("no rules: only limits that callers name are decided; hint: --rules FILE_OR_DIR")
	}
	if err := a.listen(ctx); err != nil {
		return err
	}
	defer a.closeListeners()
	return a.serve(ctx)
}

// parts are the parts of one process.
type parts struct {
	settings config.Settings
	options  Options
	logger   *slog.Logger
	stack    *stack
	limiter  *headgate.Limiter
	health   *health

	rlsOptions rls.Options
	rls        *rls.Server // made by serve, since it starts goroutines
	http       *http.Server
	ops        *http.Server

	httpListener, grpcListener, opsListener net.Listener
}

// build makes the parts. Nothing runs and nothing listens yet.
func build(s config.Settings, o Options) (*parts, error) {
	metrics := telemetry.New(o.Build)
	stores, err := newStack(&s, &hotReporter{metrics: metrics, logger: o.Logger})
	if err != nil {
		return nil, err
	}
	stores.watch(metrics)
	a := &parts{settings: s, options: o, logger: o.Logger, stack: stores}
	if err := a.assemble(metrics); err != nil {
		return nil, errors.Join(err, stores.Close())
	}
	return a, nil
}

func (a *parts) assemble(metrics *telemetry.Metrics) error {
	watched := observer{metrics, a.logger}
	limiter, err := headgate.New(headgate.Options{
		Store: a.stack, Fallback: a.stack.local, Shadow: a.settings.Shadow, Observer: watched,
	})
	if err != nil {
		return err
	}
	a.limiter = limiter
	a.health = &health{logger: a.logger, metrics: metrics}
	if !a.stack.backends[0].inMemory() {
		a.health.ping = a.stack.ping
	}
	if a.settings.Rules != "" {
		told := &ruleReporter{metrics: metrics, logger: a.logger, modesAreExact: a.stack.modesAreExact(), unfit: a.stack.unfit}
		if a.health.rules, err = newRuleSource(&a.settings, limiter, told); err != nil {
			return err
		}
	}
	return a.assembleServers(watched)
}

// observer counts decisions, and logs panics too.
type observer struct {
	*telemetry.Metrics
	logger *slog.Logger
}

// Panicked implements headgate.PanicObserver.
func (o observer) Panicked(err error) {
	o.Metrics.Panicked(err)
	o.logger.Error("a panic was caught; failure modes answered", "error", err)
}

func (a *parts) assembleServers(watched observer) error {
	answer, err := answerOptions(&a.settings)
	if err != nil {
		return err
	}
	if a.rlsOptions, err = rlsOptions(&a.settings, a.limiter, answer); err != nil {
		return err
	}
	a.rlsOptions.OnPanic = func(cause any, stack []byte) {
		watched.Panicked(fmt.Errorf("while answering Envoy: %v\n%s", cause, stack))
	}
	// Over HTTP a rule that fails closed is 503, never to be mistaken for a
	// limit that is used up, whatever Envoy is told.
	overHTTP := a.rlsOptions
	overHTTP.ClosedAsError = true
	checks, err := httpcheck.NewHandler(httpcheck.Options{
		Checker:           a.limiter,
		Answer:            answer,
		TrustCallerLimits: a.settings.CallerLimits,
		JSON:              rls.NewJSONHandler(overHTTP),
		Ready:             a.health.ready,
	})
	if err != nil {
		return err
	}
	a.http = newHTTPServer(closing(&a.health.draining, checks), a.logger)
	a.ops = newHTTPServer(opsHandler(a.health, a.limiter), a.logger)
	a.ops.WriteTimeout = 0 // a profile takes as long as it was asked to
	return nil
}

// rlsOptions returns how Envoy is answered.
func rlsOptions(s *config.Settings, checker rls.Checker, answer httpanswer.Options) (rls.Options, error) {
	o := rls.Options{
		Checker:         checker,
		Compat:          s.EnvoyCompat(),
		ClosedAsError:   s.RLSClosed == "error",
		DynamicMetadata: s.RLSMetadata,
		DrainTimeout:    s.DrainTimeout,
	}
	if s.DrainTimeout == 0 {
		o.DrainTimeout = -1 // at once
	}
	var err error
	switch s.RLSHeaders {
	case "envoy":
		o.Headers = rls.DefaultHeaderNames()
	case "http":
		o.Answer, err = httpanswer.New(answer)
	}
	return o, err
}

// answerOptions returns what clients are told over HTTP.
func answerOptions(s *config.Settings) (httpanswer.Options, error) {
	generation, err1 := httpanswer.ParseGeneration(s.Headers)
	reset, err2 := httpanswer.ParseResetFormat(s.XRateLimitReset)
	body, err3 := httpanswer.ParseBody(s.Body)
	return httpanswer.Options{
			Generation: generation, OmitX: !s.XRateLimit, Reset: reset, Body: body, Jitter: s.RetryJitter,
		},
		errors.Join(err1, err2, err3)
}

func (a *parts) listen(ctx context.Context) error {
	for _, l := range []struct {
		setting, addr string
		listener      *net.Listener
	}{
		{"http-addr", a.settings.HTTPAddr, &a.httpListener},
		{"grpc-addr", a.settings.GRPCAddr, &a.grpcListener},
		{"ops-addr", a.settings.OpsAddr, &a.opsListener},
	} {
		var err error
		if *l.listener, err = listen(ctx, l.setting, l.addr); err != nil {
			a.closeListeners()
			return err
		}
	}
	return nil
}

// closeListeners closes what is still open; servers close their own.
func (a *parts) closeListeners() {
	for _, l := range []net.Listener{a.httpListener, a.grpcListener, a.opsListener} {
		if l != nil {
			l.Close()
		}
	}
}

// serve runs the servers until ctx ends or one of them fails, then drains.
func (a *parts) serve(ctx context.Context) error {
	a.stack.join()
	a.rls = rls.NewServer(a.rlsOptions)
	// grpcContext outlives ctx by the drain delay.
	grpcContext, stopGRPC := context.WithCancel(context.WithoutCancel(ctx))
	defer stopGRPC()
	group, running := errgroup.WithContext(ctx)
	grpcDone := make(chan struct{})
	group.Go(func() error {
		defer close(grpcDone)
		return a.rls.Serve(grpcContext, a.grpcListener)
	})
	group.Go(func() error { return serveHTTP(a.http, a.httpListener) })
	group.Go(func() error { return serveHTTP(a.ops, a.opsListener) })
	group.Go(func() error { a.health.watchStore(running); return nil })
	if a.health.rules != nil {
		group.Go(func() error { a.health.rules.Run(running); return nil })
		group.Go(func() error { a.reloadOnSignal(running); return nil })
	}
	group.Go(func() error {
		<-running.Done()
		a.drain(ctx, stopGRPC)
		<-grpcDone
		// Last, so that the end can be watched.
		a.ops.Close()
		return nil
	})
	a.announce()
	err := group.Wait()
	a.logger.Info("stopped")
	return err
}

func serveHTTP(server *http.Server, l net.Listener) error {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

func (a *parts) reloadOnSignal(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.options.Reload:
			a.logger.Info("reload asked for by signal")
			a.health.rules.Reload()
		}
	}
}

// announce says where the process serves. The listeners are bound by now, so
// that a caller who reads this is not refused.
func (a *parts) announce() {
	a.logger.Info("serving",
		"http", display(a.httpListener), "grpc", display(a.grpcListener), "ops", display(a.opsListener),
		"store", a.settings.Store, "store_per_second", a.settings.StorePerSecond, "version", a.options.Build.Version)
	fmt.Fprintf(a.options.Out, "headgate ready http=%s grpc=%s ops=%s\n",
		display(a.httpListener), display(a.grpcListener), display(a.opsListener))
	if a.settings.Hints {
		printHints(a.options.Out, a.httpListener, a.limiter.Rules(), a.settings.CallerLimits)
	}
}

// drain ends the servers of callers; that of gRPC goes on to finish its calls.
// If ctx has not ended, a server has failed, and there is no point in waiting
// before the others stop too.
func (a *parts) drain(ctx context.Context, stopGRPC context.CancelFunc) {
	a.health.draining.Store(true)
	a.rls.SetServing(false)
	a.logger.Info("draining", "delay", a.settings.DrainDelay, "timeout", a.settings.DrainTimeout)
	if ctx.Err() != nil {
		time.Sleep(a.settings.DrainDelay)
	}
	stopGRPC()
	a.httpListener.Close()
	if ctx.Err() != nil {
		time.Sleep(min(lastRequests, a.settings.DrainTimeout))
	}
	deadline, cancel := context.WithTimeout(context.Background(), a.settings.DrainTimeout)
	defer cancel()
	if err := a.http.Shutdown(deadline); err != nil {
		a.logger.Warn("HTTP requests were cut off", "error", err)
		a.http.Close()
	}
}
