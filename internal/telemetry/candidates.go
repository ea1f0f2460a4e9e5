package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
)

// WatchCandidates adds to the metrics what was seen of candidate limits. read is
// called once for each collection; it names each rule once.
func (m *Metrics) WatchCandidates(read func() []headgate.CandidateReport) {
	m.register.MustRegister(candidateCollector(read))
}

type candidateCollector func() []headgate.CandidateReport

// candidateMetrics are the metrics of one rule; the label is rule.
var candidateMetrics = []metric[headgate.CandidateReport]{
	candidateGauge("headgate_candidate_decided", "Requests of late that the rule alone decided, which its candidate limits were compared by.", func(r *headgate.CandidateReport) float64 { return float64(r.Decided) }),
	candidateGauge("headgate_candidate_added_denials", "Those of them that the candidate limits alone deny.", func(r *headgate.CandidateReport) float64 { return float64(r.Added) }),
	candidateGauge("headgate_candidate_avoided_denials", "Those of them that the main limits alone deny.", func(r *headgate.CandidateReport) float64 { return float64(r.Avoided) }),
	candidateGauge("headgate_candidate_rolled_back", "1 since this node took the candidate limits back by itself, else 0.", func(r *headgate.CandidateReport) float64 { return oneIf(!r.RolledBack.IsZero()) }),
}

func candidateGauge(name, help string, value func(*headgate.CandidateReport) float64) metric[headgate.CandidateReport] {
	return metric[headgate.CandidateReport]{prometheus.NewDesc(name, help, []string{"rule"}, nil), prometheus.GaugeValue, value}
}

// Describe implements prometheus.Collector.
func (candidateCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range candidateMetrics {
		ch <- candidateMetrics[i].desc
	}
}

// Collect implements prometheus.Collector.
func (read candidateCollector) Collect(ch chan<- prometheus.Metric) {
	for _, r := range read() {
		for i := range candidateMetrics {
			m := &candidateMetrics[i]
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&r), r.Rule)
		}
	}
}
