package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// RulesURLOutcomes are what becomes of a round of questions to the addresses of rules.
var RulesURLOutcomes = []string{"accepted", "unchanged", "refused", "failed"}

// rulesURLMetrics tell of the addresses that have the rules.
type rulesURLMetrics struct {
	reached atomic.Bool
	rounds  map[string]*atomic.Uint64
}

// RulesURLReached notes whether all addresses have answered.
func (m *Metrics) RulesURLReached(is bool) { m.rulesURL.reached.Store(is) }

// RulesURLAnswered counts a round, by one of RulesURLOutcomes.
func (m *Metrics) RulesURLAnswered(o string) { m.rulesURL.rounds[o].Add(1) }

// WatchRulesURL serves the metrics of the addresses. It is called once, before RulesURLAnswered.
func (m *Metrics) WatchRulesURL() {
	m.register.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_rules_url_reached",
		Help: "1 while all addresses of --rules-url answer, else 0.",
	}, func() float64 { return oneIf(m.rulesURL.reached.Load()) }))
	m.rulesURL.rounds = map[string]*atomic.Uint64{}
	for _, o := range RulesURLOutcomes {
		n := new(atomic.Uint64)
		m.rulesURL.rounds[o] = n
		m.register.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "headgate_rules_url_rounds_total",
			Help:        "Rounds of questions to the addresses of --rules-url, by outcome (accepted, unchanged, refused, failed).",
			ConstLabels: prometheus.Labels{"outcome": o},
		}, func() float64 { return float64(n.Load()) }))
	}
}
