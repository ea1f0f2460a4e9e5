package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/store/regional"
)

// WatchRegions adds what this node leases from the home of all regions to the metrics; home is
// the name of its store. read is called once for each collection.
func (m *Metrics) WatchRegions(home string, read func() regional.Stats) {
	labels := prometheus.Labels{"home": home}
	type s = *regional.Stats
	m.register.MustRegister(sampled[regional.Stats]{read, []metric[regional.Stats]{
		gaugeOf("headgate_regions_home_up", "1 while the home answered the last question, else 0.", labels, func(s s) float64 {
			if s.Connected {
				return 1
			}
			return 0
		}),
		gaugeOf("headgate_regions_home_heard_seconds", "Time since the home answered; 0 before the first answer.", labels, func(s s) float64 { return s.Heard.Seconds() }),
		gaugeOf("headgate_regions_round_trip_seconds", "Time that the last answer of the home took.", labels, func(s s) float64 { return s.RoundTrip.Seconds() }),
		gaugeOf("headgate_regions_epoch_age_seconds", "Age of the epoch of the home: limits are leased once it is older than they remember.", labels, func(s s) float64 { return s.EpochAge.Seconds() }),
		counterOf("headgate_regions_epochs_total", "Epochs of the home that have begun, because it may have forgotten something.", labels, func(s s) float64 { return float64(s.Epochs) }),
		gaugeOf("headgate_regions_buckets", "Buckets of which this node holds rights, or has of late.", labels, func(s s) float64 { return float64(s.Buckets) }),
		gaugeOf("headgate_regions_hits_held", "Hits that this node may still let pass by what it has leased.", labels, func(s s) float64 { return float64(s.Held) }),
		counterOf("headgate_regions_hits_granted_total", "Hits that the home has lent to this node.", labels, func(s s) float64 { return float64(s.Granted) }),
		counterOf("headgate_regions_hits_used_total", "Hits of these that passed.", labels, func(s s) float64 { return float64(s.Used) }),
		counterOf("headgate_regions_hits_returned_total", "Hits of these that were given back.", labels, func(s s) float64 { return float64(s.Returned) }),
		counterOf("headgate_regions_hits_lost_total", "Hits of these that nobody could use.", labels, func(s s) float64 { return float64(s.Lost) }),
		counterOf("headgate_regions_hits_unsure_total", "Hits that were lent and not used because the home may have forgotten something meanwhile.", labels, func(s s) float64 { return float64(s.Unsure) }),
		counterOf("headgate_regions_leased_total", "Takes that passed by what this node had leased.", labels, func(s s) float64 { return float64(s.Leased) }),
		counterOf("headgate_regions_reserve_total", "Takes for which the reserve of this region was asked.", labels, func(s s) float64 { return float64(s.Reserved) }),
		counterOf("headgate_regions_denied_total", "Takes that the reserve denied too.", labels, func(s s) float64 { return float64(s.Denied) }),
		counterOf("headgate_regions_asked_total", "Leases and returns that the home was asked for.", labels, func(s s) float64 { return float64(s.Asked) }),
		counterOf("headgate_regions_failed_total", "Those of them that it did not answer.", labels, func(s s) float64 { return float64(s.Failed) }),
		counterOf("headgate_regions_crowded_total", "Takes for which there was no room to hold rights.", labels, func(s s) float64 { return float64(s.Crowded) }),
		counterOf("headgate_regions_clock_partings_total", "Times that all rights were dropped because wall clock and monotonic clock parted, as they do when a machine is suspended.", labels, func(s s) float64 { return float64(s.Partings) }),
	}})
}
