package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
	"github.com/headgate/headgate/rules/rulefile"
)

// watchRules makes what keeps rules in force, if any may come into force, of files, of
// addresses or of a database.
func (p *process) watchRules() (err error) {
	s := p.settings
	p.health.needsRules = s.ReadyWithRules
	if s.Rules == "" && !s.FedRules() && s.Tenants == (config.DatabaseURL{}) && !s.Follows() {
		return nil
	}
	told := &ruleReporter{metrics: p.metrics, logger: p.logger, explain: p.options.Explain, ruleKeys: p.watching.setRules, modesAreExact: p.stack.modesAreExact(), fit: p.stack.fit, fronts: p.options.fronts}
	if p.health.rules, err = newRuleSource(s, p.keys, p.limiter, told); err != nil {
		return err
	}
	if err := p.feedRules(&s.XDS); err != nil {
		return err
	}
	return p.pollRules(&s.RulesAway)
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

// newRuleSource returns the source that keeps the rules of s in force in
// limiter, and tells told.
func newRuleSource(s *config.Settings, k *keys, limiter *headgate.Limiter, told *ruleReporter) (*rulesource.Source, error) {
	failure, _ := rules.FailureModeOf(s.FailureMode) // the command line takes no other words
	read := rulefile.Options{
		Compat: s.EnvoyCompat(), Failure: failure, QuotaMode: s.QuotaMode, SpareDenied: s.SpareDenied, MergeDomains: s.MergeDomains,
		RowsDomain: s.RowsDomain, Fit: told.fit,
	}
	if k.names != nil {
		read.Names = k.names
	}
	return rulesource.New(rulesource.Options{
		Path:      s.Rules,
		Fed:       s.FedRules(),
		Rules:     read,
		AnyName:   s.EnvoyCompat(),
		StateDir:  s.StateDir,
		AllowDrop: s.AllowRuleDrop,
		Poll:      s.RulesPoll,
		Apply: func(set *rules.Set) {
			// The metrics first: no decision may meet a rule they do not know.
			told.metrics.RulesInForce(set, time.Now())
			told.ruleKeys(set)
			limiter.SetRules(set)
		},
		Report: told.report,
	})
}

// ruleReporter tells logs and metrics what happened to the rules.
type ruleReporter struct {
	metrics *telemetry.Metrics
	logger  *slog.Logger
	explain func(error) error // Options.Explain
	// ruleKeys is told of rules before they are in force.
	ruleKeys func(*rules.Set)
	// modesAreExact is why consistency modes change nothing, "" if they do or
	// if it was told.
	modesAreExact string
	// fit says why the stores cannot decide a rule; nil when they decide all.
	fit func(*rules.Rule) error
	// fronts are those of the process whose callers pass requests on themselves.
	fronts []lint.Front
}

// briefly is err as one line, with what explain, which may be nil, adds to it.
func briefly(err error, explain func(error) error) string {
	line := rulesource.Brief(err)
	if explain == nil {
		return line
	}
	return explain(errors.New(line)).Error()
}

func (r *ruleReporter) report(e rulesource.Event) {
	switch e.Kind {
	case rulesource.Loaded:
		r.metrics.Reloaded(telemetry.ReloadLoaded)
		r.logger.Info("rules in force", "rules", e.Set.NumRules(), "version", e.Set.Version())
		r.describe(e.Set)
	case rulesource.Unchanged:
		r.metrics.RulesStale(false)
		r.logger.Info("the rules are those in force again", "version", e.Set.Version())
	case rulesource.Refused:
		r.metrics.Reloaded(telemetry.ReloadRefused)
		if e.Set.NumRules() == 0 {
			r.logger.Error("rules refused, and no rules are in force", "error", briefly(e.Err, r.explain))
		} else {
			r.logger.Error("rules refused; those in force stay", "version", e.Set.Version(), "error", briefly(e.Err, r.explain))
		}
	case rulesource.LastGood:
		r.metrics.Reloaded(telemetry.ReloadLastGood)
		r.logger.Error("rules refused; the last good rules are in force", "rules", e.Set.NumRules(), "version", e.Set.Version(), "error", briefly(e.Err, r.explain))
		r.describe(e.Set)
	case rulesource.Joined:
		r.logger.Info("rules in force with those of the database", "rules", e.Set.NumRules(), "version", e.Set.Version())
		r.describe(e.Set)
	case rulesource.DocumentRefused:
		r.logger.Error("rules of the database are refused", "error", briefly(e.Err, r.explain))
	case rulesource.NotKept, rulesource.NotWatched:
		r.logger.Warn(e.Err.Error())
	}
}

// describe says what is to be known of rules that have come into force.
func (r *ruleReporter) describe(set *rules.Set) {
	r.warnings(set)
	r.unserved(set)
	r.modes(set)
}

// modes says once that the modes of rules change nothing, if so, and that no key is raised.
func (r *ruleReporter) modes(set *rules.Set) {
	if r.modesAreExact == "" {
		return
	}
	for _, rule := range set.Rules() {
		if rule.HotRaise.By > 0 {
			r.logger.Warn("rules raise hot keys, and no key is found hot: "+r.modesAreExact, "first", rule.ID)
			r.modesAreExact = ""
			return
		}
		if m := &rule.Mode; m.Leases() || m.Consistency == rules.Synced {
			r.logger.Info("rules name consistency modes, and are decided exactly all the same: "+r.modesAreExact, "first", rule.ID)
			r.modesAreExact = ""
			return
		}
	}
}

func (r *ruleReporter) warnings(set *rules.Set) {
	for _, w := range set.Warnings() {
		r.logger.Warn("rule file: " + w.String())
	}
}
