package telemetry

// Leases is the state of the layer that decides leased, synced and hot buckets
// on this node.
type Leases struct {
	// Buckets is the number of buckets followed, Leases that of leases with
	// something left, Held the hits in them, Hot the number of hot keys.
	Buckets, Leases, Held, Hot int64
	// Granted, Used, Returned and Expired count hits in leases, since start.
	Granted, Used, Returned, Expired int64
	// Decided counts takes answered from memory, Direct those of such buckets
	// that the store was asked for one by one.
	Decided, Direct uint64
	// LeaseCalls and ExchangeCalls count calls of the store, Exchanges those of
	// synced buckets that they carried.
	LeaseCalls, Exchanges, ExchangeCalls uint64
	// Dropped counts hits of synced buckets that came too late to be charged.
	Dropped int64
	// Failures counts calls in the background that failed, Partings how often
	// all leases were dropped because the clocks of the machine parted.
	Failures, Partings uint64
}

// WatchLeases adds the state of leases to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchLeases(read func() Leases) {
	m.register.MustRegister(sampled[Leases]{read, []metric[Leases]{
		gauge("headgate_lease_buckets", "Buckets of leased, synced and hot rules that this node follows.", func(s *Leases) float64 { return float64(s.Buckets) }),
		gauge("headgate_leases_held", "Leases of this node that have something left.", func(s *Leases) float64 { return float64(s.Leases) }),
		gauge("headgate_lease_hits_held", "Hits that this node may still let pass by its leases.", func(s *Leases) float64 { return float64(s.Held) }),
		gauge("headgate_hot_keys", "Keys of exact rules that are hot now.", func(s *Leases) float64 { return float64(s.Hot) }),
		counter("headgate_lease_hits_granted_total", "Hits that the store handed out in leases.", func(s *Leases) float64 { return float64(s.Granted) }),
		counter("headgate_lease_hits_used_total", "Hits of leases that passed.", func(s *Leases) float64 { return float64(s.Used) }),
		counter("headgate_lease_hits_returned_total", "Hits of leases that were given back.", func(s *Leases) float64 { return float64(s.Returned) }),
		counter("headgate_lease_hits_expired_total", "Hits of leases that nobody used in time.", func(s *Leases) float64 { return float64(s.Expired) }),
		counter("headgate_lease_decided_total", "Takes decided on this node, by a lease or by what was last seen of the bucket.", func(s *Leases) float64 { return float64(s.Decided) }),
		counter("headgate_lease_direct_total", "Takes of leased, synced and hot buckets that the store was asked for one by one.", func(s *Leases) float64 { return float64(s.Direct) }),
		counter("headgate_lease_calls_total", "Calls of the store for leases.", func(s *Leases) float64 { return float64(s.LeaseCalls) }),
		counter("headgate_sync_exchanges_total", "Exchanges of synced buckets with the store.", func(s *Leases) float64 { return float64(s.Exchanges) }),
		counter("headgate_sync_calls_total", "Calls of the store that carried exchanges.", func(s *Leases) float64 { return float64(s.ExchangeCalls) }),
		counter("headgate_sync_dropped_hits_total", "Hits of synced buckets that were not charged because their window was over.", func(s *Leases) float64 { return float64(s.Dropped) }),
		counter("headgate_lease_failures_total", "Calls for leases and exchanges that the store did not answer.", func(s *Leases) float64 { return float64(s.Failures) }),
		counter("headgate_lease_clock_partings_total", "Times that all leases were dropped because wall clock and monotonic clock parted, as they do when a machine is suspended.", func(s *Leases) float64 { return float64(s.Partings) }),
	}})
}

// SubBuckets is what was decided in sub-buckets since start.
type SubBuckets struct {
	// Hits counts the hits of buckets that are spread; Again how often one was
	// tried again because a part had denied it; Spread how often one was sent to
	// several parts; Denied those that were denied in the end.
	Hits, Again, Spread, Denied uint64
}

// WatchSubBuckets adds what was decided in sub-buckets to the metrics. read is
// called once for each collection.
func (m *Metrics) WatchSubBuckets(read func() SubBuckets) {
	m.register.MustRegister(sampled[SubBuckets]{read, []metric[SubBuckets]{
		counter("headgate_sub_bucket_hits_total", "Hits of buckets that are spread over sub-buckets.", func(s *SubBuckets) float64 { return float64(s.Hits) }),
		counter("headgate_sub_bucket_retries_total", "Times that a hit was tried again because a sub-bucket had denied it.", func(s *SubBuckets) float64 { return float64(s.Again) }),
		counter("headgate_sub_bucket_split_total", "Times that a hit was charged to several sub-buckets.", func(s *SubBuckets) float64 { return float64(s.Spread) }),
		counter("headgate_sub_bucket_denied_total", "Hits of such buckets that were denied in the end.", func(s *SubBuckets) float64 { return float64(s.Denied) }),
	}})
}

