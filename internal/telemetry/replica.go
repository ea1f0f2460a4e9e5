package telemetry

// Replica is how far the replica is that is read in place of the database of tenants.
type Replica struct {
	// OK says that it answers, Receiving that it is connected to its primary, Paused that its
	// replay was paused, Primary that it is a primary itself.
	OK, Receiving, Paused, Primary bool
	// Unreplayed is how many bytes it has received and not replayed yet.
	Unreplayed int64
	// Lag is how many seconds old at most its state is, or what was read of it while it does
	// not answer; -1 where that is not known.
	Lag float64
	// PrimaryOpened says that the primary was opened, so that changes can be made.
	PrimaryOpened bool
}

// WatchReplica adds what is known of the replica to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchReplica(read func() Replica) {
	m.register.MustRegister(sampled[Replica]{read, []metric[Replica]{
		gauge("headgate_tenant_replica_up", "1 while the replica of the database of tenants answers, else 0.", func(s *Replica) float64 { return oneIf(s.OK) }),
		gauge("headgate_tenant_replica_lag_seconds", "Most that the state of the replica can be old, or what was last read from it while it does not answer; -1 while this is not known. An idle primary causes no lag.", func(s *Replica) float64 { return s.Lag }),
		gauge("headgate_tenant_replica_unreplayed_bytes", "Bytes of the log that the replica has received and not replayed yet.", func(s *Replica) float64 { return float64(s.Unreplayed) }),
		gauge("headgate_tenant_replica_receiving", "1 while the replica is connected to the primary that it replays, else 0.", func(s *Replica) float64 { return oneIf(s.Receiving) }),
		gauge("headgate_tenant_replica_paused", "1 while somebody has paused the replay of the replica, else 0.", func(s *Replica) float64 { return oneIf(s.Paused) }),
		gauge("headgate_tenant_replica_primary", "1 while the server at --tenants-replica is a primary and replays no other, else 0.", func(s *Replica) float64 { return oneIf(s.Primary) }),
		gauge("headgate_tenant_primary_opened", "1 once the primary of the replica was opened, so that changes can be made through this process, else 0.", func(s *Replica) float64 { return oneIf(s.PrimaryOpened) }),
	}})
}
