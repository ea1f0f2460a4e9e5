package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// XDSOutcomes are what becomes of an answer of the control plane that has the rules.
var XDSOutcomes = []string{"accepted", "unchanged", "refused"}

// xdsMetrics tell of the control plane that has the rules.
type xdsMetrics struct {
	connected atomic.Bool
	answers   map[string]*atomic.Uint64
}

// XDSConnected notes whether the control plane answers.
func (m *Metrics) XDSConnected(is bool) { m.xds.connected.Store(is) }

// XDSAnswered counts an answer of it, by one of XDSOutcomes.
func (m *Metrics) XDSAnswered(o string) { m.xds.answers[o].Add(1) }

// WatchXDS serves the metrics of the control plane. It is called once, before XDSAnswered.
func (m *Metrics) WatchXDS() {
	m.register.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_rules_xds_connected",
		Help: "1 while the control plane that has the rules answers, else 0.",
	}, func() float64 { return oneIf(m.xds.connected.Load()) }))
	m.xds.answers = map[string]*atomic.Uint64{}
	for _, o := range XDSOutcomes {
		n := new(atomic.Uint64)
		m.xds.answers[o] = n
		m.register.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "headgate_rules_xds_answers_total",
			Help:        "Answers of the control plane that has the rules, by outcome (accepted, unchanged, refused).",
			ConstLabels: prometheus.Labels{"outcome": o},
		}, func() float64 { return float64(n.Load()) }))
	}
}
