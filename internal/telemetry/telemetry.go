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
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate"
)

// Build says which headgate runs.
type Build struct {
	Version, Commit, Go string
}

// Options says which metrics there are beside the usual ones. The zero value is none.
type Options struct {
	// Layer, when not "", is the value of the label layer of every series: where the
	// process stands, such as "edge" or "backend".
	Layer string
	// EnvoyNames serves the statistics of envoyproxy/ratelimit too, by its names.
	EnvoyNames bool
	// EnvoyCounts has EnvoyStatistics count what they have.
	EnvoyCounts bool
	// NearLimit is the share of a limit above which they count hits as near it, from 0 (which
	// means 0.8) to 1, in thousandths.
	NearLimit float64
	// OnOtherValues, when not nil, is told once when values of requests that a rule wants in the
	// names of those statistics have no room there any more. It must not block.
	OnOtherValues func()
	// PlainNames serves the metrics ratelimit_* too, and those without a prefix.
	PlainNames bool
	// Exemplars links series to traces, in the OpenMetrics format.
	Exemplars bool
}

// Metrics collects. Make one with New; it is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	// register is registry, with the label layer where there is one.
	register prometheus.Registerer

	stripes   stripes
	exemplars *exemplars // nil: none
	detailed  *detailed  // nil: nobody asks for the statistics of envoyproxy/ratelimit
	storeUp   prometheus.Gauge
	panics    prometheus.Counter
	shards    func() []Shard // nil: not watched
	reload    reloadMetrics
	history   history
	// unfit are the calls that were refused before anything was decided.
	unfit    atomic.Uint64
	xds      awayMetrics
	rulesURL awayMetrics
}

var (
	_ headgate.Observer      = (*Metrics)(nil)
	_ headgate.PanicObserver = (*Metrics)(nil)
)

// New returns Metrics with a registry of its own, so that two may stand in one
// process.
func New(b Build, o Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.register = m.registry
	if o.Layer != "" {
		m.register = prometheus.WrapRegistererWith(prometheus.Labels{"layer": o.Layer}, m.registry)
	}
	if o.Exemplars {
		m.exemplars = new(exemplars)
	}
	near := nearShareOf(o.NearLimit)
	m.stripes.open(o.EnvoyNames || o.EnvoyCounts, near)
	if o.EnvoyNames || o.EnvoyCounts {
		m.detailed = &detailed{onOther: o.OnOtherValues, near: near}
		valuesWithoutName(m.register, m.detailed)
	}
	m.storeUp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "headgate_store_up",
		Help: "1 while the store can decide, 0 while it cannot; asked every second, and when a breaker opens or closes.",
	})
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "headgate_panics_total",
		Help: "Panics that were caught and answered by failure mode; each is a bug.",
	})
	m.register.MustRegister(
		decisionCollector{&m.stripes, m.exemplars}, m.storeUp, m.panics, buildInfo(b),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.reload.register(m.register)
	if o.EnvoyNames {
		m.register.MustRegister(envoyCollector{&m.stripes, &m.reload, m.detailed, &m.unfit})
	}
	if o.PlainNames {
		m.register.MustRegister(plainCollector{m})
	}
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
	metrics := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:          log.New(slogWriter{logger}, "", 0),
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(&untilGone{ResponseWriter: w}, r)
	})
}

// untilGone drops what is written for a reader who has gone. promhttp would go on, and
// log a line for each metric that it cannot send: whoever breaks off requests could
// fill the log.
type untilGone struct {
	http.ResponseWriter
	gone bool
}

func (w *untilGone) Write(b []byte) (int, error) {
	if !w.gone {
		_, err := w.ResponseWriter.Write(b)
		w.gone = err != nil
	}
	return len(b), nil
}

// StoreUp notes whether the store can decide.
func (m *Metrics) StoreUp(up bool) { m.storeUp.Set(oneIf(up)) }

// HotKey counts a key of a rule that became hot; rule is the rule's ID.
func (m *Metrics) HotKey(rule string) { m.stripes.hot(rule) }

// Unfit counts a call that was refused before anything was decided.
func (m *Metrics) Unfit() { m.unfit.Add(1) }

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
