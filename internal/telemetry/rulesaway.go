package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// awayMetrics tell of who has the rules, if that is not this machine: whether it answers, and what
// became of its answers.
type awayMetrics struct {
	answers  atomic.Bool
	outcomes map[string]*atomic.Uint64
}

// serve serves the two: a gauge that is 1 while there are answers, and a counter by outcome.
func (a *awayMetrics) serve(r prometheus.Registerer, gauge prometheus.GaugeOpts, counter prometheus.CounterOpts, outcomes []string) {
	r.MustRegister(prometheus.NewGaugeFunc(gauge, func() float64 { return oneIf(a.answers.Load()) }))
	a.outcomes = map[string]*atomic.Uint64{}
	for _, o := range outcomes {
		n := new(atomic.Uint64)
		a.outcomes[o] = n
		counter.ConstLabels = prometheus.Labels{"outcome": o}
		r.MustRegister(prometheus.NewCounterFunc(counter, func() float64 { return float64(n.Load()) }))
	}
}

// xdsOutcomes are what becomes of an answer of the control plane that has the rules.
var xdsOutcomes = []string{"accepted", "unchanged", "refused"}

// XDSConnected notes whether the control plane answers.
func (m *Metrics) XDSConnected(is bool) { m.xds.answers.Store(is) }

// XDSAnswered counts an answer of it, by one of xdsOutcomes.
func (m *Metrics) XDSAnswered(o string) { m.xds.outcomes[o].Add(1) }

// WatchXDS serves the metrics of the control plane. It is called once, before XDSAnswered.
func (m *Metrics) WatchXDS() {
	m.xds.serve(m.register, prometheus.GaugeOpts{
		Name: "headgate_rules_xds_connected",
		Help: "1 while the control plane that has the rules answers, else 0.",
	}, prometheus.CounterOpts{
		Name: "headgate_rules_xds_answers_total",
		Help: "Answers of the control plane that has the rules, by outcome (accepted, unchanged, refused).",
	}, xdsOutcomes)
}

// rulesURLOutcomes are what becomes of a round of questions to the addresses of rules.
var rulesURLOutcomes = []string{"accepted", "unchanged", "refused", "failed"}

// RulesURLReached notes whether all addresses have answered.
func (m *Metrics) RulesURLReached(is bool) { m.rulesURL.answers.Store(is) }

// RulesURLAnswered counts a round, by one of rulesURLOutcomes.
func (m *Metrics) RulesURLAnswered(o string) { m.rulesURL.outcomes[o].Add(1) }

// WatchRulesURL serves the metrics of the addresses. It is called once, before RulesURLAnswered.
func (m *Metrics) WatchRulesURL() {
	m.rulesURL.serve(m.register, prometheus.GaugeOpts{
		Name: "headgate_rules_url_reached",
		Help: "1 while all addresses of --rules-url answer, else 0.",
	}, prometheus.CounterOpts{
		Name: "headgate_rules_url_rounds_total",
		Help: "Rounds of questions to the addresses of --rules-url, by outcome (accepted, unchanged, refused, failed).",
	}, rulesURLOutcomes)
}
