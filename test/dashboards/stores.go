package dashboards

func stores() Dashboard {
	byShard := func(metric string) string { return sum("store, shard", rate(metric)) }
	return build("headgate-stores", "Headgate / Stores",
		"The servers that counters are in, and what keeps load from them.", nil,
		section{"Health", []Panel{
			states(12, "Breakers", "State of the breaker of each server, the worst of all processes.", breakerWords,
				query("{{store}} {{shard}}", "max by (store, shard) ("+of("headgate_store_breaker_state")+")")),
			states(12, "Connected", "Whether any process has a connection to the server.", []Word{{Text: "none", Color: red}, {Text: "connected", Color: green}},
				query("{{store}} {{shard}}", "max by (store, shard) ("+of("headgate_store_connected")+")")),
			stacked(12, "Requests that the store could not decide", "Per second, by reason. docs/operations.md says what to do about each.", "reqps",
				query("{{reason}}", sum("reason", rate("headgate_store_errors_total")))),
			lines(12, "Failing open", "Limits per second that allowed since the store could not decide.", "reqps",
				query("{{instance}}", sum("instance", rate("headgate_failopen_total")))),
		}},
		section{"Servers", []Panel{
			lines(12, "Calls", "Calls of each server per second.", "ops", query("{{store}} {{shard}}", byShard("headgate_store_calls_total"))),
			lines(12, "Calls that failed", "Share of the calls of each server that failed or were not answered in time.", "percentunit",
				query("{{store}} {{shard}}", byShard("headgate_store_call_failures_total")+" / "+byShard("headgate_store_calls_total"))),
			lines(12, "Held back by breakers", "Calls per second that breakers held back.", "ops", query("{{store}} {{shard}}", byShard("headgate_store_refused_total"))),
			lines(12, "Too late", "Calls per second that reached the server after their deadline; they charged nothing.", "ops", query("{{store}} {{shard}}", byShard("headgate_store_late_total"))),
			lines(12, "Calls in flight", "Calls that wait for an answer, over all processes.", "none", query("{{store}} {{shard}}", sum("store, shard", of("headgate_store_in_flight")))),
			lines(12, "Checks in one call", "How many concurrent checks shared a call: the mean.", "none",
				query("{{store}} {{shard}}", byShard("headgate_store_flight_callers_total")+" / "+byShard("headgate_store_flights_total"))),
			lines(12, "Redirects and reseeds", "Calls per second that a server sent to another one, and buckets per second that were brought back after a failover.", "ops",
				query("{{shard}} redirects", byShard("headgate_store_redirects_total")),
				query("{{shard}} reseeds", byShard("headgate_store_reseeds_total"))),
		}},
		section{"What saves calls", []Panel{
			lines(12, "Decided from leases", "Takes per second that nodes decided by themselves, and those that the store was asked for all the same.", "ops",
				query("on the node", sum("", rate("headgate_lease_decided_total"))),
				query("asked", sum("", rate("headgate_lease_direct_total")))),
			lines(12, "Hits in leases", "Hits per second: granted, used, returned, expired. Much expired means that leases are too long for the load.", "ops",
				query("granted", sum("", rate("headgate_lease_hits_granted_total"))),
				query("used", sum("", rate("headgate_lease_hits_used_total"))),
				query("returned", sum("", rate("headgate_lease_hits_returned_total"))),
				query("expired", sum("", rate("headgate_lease_hits_expired_total")))),
			lines(12, "Hot keys", "Keys of exact rules that are hot now.", "none", query("{{instance}}", of("headgate_hot_keys"))),
			lines(12, "Denials from memory", "Takes per second that were denied without asking the store.", "ops",
				query("{{instance}}", sum("instance", rate("headgate_denials_answered_total")))),
		}},
		section{"Memory store", []Panel{
			lines(12, "Memory", "Share of its memory that the memory store takes.", "percentunit",
				query("{{instance}}", of("headgate_memory_store_bytes")+" / "+of("headgate_memory_store_max_bytes"))),
			lines(12, "Buckets", "Buckets in the memory store.", "none", query("{{instance}}", of("headgate_memory_store_keys"))),
			lines(12, "No room", "Hits per second that found no room for a bucket of their own and shared one.", "ops", query("{{instance}}", rate("headgate_memory_store_overflow_total"))),
		}},
		section{"Fleet", []Panel{
			lines(12, "Heartbeats that were missed", "Heartbeats per second that the store did not answer.", "ops", query("{{instance}}", rate("headgate_heartbeats_missed_total"))),
			lines(12, "Requests of the fleet", "What the whole fleet admits, beside its capacity, where --fleet-capacity is in use.", "reqps",
				query("admitted", "max("+of("headgate_fleet_requests_per_second")+")"),
				query("capacity", "max("+of("headgate_fleet_capacity_requests_per_second")+")")),
		}},
	)
}
