// Package telemetry turns decisions and the state of the process into
// Prometheus metrics. It is the only package that knows Prometheus.
//
// The values of every label come from configuration or from a fixed list: no
// key, address or header of a request ever makes a series. Series of rules that
// are no longer in force are dropped.
package telemetry

import (
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
)

// decisionBuckets are the bounds of the duration histogram in seconds: from a
// decision in memory to one that waited for a store in another region.
var decisionBuckets = []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1}

// nativeFactor is the growth from one bucket of the native histogram to the
// next; with it a quantile is off by 5 % at most.
const nativeFactor = 1.1

// nativeBuckets bounds the memory of the native histogram.
const nativeBuckets = 160

// Build says which headgate runs.
type Build struct {
	Version, Commit, Go string
}

// Metrics collects. Make one with New; it is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	decisions *prometheus.CounterVec
	requests  [requestOutcomes]prometheus.Counter
	failOpen  prometheus.Counter
	errors    map[store.Reason]*reasonCounter
	duration  prometheus.Histogram
	storeUp   prometheus.Gauge
	panics    prometheus.Counter
	hotKeys   *prometheus.CounterVec
	rules     ruleTable
	guards    guardMetrics
	reload    reloadMetrics
}

var (
	_ headgate.Observer      = (*Metrics)(nil)
	_ headgate.PanicObserver = (*Metrics)(nil)
)

// storeReasons are the values of the label reason.
var storeReasons = []store.Reason{
	store.Timeout, store.Unavailable, store.Overloaded, store.BreakerOpen, store.Denied, store.Full,
	store.ReadOnly, store.Loading, store.Misconfigured, store.Internal,
}

// New returns Metrics with a registry of its own, so that two may stand in one
// process.
func New(b Build) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), errors: map[store.Reason]*reasonCounter{}}
	m.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headgate_decisions_total",
		Help: "Limits decided, by rule and outcome (allowed, denied, shadow_denied, replaced, degraded_allowed, degraded_denied; local_allowed, local_denied: by the node alone, as the store could not; skipped: another limit of the request is known to deny).",
	}, []string{"rule", "outcome"})
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headgate_requests_total",
		Help: "Requests answered, by outcome (allowed, denied, degraded_allowed, degraded_denied, unmatched, unknown_domain).",
	}, []string{"outcome"})
	for i, name := range requestOutcomeNames {
		m.requests[i] = requests.WithLabelValues(name)
	}
	m.failOpen = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "headgate_failopen_total",
		Help: "Limits that allowed because the store could not decide.",
	})
	storeErrors := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headgate_store_errors_total",
		Help: "Requests that the store could not decide, by reason.",
	}, []string{"reason"})
	for _, r := range storeReasons {
		m.errors[r] = &reasonCounter{series: storeErrors.WithLabelValues(string(r))}
	}
	m.duration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:                            "headgate_decision_duration_seconds",
		Help:                            "Time to decide a call, whichever number of requests it carried, the store included.",
		Buckets:                         decisionBuckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: time.Hour,
	})
	m.storeUp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "headgate_store_up",
		Help: "1 while the store can decide, 0 while it cannot; asked every few seconds.",
	})
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "headgate_panics_total",
		Help: "Panics that were caught and answered by failure mode; each is a bug.",
	})
	m.hotKeys = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headgate_hot_keys_total",
		Help: "Keys of exact rules that became hot, by rule.",
	}, []string{"rule"})
	m.rules.init(m.decisions)
	m.registry.MustRegister(
		m.decisions, requests, m.failOpen, storeErrors, m.duration, m.storeUp, m.panics, m.hotKeys, buildInfo(b),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.guards.register(m.registry)
	m.reload.register(m.registry)
	return m
}

func buildInfo(b Build) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "headgate_build_info",
		Help:        "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	}, func() float64 { return 1 })
}

// Handler serves the metrics in the format that the caller asks for. What goes
// wrong while collecting is logged.
func (m *Metrics) Handler(logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:          log.New(slogWriter{logger}, "", 0),
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
}

// StoreUp notes whether the store can decide.
func (m *Metrics) StoreUp(up bool) { m.storeUp.Set(oneIf(up)) }

// HotKey counts a key of a rule that became hot; rule is the rule's ID.
func (m *Metrics) HotKey(rule string) {
	if _, inForce := m.rules.load().byID[rule]; !inForce {
		rule = outdatedRule
	}
	m.hotKeys.WithLabelValues(rule).Inc()
}

// Panicked counts a panic that was caught; it implements headgate.PanicObserver.
func (m *Metrics) Panicked(error) { m.panics.Inc() }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// slogWriter makes a line of the log package one of slog.
type slogWriter struct{ logger *slog.Logger }

func (w slogWriter) Write(line []byte) (int, error) {
	w.logger.Error("collect metrics", "error", string(line))
	return len(line), nil
}
