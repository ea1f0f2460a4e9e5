package dashboards

func tenants() Dashboard {
	return build("headgate-tenants", "Headgate / Tenants",
		"Accounts, tiers, rules in the database, switches, and the web hooks about quotas that end.", nil,
		section{"Accounts", []Panel{
			figure(6, "Accounts", "Accounts in force.", "short", always(green), query("", "max("+of("headgate_tenant_accounts")+")")),
			figure(6, "Age", "Time since the accounts were last read from the database, of the process that is furthest behind.", "s", from(30, 300), query("", "max("+of("headgate_tenant_snapshot_age_seconds")+")")),
			figure(6, "Skipped", "Accounts that are not in force because they are not valid.", "none", redFrom(1), query("", "max("+of("headgate_tenant_accounts_skipped")+")")),
			figure(6, "From the file", "Processes that use the accounts of --tenants-file because the database has not answered since they started.", "none", redFrom(1), query("", "sum("+of("headgate_tenant_snapshot_from_file")+")")),
			lines(12, "Age of the accounts", "Time since the accounts were last read from the database.", "s", query("{{instance}}", of("headgate_tenant_snapshot_age_seconds"))),
			lines(12, "Changes behind", "How many changes of accounts a process is behind the one that knows most.", "none",
				query("{{instance}}", "scalar(max("+of("headgate_tenant_version")+")) - "+of("headgate_tenant_version"))),
			lines(12, "Failed reads", "Reads of the database per second that have failed.", "ops", query("{{instance}}", rate("headgate_tenant_reads_failed_total"))),
			states(12, "File of tiers", "Whether the file of tiers is in force. A refused file leaves the one before it in force.", []Word{{Text: "in force", Color: green}, {Text: "refused", Color: red}},
				query("{{instance}}", of("headgate_tiers_stale"))),
			lines(12, "Lag of the replica", "How old at most what a process has read of its replica of the database is, where it reads one; -1 while that is not known.", "s", query("{{instance}}", of("headgate_tenant_replica_lag_seconds"))),
			lines(12, "Not replayed yet", "Bytes of the log that a replica has received and not replayed yet.", "bytes", query("{{instance}}", of("headgate_tenant_replica_unreplayed_bytes"))),
		}},
		section{"Quotas by tier", []Panel{
			lines(12, "Decisions by tier", "Quotas of tenants decided per second, by tier: all, and those denied.", "reqps",
				query("{{tier}} all", sum("tier", rate("headgate_tier_decisions_total"))),
				query("{{tier}} denied", sum("tier", rate("headgate_tier_decisions_total", `outcome="denied"`)))),
			lines(12, "Quota use by tier", "Mean share of their quotas that tenants have used after a request, by tier.", "percentunit",
				query("{{tier}}", sum("tier", rate("headgate_tier_used_ratio_sum"))+" / "+sum("tier", rate("headgate_tier_used_ratio_count")))),
		}},
		section{"Rules, tiers and switches in the database", []Panel{
			stacked(12, "Invalid entries ignored", "Entries of the database that are ignored because they are invalid: the most of all processes.", "none",
				query("{{kind}}", "max by (kind) ("+of("headgate_documents_refused")+")")),
			stacked(12, "Switches", "Switches in force, by state.", "none", query("{{state}}", "max by (state) ("+of("headgate_switches")+")")),
			lines(12, "Version", "Version of the database that is in force; processes that differ for long do not hear from it.", "none", query("{{instance}}", of("headgate_documents_version"))),
		}},
		section{"Web hooks", []Panel{
			lines(12, "Events", "Events per second: sent, failed (given up), dropped (the queue of the receiver was full).", "ops",
				query("sent", sum("", rate("headgate_webhook_sent_total"))),
				query("failed", sum("", rate("headgate_webhook_failed_total"))),
				query("dropped", sum("", rate("headgate_webhook_dropped_total")))),
			lines(12, "Events waiting", "Events that wait, or are being sent.", "none", query("{{instance}}", of("headgate_webhook_queued"))),
		}},
	)
}
