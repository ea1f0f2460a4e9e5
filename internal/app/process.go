package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/dualrun"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/tenantsource"
	"github.com/headgate/headgate/internal/urlrules"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/tenantusage"
)

// process is what every way of serving has: stores, rules in force, health, and
// the address for operators.
type process struct {
	life
	settings *config.Settings
	does     config.Does
	options  Options
	logger   *slog.Logger
	metrics  *telemetry.Metrics

	stack   *stack
	limiter *headgate.Limiter
	usage   *tenantusage.Reader
	hot     *hotReporter

	observer *observers
	watching *watching
	health   *health
	// servers are those of Redis, as they last told of themselves; nil where there are none.
	servers *inspector
	// dualRun is nil where Envoy is answered by the rules of this process.
	dualRun atomic.Pointer[dualrun.Service]

	inlets   *inlets
	doors    doors
	trust    trust
	refusals *refusals.Log
	keys     *keys
	// credentials are the files of tokens and keys that are read again.
	credentials credentialFiles

	ops *http.Server
	// administered is called when the admin API is made: each adds what operators may ask of
	// one part.
	administered []func(*adminapi.Options)

	// away has the rules that are at addresses; nil where none are.
	away      *urlrules.Client
	rollBacks *tenantsource.RollBacks
	// ways are those to the database and to brokers, where drills put faults.
	ways ways
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
		rollBacks: tenantsource.NewRollBacks(o.Logger), inlets: newInlets(o.Logger), life: life{atEnd: []func(){release}},
	}
	metrics.WatchFloods(p.inlets.floods.total)
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
	if err := p.watch(); err != nil {
		return err
	}
	if err := p.watchHooks(); err != nil {
		return fmt.Errorf("--hooks: %w", err)
	}
	if err := p.makeLimiter(); err != nil {
		return err
	}
	if !p.stack.backends[0].inMemory() {
		p.health.ping = p.stack.ping
	}
	if err := p.watchRules(); err != nil {
		return err
	}
	if err := p.watchTenants(); err != nil {
		return err
	}
	p.warnOfDeaf()
	p.watchSwitches()
	p.watchDrills()
	if err := p.sendStatistics(&p.settings.Statsd); err != nil {
		return err
	}
	if err := p.pushMetrics(&p.settings.Observing); err != nil {
		return err
	}
	p.trust.ops = p.gate(entrance{at: callers.Ops, front: "ops", needs: headgate.Rights{Explain: true}})
	var err error
	p.ops, err = p.opsServer()
	return err
}

// makeLimiter makes what decides, and the doors to it.
func (p *process) makeLimiter() (err error) {
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
	p.usage = tenantusage.New(tenantusage.Options{Limiter: p.limiter, Store: p.stack, Peeks: p.stack.peeks, Now: p.stack.wall.Now})
	p.doors.limiter, p.doors.logger, p.doors.keys = p.limiter, p.logger, p.keys
	p.metrics.WatchRefused(p.doors.refused)
	p.metrics.WatchCandidates(p.limiter.Candidates)
	p.metrics.WatchReservations(p.limiter.Reservations)
	p.metrics.WatchCheckIDs(p.limiter.CheckIDs)
	if p.stack.accuracy != nil {
		p.metrics.WatchAccuracy(func() []view.RuleAccuracy { return p.watching.accuracy().Rules })
	}
	return nil
}
