package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/rules"
)

// ReloadOutcome says how an attempt to put rules in force ended.
type ReloadOutcome string

// The outcomes of a reload.
const (
	ReloadLoaded   ReloadOutcome = "loaded"    // new rules are in force
	ReloadRefused  ReloadOutcome = "refused"   // the files are bad; nothing changed
	ReloadLastGood ReloadOutcome = "last_good" // the files were bad at start; the kept rules are in force
)

// reloadMetrics tells how the rules in force came about.
type reloadMetrics struct {
	total   map[ReloadOutcome]*atomic.Uint64
	failing prometheus.Gauge
	count   prometheus.Gauge
	since   prometheus.Gauge
	info    *prometheus.GaugeVec

	mu struct {
		sync.Mutex
		version string
	}
}

func (r *reloadMetrics) register(registry prometheus.Registerer) {
	r.total = map[ReloadOutcome]*atomic.Uint64{}
	for _, o := range []ReloadOutcome{ReloadLoaded, ReloadRefused, ReloadLastGood} {
		n := new(atomic.Uint64)
		r.total[o] = n
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "headgate_rules_reloads_total",
			Help:        "Attempts to put rules in force, by outcome (loaded, refused, last_good).",
			ConstLabels: prometheus.Labels{"outcome": string(o)},
		}, func() float64 { return float64(n.Load()) }))
	}
	r.failing = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "headgate_rules_stale",
		Help: "1 while the rule files are not those in force because they were refused, else 0.",
	})
	r.count = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "headgate_rules",
		Help: "Rules in force.",
	})
	r.since = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "headgate_rules_loaded_timestamp_seconds",
		Help: "Unix time at which the rules in force were loaded; their age is time() minus this.",
	})
	r.info = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "headgate_rules_info",
		Help: "Always 1; the label is the version (content hash) of the rules in force.",
	}, []string{"version"})
	registry.MustRegister(r.failing, r.count, r.since, r.info)
}

// RulesInForce notes that set decides from now on, which is at. Call it before
// the limiter gets the set, so that no decision meets a rule that is not known.
func (m *Metrics) RulesInForce(set *rules.Set, at time.Time) {
	m.stripes.set(set.Rules())
	if m.detailed != nil {
		m.detailed.set(set.Rules())
	}
	version := set.Version()
	m.reload.mu.Lock()
	defer m.reload.mu.Unlock()
	if m.reload.mu.version != version {
		m.reload.info.DeleteLabelValues(m.reload.mu.version)
		m.reload.mu.version = version
	}
	m.reload.info.WithLabelValues(version).Set(1)
	m.reload.count.Set(float64(set.NumRules()))
	m.reload.since.Set(float64(at.UnixMilli()) / 1e3)
}

// Reloaded counts an attempt to put rules in force.
func (m *Metrics) Reloaded(o ReloadOutcome) {
	m.reload.total[o].Add(1)
	m.RulesStale(o != ReloadLoaded)
}

// RulesStale notes whether the rule files differ from the rules in force because
// they were refused.
func (m *Metrics) RulesStale(stale bool) { m.reload.failing.Set(oneIf(stale)) }
