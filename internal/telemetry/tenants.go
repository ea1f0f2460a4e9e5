package telemetry

// Tenants is what this node knows of the accounts of tenants.
type Tenants struct {
	// Accounts that are in force, of the change Version, and those Skipped since they
	// could not be used; SkippedParts are tiers, overrides and top-ups of others.
	Accounts, Version, Skipped, SkippedParts int64
	// Age is the time in seconds since the database last told what they are; since it
	// was written, of a file.
	Age float64
	// FromFile says that they are those of the file, and that the database has not
	// answered since start.
	FromFile bool
	// FailedReads counts the reads of the database that have failed, Histories how often
	// it did not have the changes that were read of it.
	FailedReads, Histories uint64
	// TiersStale says that the file of tiers is not what is in force, because it was
	// refused.
	TiersStale bool
}

// WatchTenants adds what is known of tenants to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchTenants(read func() Tenants) {
	m.register.MustRegister(sampled[Tenants]{read, []metric[Tenants]{
		gauge("headgate_tenant_accounts", "Accounts of tenants in force.", func(s *Tenants) float64 { return float64(s.Accounts) }),
		gauge("headgate_tenant_version", "Version of the last change of accounts that is in force; nodes of one database that differ for long do not hear from it.", func(s *Tenants) float64 { return float64(s.Version) }),
		gauge("headgate_tenant_accounts_skipped", "Accounts that are not in force because they are not valid.", func(s *Tenants) float64 { return float64(s.Skipped) }),
		gauge("headgate_tenant_parts_skipped", "Tiers, overrides and top-ups that are not in force because they are not valid, of accounts that are.", func(s *Tenants) float64 { return float64(s.SkippedParts) }),
		gauge("headgate_tenant_snapshot_age_seconds", "Time since the accounts were last read from the database.", func(s *Tenants) float64 { return s.Age }),
		gauge("headgate_tenant_snapshot_from_file", "1 while the accounts are those of --tenants-file, else 0.", func(s *Tenants) float64 { return oneIf(s.FromFile) }),
		counter("headgate_tenant_reads_failed_total", "Reads of the database of tenants that have failed.", func(s *Tenants) float64 { return float64(s.FailedReads) }),
		counter("headgate_tenant_histories_total", "How often the database of tenants was restored to an older state, or a server without its last changes took over.", func(s *Tenants) float64 { return float64(s.Histories) }),
		gauge("headgate_tiers_stale", "1 while the file of tiers is not what is in force because it was refused, else 0.", func(s *Tenants) float64 { return oneIf(s.TiersStale) }),
	}})
}