// Denials is the state of the memory of denials.
type Denials struct {
	// Entries is the number of denials remembered now, MaxEntries the most.
	Entries, MaxEntries int64
	// Answered counts takes answered by them, Skipped others of their groups,
	// Remembered what was written down, Dropped what was dropped before its time.
	Answered, Skipped, Remembered, Dropped uint64
	// Told counts denials that other nodes were told of, Heard those remembered because
	// others had told of them, ShareFailures exchanges with the others that failed.
	Told, Heard, ShareFailures uint64
}

// WatchDenials adds the state of the memory of denials to the metrics. read is
// called once for each collection.
func (m *Metrics) WatchDenials(read func() Denials) {
	m.register.MustRegister(sampled[Denials]{read, []metric[Denials]{
		gauge("headgate_denials", "Denials that are remembered now.", func(s *Denials) float64 { return float64(s.Entries) }),
		gauge("headgate_denials_max", "Denials that can be remembered.", func(s *Denials) float64 { return float64(s.MaxEntries) }),
		counter("headgate_denials_answered_total", "Takes that were denied from memory, without asking the store.", func(s *Denials) float64 { return float64(s.Answered) }),
		counter("headgate_denials_skipped_total", "Takes that were not looked at because another one of their request is remembered as denied.", func(s *Denials) float64 { return float64(s.Skipped) }),
		counter("headgate_denials_remembered_total", "Denials that were remembered.", func(s *Denials) float64 { return float64(s.Remembered) }),
		counter("headgate_denials_dropped_total", "Denials dropped before their time because their bucket changed.", func(s *Denials) float64 { return float64(s.Dropped) }),
		counter("headgate_denials_told_total", "Denials that other nodes were told of because they are asked for often.", func(s *Denials) float64 { return float64(s.Told) }),
		counter("headgate_denials_heard_total", "Denials remembered because another node had told of them.", func(s *Denials) float64 { return float64(s.Heard) }),
		counter("headgate_denials_share_failures_total", "Exchanges of denials with other nodes that failed.", func(s *Denials) float64 { return float64(s.ShareFailures) }),
	}})
}

// Fleet is what this node knows of the others.
type Fleet struct {
	// Live is the number of live nodes, this one among them.
	Live int
	// Beats counts heartbeats, Missed those that the store did not answer.
	Beats, Missed uint64
}

// WatchFleet adds the number of live nodes to the metrics. read is called once
// for each collection.
func (m *Metrics) WatchFleet(read func() Fleet) {
	m.register.MustRegister(sampled[Fleet]{read, []metric[Fleet]{
		gauge("headgate_nodes_live", "Live nodes, this one among them, as far as this one knows.", func(s *Fleet) float64 { return float64(s.Live) }),
		counter("headgate_heartbeats_total", "Heartbeats of this node.", func(s *Fleet) float64 { return float64(s.Beats) }),
		counter("headgate_heartbeats_missed_total", "Heartbeats that the store did not answer.", func(s *Fleet) float64 { return float64(s.Missed) }),
	}})
}

// Reconcile counts what this node let pass by its share while the store was away. See
// reconcile.Stats.
type Reconcile struct {
	Passed, Charged, Uncertain, Full uint64
	Waiting                          int
}

// WatchReconcile adds what this node let pass by its share to the metrics. read is called
// once for each collection.
func (m *Metrics) WatchReconcile(read func() Reconcile) {
	m.register.MustRegister(sampled[Reconcile]{read, []metric[Reconcile]{
		counter("headgate_reconcile_hits_total", "Hits that this node let pass by its share because the store did not answer, to be charged when it does.", func(s *Reconcile) float64 { return float64(s.Passed) }),
		counter("headgate_reconcile_hits_charged_total", "Of these, hits that still weighed when the store was back and were charged.", func(s *Reconcile) float64 { return float64(s.Charged) }),
		counter("headgate_reconcile_hits_uncertain_total", "Hits that were not charged because the store may have counted them: a call with them timed out.", func(s *Reconcile) float64 { return float64(s.Uncertain) }),
		counter("headgate_reconcile_hits_full_total", "Hits that will not be charged because there was no room to remember their keys.", func(s *Reconcile) float64 { return float64(s.Full) }),
		gauge("headgate_reconcile_keys", "Keys whose hits wait to be charged.", func(s *Reconcile) float64 { return float64(s.Waiting) }),
	}})
}
