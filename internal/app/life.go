package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headgate/headgate/internal/backlog"
)

// life is what the parts of a process do when, which each adds as it is made.
type life struct {
	// before is called in turn before anything is served.
	before []func(context.Context)
	// tasks run beside the fronts until the end begins.
	tasks []func(context.Context)
	// onServing is called with the listeners of the fronts, by their names, once they serve.
	onServing []func(map[string]net.Listener)
	// onDrain is called when the end begins, while callers are still served.
	onDrain []func()
	// atEnd is called when all else has ended.
	atEnd []func()
}

// front is one way in: an address, and what serves there.
type front struct {
	// name stands in messages; the setting of addr is called by it, with "-addr".
	name, addr string
	// start returns the server of the listener. It is called once, when all
	// addresses are bound.
	start func(net.Listener) server
}

// server serves the connections of its listener.
type server interface {
	// Serve serves until Shutdown, and returns nil then.
	Serve() error
	// Shutdown takes no new connections and returns when what is under way is
	// finished, or cut off because ctx has ended.
	Shutdown(ctx context.Context)
}

// run serves on all fronts until ctx ends or one of them fails, then drains.
func (p *process) run(ctx context.Context, fronts []front) error {
	for _, prepare := range p.before {
		prepare(ctx)
	}
	scrapes, err := p.scrapes()
	if err != nil {
		return err
	}
	fronts = append(fronts, append(p.probes(), scrapes...)...)
	listeners, served, err := p.listen(ctx, fronts)
	if err != nil {
		return err
	}
	p.stack.join(p.logger)
	group, running := errgroup.WithContext(ctx)
	// The requests under way at the end need what tasks keep, the database among it.
	drained, stopTasks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTasks()
	servers := make([]server, len(fronts))
	for i, f := range fronts {
		servers[i] = f.start(served[i])
		group.Go(servers[i].Serve)
	}
	for _, ops := range served[len(fronts):] { // none, or that one
		in := p.httpInlet("ops", ops, p.ops)
		group.Go(func() error { return serveHTTP(p.ops, in) })
	}
	var tasks sync.WaitGroup
	for _, task := range p.allTasks() {
		tasks.Go(func() { task(drained) })
	}
	group.Go(func() error {
		<-running.Done()
		p.drain(ctx, listeners[:len(fronts)], servers)
		stopTasks()
		// Last, so that the end can be watched.
		p.ops.Close()
		return nil
	})
	p.announce(fronts, listeners)
	err = group.Wait()
	p.within(tasksTimeout, "files and databases", tasks.Wait)
	p.logger.Info("stopped")
	return err
}

// listen binds the addresses of all fronts and, last, that for operators. served are the
// listeners as servers get them.
func (p *process) listen(ctx context.Context, fronts []front) (listeners []*backlog.Listener, served []net.Listener, err error) {
	all := fronts[:len(fronts):len(fronts)]
	if p.settings.OpsAddr != "" {
		all = append(all, front{name: "ops", addr: p.settings.OpsAddr})
	}
	defer func() {
		for i := 0; err != nil && i < len(listeners); i++ {
			listeners[i].Close()
		}
	}()
	var names []string
	for _, f := range all {
		l, err := p.bind(ctx, f.name+"-addr", f.addr)
		if err != nil {
			return listeners, nil, err
		}
		listeners, names = append(listeners, backlog.Listen(l)), append(names, f.name)
		behind, err := p.behindBalancer(f.name, listeners[len(listeners)-1])
		if err != nil {
			return listeners, nil, err
		}
		served = append(served, behind)
	}
	p.metrics.WatchBalanced(p.inlets.balanced.stats)
	return listeners, served, p.settings.LoadBalancers.CheckListeners(names)
}

func (p *process) allTasks() []func(context.Context) {
	tasks := append(p.tasks[:len(p.tasks):len(p.tasks)], p.health.watchStore, p.rollBacks.Run)
	if slices.ContainsFunc(p.stack.backends, func(b backend) bool { return b.shards != nil }) {
		breakers := &breakerWatch{logger: p.logger, read: p.stack.shardStates, home: p.stack.regions.lends, reaches: p.stack.regions.reaches, changed: p.health.askStore}
		tasks = append(tasks, breakers.run)
	}
	if p.health.rules != nil {
		tasks = append(tasks, p.health.rules.Run)
	}
	return append(tasks, p.reloadOnSignal)
}

