package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/backlog"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/dualrun"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/snapfeed"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/tenantsource"
	"github.com/headgate/headgate/internal/urlrules"
	"github.com/headgate/headgate/internal/usagetoken"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/internal/webhook"
	"github.com/headgate/headgate/tenantusage"
)

// process is what every way of serving has: stores, rules in force, health, and
// the address for operators.
type process struct {
	settings *config.Settings
	does     config.Does
	options  Options
	logger   *slog.Logger
	metrics  *telemetry.Metrics
	observer *observers
	watching *watching
	stack    *stack
	hot      *hotReporter
	limiter  *headgate.Limiter
	usage    *tenantusage.Reader
	doors    doors
	trust    trust
	inlets   inlets
	keys     *keys
	balanced balanced
	refusals *refusals.Log
	health   *health
	ops      *http.Server

	rollBacks *tenantsource.RollBacks
	floods    *floods
	// credentials are the files of tokens and keys that are read again.
	credentials credentialFiles
	// publisher gives what the database says to others; nil: nobody gets it.
	publisher *snapfeed.Publisher
	// switches are those that are in no database; nil with one.
	switches *sharedSwitches
	// ways are those to the database and to brokers; drills has faults put there. A nil
	// drills never does.
	ways   ways
	drills *drills
	// servers are those of Redis, as they last told of themselves; nil where there are none.
	servers *inspector
	// hooks are those of --hooks, usageKeys those of --usage-key; nil without.
	hooks     *webhook.Config
	usageKeys *usagetoken.Keys

	// before is called in turn before anything is served.
	before []func(context.Context)
	// tasks run beside the fronts until the end begins.
	tasks []func(context.Context)
	// away has the rules that are at addresses; nil where none are.
	away *urlrules.Client
	// dualRun is nil where Envoy is answered by the rules of this process.
	dualRun atomic.Pointer[dualrun.Service]
	// atEnd is called when all else has ended.
	atEnd []func()
	// onDrain is called when the end begins, while callers are still served.
	onDrain []func()
	// hints, when not nil, prints what to try on the listeners of the fronts.
	hints func(map[string]net.Listener)
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
	// finished, or cut off since ctx has ended.
	Shutdown(ctx context.Context)
}

// newProcess makes the parts. Nothing runs and nothing listens yet.
func newProcess(s *config.Settings, does config.Does, k *keys, o Options) (*process, error) {
	metrics := telemetry.New(o.Build, telemetry.Options{
		Layer: s.Layer, EnvoyNames: s.EnvoyMetrics, PlainNames: s.PlainMetrics, Exemplars: s.TraceEndpoint != (config.StoreURL{}),
		EnvoyCounts: s.Statsd.Sends(), NearLimit: s.NearLimitRatio,
		OnOtherValues: func() {
			o.Logger.Warn("there are too many values of requests for a name of a metric each, which a rule asks for by detailed_metric or value_to_metric: the others have one for each rule")
		},
	})
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	hot := &hotReporter{metrics: metrics, logger: o.Logger}
	release := holdState(s.StateDir, o.Logger)
	stores, err := newStack(s, does.Decide, hot)
	if err != nil {
		release()
		return nil, err
	}
	stores.watch(metrics)
	if o.LinesDropped != nil {
		metrics.WatchLog(o.LinesDropped)
	}
	p := &process{
		settings: s, does: does, keys: k, options: o, logger: o.Logger, metrics: metrics,
		observer: &observers{metrics: metrics, logger: o.Logger}, stack: stores, hot: hot,
		health:    &health{logger: o.Logger, metrics: metrics, explain: o.Explain, hurry: sleep.NewNudge()},
		rollBacks: tenantsource.NewRollBacks(o.Logger), floods: &floods{logger: o.Logger},
		atEnd: []func(){release},
	}
	metrics.WatchFloods(p.floods.total)
	p.inlets.logger = o.Logger
	metrics.WatchListeners(p.inlets.counts, p.inlets.expiries)
	metrics.WatchCredentials(p.credentials.states)
	if err := p.assemble(); err != nil {
		for _, end := range p.atEnd {
			end()
		}
		p.watching.close(context.Background()) // nothing waits
		return nil, errors.Join(err, stores.Close())
	}
	return p, nil
}

