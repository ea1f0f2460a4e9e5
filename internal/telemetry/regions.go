package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/regional"
)

// WatchRegions adds what this node leases from the home of all regions to the metrics; home is
// the name of its store. read is called once for each collection.
func (m *Metrics) WatchRegions(home string, read func() regional.Stats) {
	labels := prometheus.Labels{"home": home}
	type s = *regional.Stats
	renewals := prometheus.NewDesc("headgate_regions_renewal_duration_seconds", "Time that questions to the home for leases took, including those that were not answered.", nil, labels)
	m.register.MustRegister(homeCollector{renewals, sampled[regional.Stats]{read, []metric[regional.Stats]{
		gaugeOf("headgate_regions_home_up", "1 while the home answered the last question, else 0.", labels, func(s s) float64 { return oneIf(s.Connected) }),
		gaugeOf("headgate_regions_home_heard_seconds", "Time since the home answered; 0 before the first answer.", labels, func(s s) float64 { return s.Heard.Seconds() }),
		gaugeOf("headgate_regions_round_trip_seconds", "Time that the last answer of the home took.", labels, func(s s) float64 { return s.RoundTrip.Seconds() }),
		gaugeOf("headgate_regions_epoch_age_seconds", "Age of the epoch of the home: limits are leased once it is older than they remember. Some 57 years where somebody has vouched for it.", labels, func(s s) float64 { return s.EpochAge.Seconds() }),
		counterOf("headgate_regions_epochs_total", "Epochs of the home that have begun, because it may have forgotten something.", labels, func(s s) float64 { return float64(s.Epochs) }),
		gaugeOf("headgate_regions_buckets", "Buckets of which this node holds rights, or has held some recently.", labels, func(s s) float64 { return float64(s.Buckets) }),
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
		counterOf("headgate_regions_unanswered_total", "Questions about its epoch that the home did not answer.", labels, func(s s) float64 { return float64(s.Unanswered) }),
		counterOf("headgate_regions_failed_total", "Leases and returns that the home did not answer.", labels, func(s s) float64 { return float64(s.Failed) }),
		counterOf("headgate_regions_crowded_total", "Takes for which there was no room to hold rights.", labels, func(s s) float64 { return float64(s.Crowded) }),
		counterOf("headgate_regions_clock_partings_total", "Times that all rights were dropped because wall clock and monotonic clock parted, as they do when a machine is suspended.", labels, func(s s) float64 { return float64(s.Partings) }),
	}}})
}

// homeCollector reads what is known of a home once for each collection.
type homeCollector struct {
	renewals *prometheus.Desc
	sampled[regional.Stats]
}

// Describe implements prometheus.Collector.
func (c homeCollector) Describe(ch chan<- *prometheus.Desc) {
	c.sampled.Describe(ch)
	ch <- c.renewals
}

// Collect implements prometheus.Collector.
func (c homeCollector) Collect(ch chan<- prometheus.Metric) {
	snapshot := c.read()
	c.send(ch, &snapshot)
	took := &snapshot.Renewals
	ch <- newHistogram(c.renewals, seconds(store.DurationBounds[:]), took.Buckets[:], took.Total.Seconds())
}

// ruleStates are the values of headgate_regions_rule_state.
var ruleStates = []string{view.RuleLeased, view.RuleOnReserve, view.RuleCutOff, view.RuleWaiting}

// WatchRegionRules adds to the metrics how the rules whose limits hold over several regions are
// doing. read is called for each collection. Their labels are the id of a rule in force and the
// name of its home, so that there are as many series as rules.
func (m *Metrics) WatchRegionRules(read func() view.Regions) {
	type rule = view.RegionRule
	labels := []string{"home", "rule"}
	gauge := func(name, help string, value func(*rule) float64) listedMetric[rule] {
		return listedMetric[rule]{nowValue, name, help, value, nil}
	}
	counter := func(name, help string, value func(*rule) float64) listedMetric[rule] {
		return listedMetric[rule]{prometheus.CounterValue, name, help, value, nil}
	}
	m.register.MustRegister(newListed(func() []rule { return read().Rules }, labels, func(r *rule) []string { return []string{r.Peer, r.Rule} }, []listedMetric[rule]{
		{nowValue, "headgate_regions_rule_state", "What decides the rule: 0 leases, 1 the reserve, because the home may have forgotten what it lent, 2 the reserve, because the home is silent, 3 what is held and then the reserve, because the home has not answered the last question.",
			func(r *rule) float64 { return float64(slices.Index(ruleStates, r.State)) }, func(r *rule) bool { return slices.Contains(ruleStates, r.State) }},
		gauge("headgate_regions_rule_hits_held", "Hits that this node may still let pass by what it has leased.", func(r *rule) float64 { return float64(r.Held) }),
		{nowValue, "headgate_regions_rule_reserve_left_ratio", "Part of the reserve that was left recently, for the key that had the least; no series if nothing has asked for it.",
			func(r *rule) float64 { return r.ReserveLeft }, func(r *rule) bool { return r.ReserveLeft >= 0 }},
		{nowValue, "headgate_regions_rule_unused_ratio", "Part of the hits lent in the last minute that nobody could use; no series if none were lent.",
			func(r *rule) float64 { return r.Unused }, func(r *rule) bool { return r.Unused >= 0 }},
		counter("headgate_regions_rule_hits_granted_total", "Hits that the home has lent to this node.", func(r *rule) float64 { return float64(r.Granted) }),
		counter("headgate_regions_rule_hits_used_total", "Hits of these that passed.", func(r *rule) float64 { return float64(r.Used) }),
		counter("headgate_regions_rule_hits_returned_total", "Hits of these that were given back.", func(r *rule) float64 { return float64(r.Returned) }),
		counter("headgate_regions_rule_hits_lost_total", "Hits of these that nobody could use.", func(r *rule) float64 { return float64(r.Lost) }),
		counter("headgate_regions_rule_leased_total", "Takes that passed by what this node had leased.", func(r *rule) float64 { return float64(r.Leased) }),
		counter("headgate_regions_rule_reserve_total", "Takes for which the reserve of this region was asked.", func(r *rule) float64 { return float64(r.Reserved) }),
		counter("headgate_regions_rule_denied_total", "Takes that the reserve denied too.", func(r *rule) float64 { return float64(r.Denied) }),
		gauge("headgate_regions_rule_excess_hits", "Hits by which more have passed than were lent, as this node has measured it since it started.", func(r *rule) float64 { return float64(r.Excess) }),
		gauge("headgate_regions_rule_bound_hits", "Hits by which more may pass than the limit, as the rule promises.", func(r *rule) float64 { return float64(r.Bound) }),
	}...))
	m.register.MustRegister(newListed(func() []view.RegionPeer { return read().Peers }, labels[:1], func(p *view.RegionPeer) []string { return []string{p.Name} },
		listedMetric[view.RegionPeer]{nowValue, "headgate_regions_lag_bound_seconds", "Round trip beyond which leases end before the next ones arrive: half of the shortest lease of the rules; no series if no rule leases.",
			func(p *view.RegionPeer) float64 { return p.LagBound }, func(p *view.RegionPeer) bool { return p.LagBound > 0 }}))
}
