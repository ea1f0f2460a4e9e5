package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/reservation"
)

// WatchReservations adds what was reserved and settled to the metrics. read is called once
// for each collection.
func (m *Metrics) WatchReservations(read func() reservation.Counts) {
	m.register.MustRegister(reservationCollector(read))
}

type reservationCollector func() reservation.Counts

var (
	reservationsTotal = prometheus.NewDesc("headgate_reservations_total", "Reservations asked for, by outcome (made, denied).", []string{"outcome"}, nil)
	settlementsTotal  = prometheus.NewDesc("headgate_settlements_total",
		"Calls that settle a reservation, by operation (commit, cancel) and outcome (settled, settled_before, unknown: there was nothing to settle, undecided: the store did not answer).",
		[]string{"op", "outcome"}, nil)
)

// Describe implements prometheus.Collector.
func (reservationCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- reservationsTotal
	ch <- settlementsTotal
}

// Collect implements prometheus.Collector.
func (read reservationCollector) Collect(ch chan<- prometheus.Metric) {
	c := read()
	ch <- total(reservationsTotal, c.Made, "made")
	ch <- total(reservationsTotal, c.Denied, "denied")
	for outcome := range c.Commits {
		word := reservation.Outcome(outcome).String()
		ch <- total(settlementsTotal, c.Commits[outcome], "commit", word)
		ch <- total(settlementsTotal, c.Cancels[outcome], "cancel", word)
	}
}
