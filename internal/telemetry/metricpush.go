package telemetry

import "github.com/prometheus/client_golang/prometheus"

// MetricPush counts exports of all metrics to a collector: those that it has taken, and those that
// it has not.
type MetricPush struct{ Sent, Failed uint64 }

// WatchMetricPush adds the exports to the metrics. read is called once for each collection.
func (m *Metrics) WatchMetricPush(read func() MetricPush) {
	const name, help = "headgate_metric_exports_total", "Exports of all metrics to --metrics-endpoint, by outcome (sent, failed)."
	outcome := func(text string) prometheus.Labels { return prometheus.Labels{"outcome": text} }
	m.register.MustRegister(sampled[MetricPush]{read, []metric[MetricPush]{
		counterOf(name, help, outcome("sent"), func(s *MetricPush) float64 { return float64(s.Sent) }),
		counterOf(name, help, outcome("failed"), func(s *MetricPush) float64 { return float64(s.Failed) }),
	}})
}

// Gatherer returns what collects all metrics, for who sends them elsewhere.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }
