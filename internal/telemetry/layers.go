package telemetry

import (
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/fleet"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/reconcile"
	"github.com/headgate/headgate/store/subbucket"
)

// WatchLeases adds the state of leases to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchLeases(read func() lease.Stats) {
	m.register.MustRegister(sampled[lease.Stats]{read, []metric[lease.Stats]{
		gauge("headgate_lease_buckets", "Buckets of leased, synced and hot rules that this node follows.", func(s *lease.Stats) float64 { return float64(s.Buckets) }),
		gauge("headgate_leases_held", "Leases of this node that have something left.", func(s *lease.Stats) float64 { return float64(s.Leases) }),
		gauge("headgate_lease_hits_held", "Hits that this node may still let pass by its leases.", func(s *lease.Stats) float64 { return float64(s.Held) }),
		gauge("headgate_hot_keys", "Keys of exact rules that are hot now.", func(s *lease.Stats) float64 { return float64(s.Hot) }),
		counter("headgate_lease_hits_granted_total", "Hits that the store handed out in leases.", func(s *lease.Stats) float64 { return float64(s.Granted) }),
		counter("headgate_lease_hits_used_total", "Hits of leases that passed.", func(s *lease.Stats) float64 { return float64(s.Used) }),
		counter("headgate_lease_hits_returned_total", "Hits of leases that were given back.", func(s *lease.Stats) float64 { return float64(s.Returned) }),
		counter("headgate_lease_hits_expired_total", "Hits of leases that nobody used in time.", func(s *lease.Stats) float64 { return float64(s.Expired) }),
		counter("headgate_lease_decided_total", "Takes decided on this node, by a lease or by what was last seen of the bucket.", func(s *lease.Stats) float64 { return float64(s.Decided) }),
		counter("headgate_lease_direct_total", "Takes of leased, synced and hot buckets that the store was asked for one by one.", func(s *lease.Stats) float64 { return float64(s.Direct) }),
		counter("headgate_lease_calls_total", "Calls of the store for leases.", func(s *lease.Stats) float64 { return float64(s.LeaseCalls) }),
		counter("headgate_sync_exchanges_total", "Exchanges of synced buckets with the store.", func(s *lease.Stats) float64 { return float64(s.Exchanges) }),
		counter("headgate_sync_calls_total", "Calls of the store that carried exchanges.", func(s *lease.Stats) float64 { return float64(s.ExchangeCalls) }),
		counter("headgate_sync_dropped_hits_total", "Hits of synced buckets that were not charged because their window was over.", func(s *lease.Stats) float64 { return float64(s.Dropped) }),
		counter("headgate_lease_failures_total", "Calls for leases and exchanges that the store did not answer.", func(s *lease.Stats) float64 { return float64(s.Failures) }),
		counter("headgate_lease_clock_partings_total", "Times that all leases were dropped because wall clock and monotonic clock parted, as they do when a machine is suspended.", func(s *lease.Stats) float64 { return float64(s.Partings) }),
	}})
}

// WatchSubBuckets adds what was decided in sub-buckets to the metrics. read is
// called once for each collection.
func (m *Metrics) WatchSubBuckets(read func() subbucket.Stats) {
	m.register.MustRegister(sampled[subbucket.Stats]{read, []metric[subbucket.Stats]{
		counter("headgate_sub_bucket_hits_total", "Hits of buckets that are spread over sub-buckets.", func(s *subbucket.Stats) float64 { return float64(s.Hits) }),
		counter("headgate_sub_bucket_retries_total", "Times that a hit was tried again because a sub-bucket had denied it.", func(s *subbucket.Stats) float64 { return float64(s.Again) }),
		counter("headgate_sub_bucket_split_total", "Times that a hit was charged to several sub-buckets.", func(s *subbucket.Stats) float64 { return float64(s.Spread) }),
		counter("headgate_sub_bucket_denied_total", "Hits of buckets that are spread over sub-buckets, and that were denied in the end.", func(s *subbucket.Stats) float64 { return float64(s.Denied) }),
	}})
}

// WatchDenials adds the state of the memory of denials to the metrics. read is
// called once for each collection.
func (m *Metrics) WatchDenials(read func() denial.Stats) {
	m.register.MustRegister(sampled[denial.Stats]{read, []metric[denial.Stats]{
		gauge("headgate_denials", "Denials that are remembered now.", func(s *denial.Stats) float64 { return float64(s.Entries) }),
		gauge("headgate_denials_max", "Denials that can be remembered.", func(s *denial.Stats) float64 { return float64(s.MaxEntries) }),
		counter("headgate_denials_answered_total", "Takes that were denied from memory, without asking the store.", func(s *denial.Stats) float64 { return float64(s.Answered) }),
		counter("headgate_denials_skipped_total", "Takes that were not looked at because another one of their request is remembered as denied.", func(s *denial.Stats) float64 { return float64(s.Skipped) }),
		counter("headgate_denials_remembered_total", "Denials that were remembered.", func(s *denial.Stats) float64 { return float64(s.Remembered) }),
		counter("headgate_denials_dropped_total", "Denials dropped before their time because their bucket changed.", func(s *denial.Stats) float64 { return float64(s.Dropped) }),
		counter("headgate_denials_told_total", "Denials that other nodes were told of because they are asked for often.", func(s *denial.Stats) float64 { return float64(s.Told) }),
		counter("headgate_denials_heard_total", "Denials remembered because another node had told of them.", func(s *denial.Stats) float64 { return float64(s.Heard) }),
		counter("headgate_denials_share_failures_total", "Exchanges of denials with other nodes that failed.", func(s *denial.Stats) float64 { return float64(s.ShareFailures) }),
	}})
}

// WatchFleet adds the number of live nodes to the metrics. read is called once
// for each collection.
func (m *Metrics) WatchFleet(read func() fleet.Stats) {
	m.register.MustRegister(sampled[fleet.Stats]{read, []metric[fleet.Stats]{
		gauge("headgate_nodes_live", "Live nodes, including this one, as far as this node knows.", func(s *fleet.Stats) float64 { return float64(s.Live) }),
		counter("headgate_heartbeats_total", "Heartbeats of this node.", func(s *fleet.Stats) float64 { return float64(s.Answered + s.Failed) }),
		counter("headgate_heartbeats_missed_total", "Heartbeats that the store did not answer.", func(s *fleet.Stats) float64 { return float64(s.Failed) }),
	}})
}

// WatchReconcile adds what this node let pass by its share to the metrics. read is called
// once for each collection.
func (m *Metrics) WatchReconcile(read func() reconcile.Stats) {
	m.register.MustRegister(sampled[reconcile.Stats]{read, []metric[reconcile.Stats]{
		counter("headgate_reconcile_hits_total", "Hits that this node let pass by its share because the store did not answer, to be charged when it does.", func(s *reconcile.Stats) float64 { return float64(s.Passed) }),
		counter("headgate_reconcile_hits_charged_total", "Of these, hits that still counted when the store was back, and were charged.", func(s *reconcile.Stats) float64 { return float64(s.Charged) }),
		counter("headgate_reconcile_hits_uncertain_total", "Hits that were not charged because the store may have counted them: a call with them timed out.", func(s *reconcile.Stats) float64 { return float64(s.Uncertain) }),
		counter("headgate_reconcile_hits_full_total", "Hits that will not be charged because there was no room to remember their keys.", func(s *reconcile.Stats) float64 { return float64(s.Full) }),
		gauge("headgate_reconcile_keys", "Keys whose hits wait to be charged.", func(s *reconcile.Stats) float64 { return float64(s.Waiting) }),
	}})
}