func (p *process) reloadOnSignal(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.options.Reload:
			p.logger.Info("reload asked for by signal")
			if p.health.rules != nil {
				p.health.rules.Reload()
			}
			if p.away != nil {
				p.away.Ask()
			}
			p.health.tenants.Reload()
		}
	}
}

// announce says where the process serves. The listeners are bound by now, so
// that a caller who reads this is not refused.
func (p *process) announce(fronts []front, listeners []*backlog.Listener) {
	names := make([]string, 0, len(listeners))
	bound := map[string]net.Listener{}
	for _, f := range fronts {
		names = append(names, f.name)
	}
	if len(listeners) > len(names) {
		names = append(names, "ops")
	}
	var line strings.Builder
	var attributes []any
	for i, name := range names {
		bound[name] = listeners[i]
		fmt.Fprintf(&line, " %s=%s", name, display(listeners[i]))
		attributes = append(attributes, name, display(listeners[i]))
	}
	p.logger.Info("serving", append(attributes[:len(attributes):len(attributes)],
		"roles", p.does.String(), "store", p.settings.Store, "store_per_second", p.settings.StorePerSecond, "stores", p.stack.named(), "version", p.options.Build.Version)...)
	if p.settings.LogFormat == "json" {
		// At a level that no setting leaves out: it is what was asked for.
		newLogger(p.options.Out, p.settings, slog.LevelInfo).Info("headgate ready", attributes...)
	} else {
		fmt.Fprintf(p.options.Out, "headgate ready%s\n", line.String())
	}
	for _, tell := range p.onServing {
		tell(bound)
	}
	p.tellManager(p.options.Manager.Ready)
}

// tellManager tells the manager of services, who may be gone: the process goes on without.
func (p *process) tellManager(tell func() error) {
	if err := tell(); err != nil {
		p.logger.Warn("the manager of services is not told; hint: Type=notify in the unit waits for it", "error", err)
	}
}

// lastRequests is the time for what is on the way when everybody new is refused: the rest of
// a handshake, and then the beginning of a request that has come.
const lastRequests = 200 * time.Millisecond

// drain ends the servers of callers: it turns readiness off, goes on serving for the drain
// delay, lets nobody new connect, accepts all who wait, and finishes what is under way. If
// ctx has not ended, a server has failed, and there is no point in waiting before the others
// stop too.
func (p *process) drain(ctx context.Context, listeners []*backlog.Listener, servers []server) {
	p.health.draining.Store(true)
	p.tellManager(p.options.Manager.Stopping)
	for _, tell := range p.onDrain {
		tell()
	}
	p.logger.Info("draining", "delay", p.settings.DrainDelay, "timeout", p.settings.DrainTimeout)
	last := min(lastRequests, p.settings.DrainTimeout)
	if ctx.Err() != nil {
		time.Sleep(p.settings.DrainDelay)
	}
	deadline, cancel := context.WithTimeout(context.Background(), 2*last+p.settings.DrainTimeout)
	defer cancel()
	if ctx.Err() != nil {
		var ending sync.WaitGroup
		for _, l := range listeners {
			ending.Go(func() { l.End(deadline, last) })
		}
		ending.Wait()
	}
	var ending sync.WaitGroup
	for _, s := range servers {
		ending.Go(func() { s.Shutdown(deadline) })
	}
	ending.Wait()
}

// leave ends what outlives the last decision: events are written, and what this node
// holds of the store goes back.
func (p *process) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), watchTimeout)
	defer cancel()
	var ending sync.WaitGroup
	ending.Go(func() { p.within(watchTimeout+slack, "events and spans", func() { p.watching.close(ctx) }) })
	p.within(p.stack.patience()+slack, "the store", func() { p.stack.leave(p.logger) })
	ending.Wait()
	for _, end := range p.atEnd {
		end()
	}
}

const (
	// tasksTimeout bounds how long the end of the process waits for what it keeps up to
	// date: files, and what it has read of databases, are written once more. A disk that
	// hangs cannot be interrupted.
	tasksTimeout = 10 * time.Second
	// slack is what a step that has a deadline of its own may take beyond it.
	slack = 2 * time.Second
)

// within takes a step of the end, and goes on without it when it takes longer.
func (p *process) within(longest time.Duration, of string, step func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		step()
	}()
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		p.logger.Error("the process ends without waiting any longer", "for", of, "waited", longest)
	}
}
