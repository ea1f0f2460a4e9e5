package telemetry

import "github.com/prometheus/client_golang/prometheus"

// MetricPush counts exports of all metrics to a collector: those that it has taken, and those that
// it has not.
type MetricPush struct{ Sent, Failed uint64 }

// WatchMetricPush adds the exports to the metrics. read is called once for each collection.
func (m *Metrics) WatchMetricPush(read func() MetricPush) {
	m.register.MustRegister(sampled[MetricPush]{read, byOutcome("headgate_metric_exports_total", "Exports of all metrics to --metrics-endpoint, by outcome (sent, failed).",
		outcome[MetricPush]{"sent", func(s *MetricPush) uint64 { return s.Sent }},
		outcome[MetricPush]{"failed", func(s *MetricPush) uint64 { return s.Failed }},
	)})
}

// Gatherer returns what collects all metrics, for who sends them elsewhere.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }
