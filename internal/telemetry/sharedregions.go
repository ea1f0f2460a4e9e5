package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/internal/view"
)

// WatchSharedRegions adds to the metrics what the other regions have heard of, and what there is
// to tell them of the rules that are shared. read is called for each collection. The labels are
// the names of regions and the ids of rules in force.
func (m *Metrics) WatchSharedRegions(read func() view.Regions) {
	type told = view.RegionTold
	of := func(kind prometheus.ValueType, name, help string, value func(*told) float64) listedMetric[told] {
		return listedMetric[told]{kind, name, help, value, nil}
	}
	m.register.MustRegister(newListed(func() []told { return read().Told }, []string{"region"}, func(t *told) []string { return []string{t.Region} }, []listedMetric[told]{
		{nowValue, "headgate_regions_told_up", "1 while the store of the region hears what passes here, 0 while it is silent; no series before there was anything to tell.",
			func(t *told) float64 { return oneIf(t.State == view.PeerHeard) }, func(t *told) bool { return t.State != view.PeerUnheard }},
		of(nowValue, "headgate_regions_told_lag_seconds", "Time for which the store of the region had not heard of hits worth telling, in the last round: from when they were more than the floor.", func(t *told) float64 { return t.Lag }),
		of(nowValue, "headgate_regions_told_lag_bound_seconds", "Age beyond which hits count as told too late.", func(t *told) float64 { return t.LagBound }),
		of(nowValue, "headgate_regions_told_unheard_hits", "Hits, over all keys, that the store of the region had not heard of in the last round.", func(t *told) float64 { return float64(t.Unheard) }),
		of(nowValue, "headgate_regions_told_round_trip_seconds", "Time that the last answer of the store of the region took; 0 before the first.", func(t *told) float64 { return t.RoundTrip }),
		of(prometheus.CounterValue, "headgate_regions_told_totals_total", "Counts of buckets that the store of the region was told.", func(t *told) float64 { return float64(t.Totals) }),
		of(prometheus.CounterValue, "headgate_regions_told_failed_total", "Counts of buckets that the store of the region did not answer; they are told again.", func(t *told) float64 { return float64(t.Failed) }),
	}...))
	type rule = view.SharedRule
	shared := func(kind prometheus.ValueType, name, help string, value func(*rule) float64) listedMetric[rule] {
		return listedMetric[rule]{kind, name, help, value, nil}
	}
	m.register.MustRegister(newListed(func() []rule { return read().Shared }, []string{"rule"}, func(r *rule) []string { return []string{r.Rule} }, []listedMetric[rule]{
		shared(prometheus.CounterValue, "headgate_regions_shared_hits_total", "Hits that passed on this node, of which other regions are told.", func(r *rule) float64 { return float64(r.Hits) }),
		shared(prometheus.CounterValue, "headgate_regions_shared_back_total", "Hits that were given back on this node.", func(r *rule) float64 { return float64(r.Back) }),
		shared(prometheus.CounterValue, "headgate_regions_shared_resets_total", "Buckets that were reset on this node.", func(r *rule) float64 { return float64(r.Resets) }),
		shared(prometheus.CounterValue, "headgate_regions_shared_crowded_total", "Takes of which no region is told, because there was no room to count them.", func(r *rule) float64 { return float64(r.Crowded) }),
		shared(nowValue, "headgate_regions_shared_buckets", "Keys of which this node has a count.", func(r *rule) float64 { return float64(r.Buckets) }),
		shared(nowValue, "headgate_regions_shared_unheard_hits", "Hits on one key that a region had not heard of when it was last told: the most of any key and region. The sum over the nodes of all other regions bounds by how much a region exceeds the limit.", func(r *rule) float64 { return float64(r.Unheard) }),
		shared(nowValue, "headgate_regions_shared_most_hits", "Hits by which the limit can be exceeded whatever fails: as many as the other regions may let pass.", func(r *rule) float64 {
			most := int64(0)
			for i := range r.Limits {
				most = max(most, r.Limits[i].Most)
			}
			return float64(most)
		}),
	}...))
}
