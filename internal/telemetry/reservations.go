package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/reservation"
)

// WatchReservations adds what was reserved and settled to the metrics. read is called once
// for each collection.
func (m *Metrics) WatchReservations(read func() reservation.Counts) {
	type counts = reservation.Counts
	all := byOutcome("headgate_reservations_total", "Reservations asked for, by outcome (made, denied).",
		outcome[counts]{"made", func(c *counts) uint64 { return c.Made }},
		outcome[counts]{"denied", func(c *counts) uint64 { return c.Denied }},
	)
	const name, help = "headgate_settlements_total",
		"Calls that settle a reservation, by operation (commit, cancel) and outcome (settled, settled_before, unknown: there was nothing to settle, undecided: the store did not answer)."
	for i := range len(counts{}.Commits) {
		word := reservation.Outcome(i).String()
		all = append(all,
			counterOf(name, help, prometheus.Labels{"op": "commit", "outcome": word}, func(c *counts) float64 { return float64(c.Commits[i]) }),
			counterOf(name, help, prometheus.Labels{"op": "cancel", "outcome": word}, func(c *counts) float64 { return float64(c.Cancels[i]) }),
		)
	}
	m.register.MustRegister(sampled[counts]{read, all})
}
