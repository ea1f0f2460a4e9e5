package telemetry

import (
	"testing"

	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/fleet"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/subbucket"
)

func TestK1LayersOfTheStore(t *testing.T) {
	m := New(Build{}, Options{})
	m.WatchLeases(func() lease.Stats {
		return lease.Stats{Buckets: 1, Leases: 2, Held: 3, Hot: 4, Granted: 5, Used: 6, Returned: 7, Expired: 8, Decided: 9, Direct: 10,
			LeaseCalls: 11, Exchanges: 12, ExchangeCalls: 13, Dropped: 14, Failures: 15, Partings: 16}
	})
	m.WatchDenials(func() denial.Stats {
		return denial.Stats{Entries: 1, MaxEntries: 2, Answered: 3, Skipped: 4, Remembered: 5, Dropped: 6, Told: 7, Heard: 8, ShareFailures: 9}
	})
	m.WatchSubBuckets(func() subbucket.Stats { return subbucket.Stats{Hits: 1, Again: 2, Spread: 3, Denied: 4} })
	m.WatchFleet(func() fleet.Stats { return fleet.Stats{Live: 3, Answered: 4, Failed: 5} })
	expect(t, m, map[string]float64{
		"headgate_lease_buckets": 1, "headgate_leases_held": 2, "headgate_lease_hits_held": 3, "headgate_hot_keys": 4,
		"headgate_lease_hits_granted_total": 5, "headgate_lease_hits_used_total": 6, "headgate_lease_hits_returned_total": 7,
		"headgate_lease_hits_expired_total": 8, "headgate_lease_decided_total": 9, "headgate_lease_direct_total": 10,
		"headgate_lease_calls_total": 11, "headgate_sync_exchanges_total": 12, "headgate_sync_calls_total": 13,
		"headgate_sync_dropped_hits_total": 14, "headgate_lease_failures_total": 15, "headgate_lease_clock_partings_total": 16,

		"headgate_denials": 1, "headgate_denials_max": 2, "headgate_denials_answered_total": 3, "headgate_denials_skipped_total": 4,
		"headgate_denials_remembered_total": 5, "headgate_denials_dropped_total": 6,
		"headgate_denials_told_total": 7, "headgate_denials_heard_total": 8, "headgate_denials_share_failures_total": 9,

		"headgate_sub_bucket_hits_total": 1, "headgate_sub_bucket_retries_total": 2, "headgate_sub_bucket_split_total": 3, "headgate_sub_bucket_denied_total": 4,

		"headgate_nodes_live": 3, "headgate_heartbeats_total": 9, "headgate_heartbeats_missed_total": 5,
	})
}

func TestE2BreakerStatePerShard(t *testing.T) {
	m := New(Build{}, Options{})
	shards := []Shard{
		{Store: "store", Addr: "a:1", Connected: true, Calls: 5, Failures: 2, InFlight: 1, Redirected: 3, Flights: 4, Callers: 9, Takes: 11, Late: 1, Reseeded: 6},
		{Store: "store", Addr: "b:1", Breaker: 2, Refused: 7, NotTaken: 8},
		{Store: "per_second", Addr: "a:1", Breaker: 1},
		{Store: "home", Addr: "h:1", Away: true},
		{Store: "store", Addr: "b:1", Breaker: 1}, // a second time, while the topology changes
	}
	m.WatchShards(func() []Shard { return shards })
	expect(t, m, map[string]float64{
		`headgate_store_connected{shard="a:1",store="store"}`:                 1,
		`headgate_store_connected{shard="b:1",store="store"}`:                 0,
		`headgate_store_breaker_state{shard="a:1",store="store"}`:             0,
		`headgate_store_breaker_state{shard="b:1",store="store"}`:             2,
		`headgate_store_breaker_state{shard="a:1",store="per_second"}`:        1,
		`headgate_store_in_flight{shard="a:1",store="store"}`:                 1,
		`headgate_store_calls_total{shard="a:1",store="store"}`:               5,
		`headgate_store_call_failures_total{shard="a:1",store="store"}`:       2,
		`headgate_store_refused_total{shard="b:1",store="store"}`:             7,
		`headgate_store_connections_refused_total{shard="b:1",store="store"}`: 8,
		`headgate_store_late_total{shard="a:1",store="store"}`:                1,
		`headgate_store_redirects_total{shard="a:1",store="store"}`:           3,
		`headgate_store_reseeds_total{shard="a:1",store="store"}`:             6,
		`headgate_store_flights_total{shard="a:1",store="store"}`:             4,
		`headgate_store_flight_callers_total{shard="a:1",store="store"}`:      9,
		`headgate_store_flight_takes_total{shard="a:1",store="store"}`:        11,
		`headgate_store_awaited{shard="a:1",store="store"}`:                   1,
		`headgate_store_awaited{shard="b:1",store="store"}`:                   1,
		`headgate_store_awaited{shard="h:1",store="home"}`:                    0,
	})
	shards = shards[:1]
	if _, there := scrape(t, m)[`headgate_store_breaker_state{shard="b:1",store="store"}`]; there {
		t.Error("a server that is gone keeps its series")
	}
}
