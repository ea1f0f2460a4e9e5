package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/repeat"
)

// WatchCheckIDs adds what came of checks with an id to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchCheckIDs(read func() repeat.Counts) {
	m.register.MustRegister(checkIDCollector(read))
}

type checkIDCollector func() repeat.Counts

var checkIDsTotal = prometheus.NewDesc("headgate_check_ids_total",
	"Checks that carried an id, by outcome (first: decided and remembered; repeated: got the answer of another one; abandoned: the first one has no answer, so nothing was charged; conflict: the id belongs to another check; forgotten: decided and not remembered; undecided: the store did not say whether there was another one, so nothing was charged).",
	[]string{"outcome"}, nil)

// Describe implements prometheus.Collector.
func (checkIDCollector) Describe(ch chan<- *prometheus.Desc) { ch <- checkIDsTotal }

// Collect implements prometheus.Collector.
func (read checkIDCollector) Collect(ch chan<- prometheus.Metric) {
	c := read()
	ch <- total(checkIDsTotal, c.First, "first")
	ch <- total(checkIDsTotal, c.Repeated, "repeated")
	ch <- total(checkIDsTotal, c.Abandoned, "abandoned")
	ch <- total(checkIDsTotal, c.Conflicts, "conflict")
	ch <- total(checkIDsTotal, c.Forgotten, "forgotten")
	ch <- total(checkIDsTotal, c.Undecided, "undecided")
}