func (p *process) assemble() error {
	p.watchRefusals()
	err := p.watch()
	if err != nil {
		return err
	}
	if err := p.watchHooks(); err != nil {
		return fmt.Errorf("--hooks: %w", err)
	}
	options := headgate.Options{
		Store: p.stack, Fallback: p.stack.fallback(), Shadow: p.settings.Shadow, Recorder: p.keys.veil.Recorder(p.watching.events), Observer: p.observer,
		Now: p.stack.wall.Now, OnRollBack: p.rollBacks.Tell, Answers: p.stack.answers(), AnswersAwaited: answersAwaited(p.settings.StoreBudget),
	}
	if p.watchHotRaises(); p.hot.raiser != nil {
		options.KeyRaises = p.hot.raiser
	}
	if ledger := p.watchPassed(); ledger != nil {
		options.OnPassed = ledger.Passed
	}
	if p.limiter, err = headgate.New(options); err != nil {
		return err
	}
	p.usage = tenantusage.New(tenantusage.Options{Limiter: p.limiter, Store: p.stack, Peeks: p.stack.peeks})
	p.doors.limiter, p.doors.logger, p.doors.keys = p.limiter, p.logger, p.keys
	p.metrics.WatchRefused(p.doors.refused)
	p.metrics.WatchCandidates(p.limiter.Candidates)
	p.metrics.WatchReservations(p.limiter.Reservations)
	p.metrics.WatchCheckIDs(p.limiter.CheckIDs)
	if p.stack.accuracy != nil {
		p.metrics.WatchAccuracy(func() []view.RuleAccuracy { return p.watching.accuracy().Rules })
	}
	if !p.stack.backends[0].inMemory() {
		p.health.ping = p.stack.ping
	}
	if p.hasRules() {
		told := &ruleReporter{metrics: p.metrics, logger: p.logger, explain: p.options.Explain, ruleKeys: p.watching.setRules, modesAreExact: p.stack.modesAreExact(), fit: p.stack.fit, fronts: p.options.fronts}
		if p.health.rules, err = newRuleSource(p.settings, p.keys, p.limiter, told); err != nil {
			return err
		}
		if err := p.feedRules(&p.settings.XDS); err != nil {
			return err
		}
		if err := p.pollRules(&p.settings.RulesAway); err != nil {
			return err
		}
	}
	if err := p.watchTenants(); err != nil {
		return err
	}
	p.health.needsRules = p.settings.ReadyWithRules
	p.watchSwitches()
	p.watchDrills()
	if err := p.sendStatistics(&p.settings.Statsd); err != nil {
		return err
	}
	if err := p.pushMetrics(&p.settings.Observing); err != nil {
		return err
	}
	p.trust.ops = p.gate(entrance{at: callers.Ops, front: "ops", needs: headgate.Rights{Explain: true}})
	p.ops, err = p.opsServer()
	return err
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

// hasRules reports whether rules may come into force, of files or of a database.
func (p *process) hasRules() bool {
	return p.settings.Rules != "" || p.settings.FedRules() || p.settings.Tenants != config.DatabaseURL{} || p.settings.Follows()
}

// loadRules puts the rules in force, if there are any.
func (p *process) loadRules() error {
	if p.health.rules == nil {
		if p.does.Alone() {
			return nil
		}
		p.logger.Warn("no rules: only limits that callers name are decided; hint: --rules FILE_OR_DIR")
		return nil
	}
	err := p.firstRules()
	if err == nil || !p.options.startWithoutRules {
		return err
	}
	return p.health.rules.Await(err)
}

func (p *process) firstRules() error {
	if p.away != nil {
		return p.health.rules.LoadFrom(p.away.Read(context.Background())) // within a time of its own
	}
	return p.health.rules.Load()
}

var errAwaited = errors.New("no rate limit configuration loaded")

// unanswered returns why Envoy gets no answer yet; nil when it gets one.
func (p *process) unanswered() error {
	if p.health.rules.Awaited() {
		return errAwaited
	}
	return nil
}

// domains returns the domains that have rules.
func (p *process) domains() []string {
	if set := p.limiter.Rules(); set != nil {
		return set.Domains()
	}
	return nil
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
	p.metrics.WatchBalanced(p.balanced.stats)
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
	if p.hints != nil {
		p.hints(bound)
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

// watchTenants makes the parts that tell what tenants may use, if settings name any.
func (p *process) watchTenants() error {
	s := p.settings
	if s.Tiers == "" && s.Tenants == (config.DatabaseURL{}) && !s.Follows() {
		return nil
	}
	o := tenantsource.Options{
		Tiers: s.Tiers, Poll: s.RulesPoll, Database: s.Tenants.Reveal(), Replica: s.TenantsReplica.Reveal(), Kept: s.TenantsFile, Dir: s.TenantsDir,
		Limiter: p.limiter, Rules: p.health.rules, Unfit: p.stack.unfit, OnRaise: p.watching.raised, Via: p.ways.database.Via, Logger: p.logger,
	}
	if err := p.feed(&o); err != nil {
		return err
	}
	t, err := tenantsource.New(o)
	if err != nil {
		return err
	}
	if s.Tenants != (config.DatabaseURL{}) {
		p.rollBacks.Database = t.Database
	}
	if s.Tenants != (config.DatabaseURL{}) || s.Follows() {
		p.metrics.WatchDocuments(t.Stored)
	}
	p.tasks = append(p.tasks, t.Tasks()...)
	p.health.tenants = t
	p.metrics.WatchTenants(t.State)
	if s.TenantsReplica != (config.DatabaseURL{}) {
		p.metrics.WatchReplica(t.ReplicaState)
	}
	return nil
}
