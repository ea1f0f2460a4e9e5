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
	// OnDisk says that accounts are in a file; of these Beside have changed since it was
	// written. Misses counts those that were read of it, Unreadable those that could not be.
	OnDisk             bool
	Beside             int64
	Misses, Unreadable uint64
	// Refused counts the snapshots of admin processes that were not believed.
	Refused uint64
}

// WatchTenants adds what is known of tenants to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchTenants(read func() Tenants) {
	m.register.MustRegister(sampled[Tenants]{read, []metric[Tenants]{
		gauge("headgate_tenant_accounts", "Accounts of tenants in force.", func(s *Tenants) float64 { return float64(s.Accounts) }),
		gauge("headgate_tenant_version", "Version of the last change of accounts that is in force. If nodes of one database differ for long, some of them do not hear from it.", func(s *Tenants) float64 { return float64(s.Version) }),
		gauge("headgate_tenant_accounts_skipped", "Accounts that are not in force because they are not valid.", func(s *Tenants) float64 { return float64(s.Skipped) }),
		gauge("headgate_tenant_parts_skipped", "Tiers, overrides and top-ups that are not in force because they are not valid, in accounts that are valid.", func(s *Tenants) float64 { return float64(s.SkippedParts) }),
		gauge("headgate_tenant_snapshot_age_seconds", "Time since the database, or an admin process, last said what the accounts are.", func(s *Tenants) float64 { return s.Age }),
		gauge("headgate_tenant_snapshot_from_file", "1 while the accounts are those of --tenants-file or --tenants-dir, else 0.", func(s *Tenants) float64 { return oneIf(s.FromFile) }),
		counter("headgate_tenant_reads_failed_total", "Reads of the database of tenants that have failed.", func(s *Tenants) float64 { return float64(s.FailedReads) }),
		counter("headgate_tenant_histories_total", "How often the database of tenants was restored to an older state, or a server without its last changes took over.", func(s *Tenants) float64 { return float64(s.Histories) }),
		gauge("headgate_tenant_accounts_on_disk", "1 while accounts are in a file of --tenants-dir and memory holds those that were used recently, else 0.", func(s *Tenants) float64 { return oneIf(s.OnDisk) }),
		gauge("headgate_tenant_accounts_beside", "Accounts in memory that have changed since the file of accounts was written.", func(s *Tenants) float64 {
			if !s.OnDisk {
				return 0
			}
			return float64(s.Beside)
		}),
		counter("headgate_tenant_disk_reads_total", "Accounts that were not in memory and were read from the file of accounts; begins anew with each file.", func(s *Tenants) float64 { return float64(s.Misses) }),
		counter("headgate_tenant_disk_failures_total", "Accounts that could not be read from the file of accounts, and counted as unknown.", func(s *Tenants) float64 { return float64(s.Unreadable) }),
		counter("headgate_tenant_snapshots_refused_total", "Answers of admin processes that were refused: not signed by a known key, older than what is known, or not whole.", func(s *Tenants) float64 { return float64(s.Refused) }),
		gauge("headgate_tiers_stale", "1 while the file of tiers is not what is in force because it was refused, else 0.", func(s *Tenants) float64 { return oneIf(s.TiersStale) }),
	}})
}
