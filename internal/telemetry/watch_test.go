package telemetry

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/fleet"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/reconcile"
	"github.com/headgate/headgate/store/regional"
	"github.com/headgate/headgate/store/subbucket"
	"github.com/headgate/headgate/trial"
)

// watchAll has m watch all there is, with figures that tell the metrics apart.
func watchAll(m *Metrics) {
	m.WatchXDS()
	m.WatchRulesURL()
	m.WatchAudit(func() view.Audit {
		return view.Audit{Decided: 10, Unsampled: 1, Produced: 2, Dropped: 3, Buffered: 4, Sinks: []view.AuditSink{
			{Name: "files", Written: 5, Failed: 6, Buffered: 7},
			{Name: "kafka", Error: "no broker"},
		}}
	})
	m.WatchAccuracy(func() []view.RuleAccuracy {
		return []view.RuleAccuracy{
			{Rule: "d.a", Decided: 1, WrongAllowed: 2, WrongDenied: 3, Overshoot: 0.25, Bound: 0.5},
			{Rule: "d.b", Bound: -1},
		}
	})
	m.WatchTopKeys(func() TopKeys {
		return TopKeys{Tracked: 1, Capacity: 2, Seen: 3, Evicted: 4, NewKeys: map[string]float64{"d.a": 1234.5}}
	})
	m.WatchMetricPush(func() MetricPush { return MetricPush{Sent: 1, Failed: 2} })
	m.WatchTurns(func() Turns { return Turns{Waiting: 17, Waited: 18} })
	m.WatchTracing(func() Tracing { return Tracing{Started: 1, Exported: 2, Failed: 3, Dropped: 4} })
	m.WatchInspection(func() []Inspection {
		return []Inspection{
			{Store: "store", Addr: "a:1", Reachable: true, ClockOffset: -0.5, ClockError: 0.25, Memory: 1, MaxMemory: 2, Keys: 3, Evicted: 4, Expired: 5},
			{Store: "store", Addr: "b:1", Reachable: true},
			{Store: "store", Addr: "c:1"},
		}
	})
	m.WatchShards(func() []Shard {
		took := store.DurationCounts{Total: 3 * time.Millisecond}
		took.Buckets[0], took.Buckets[5] = 1, 1
		return []Shard{{Store: "store", Addr: "a:1", Calls: 30, Took: took}, {Store: "store", Addr: "b:1", Calls: 10, Took: took}, {Store: "per_second", Addr: "a:1", Calls: 9}}
	})
	m.WatchCandidates(func() []trial.Report { return []trial.Report{{Rule: "d.a", Decided: 1}} })
	m.WatchReservations(func() reservation.Counts {
		c := reservation.Counts{Made: 1, Denied: 2}
		c.Commits[reservation.Settled], c.Cancels[reservation.Unknown] = 3, 4
		return c
	})
	m.WatchBalanced(func() []Balanced { return []Balanced{{"http", "bad", 3}} })
	m.WatchCheckIDs(func() repeat.Counts { return repeat.Counts{First: 1, Repeated: 2} })
	m.WatchDenials(func() denial.Stats { return denial.Stats{} })
	m.WatchDocuments(func() Documents { return Documents{} })
	m.WatchRegions("home", func() regional.Stats { return regional.Stats{Connected: true} })
	m.WatchSharedRegions(func() view.Regions {
		return view.Regions{
			Told:   []view.RegionTold{{Region: "virginia", State: view.PeerSilent, LagBound: 10}},
			Shared: []view.SharedRule{{Rule: "d.a", Limits: []view.SharedLimit{{Most: 5}}}},
		}
	})
	m.WatchRegionRules(func() view.Regions {
		return view.Regions{Peers: []view.RegionPeer{{Name: "home", LagBound: 1}}, Rules: []view.RegionRule{{Rule: "d.a", Peer: "home", State: view.RuleCutOff}}}
	})
	m.WatchFleet(func() fleet.Stats { return fleet.Stats{} })
	m.WatchReconcile(func() reconcile.Stats { return reconcile.Stats{} })
	m.WatchGateways(func() Gateways { return Gateways{} })
	m.WatchRLQS(func() RLQS { return RLQS{} })
	m.WatchStreams(func() Streams { return Streams{} })
	m.WatchDualRun(func() DualRun { return DualRun{Causes: map[string]uint64{"limit": 0}} })
	m.WatchGRPC(func() []GRPCEvent { return []GRPCEvent{{"calls", 9}, {"batches", 3}} })
	m.WatchHooks(func() Hooks { return Hooks{} })
	m.WatchHotRaises(func() HotRaises { return HotRaises{} })
	m.WatchDrills(func() Drills { return Drills{UnderWay: true, Begun: 2, Aborted: 1} })
	m.WatchKeyLookup(func() KeyLookup { return KeyLookup{1, 2, 3} })
	m.WatchLeases(func() lease.Stats { return lease.Stats{} })
	m.WatchLog(func() uint64 { return 8 })
	m.WatchRedis(func() []RedisCommand { return []RedisCommand{{"cl.throttle", 5}, {"other", 0}} })
	m.WatchRefusals(func() []Refusals { return []Refusals{{"admin", "unknown_token", 7}, {"dashboard", "origin", 0}} })
	m.WatchFloods(func() uint64 { return 9 })
	m.WatchMemory(func() memstore.Stats { return memstore.Stats{} })
	m.WatchProxy(func() Proxy { return Proxy{} })
	m.WatchListeners(
		func() []Listener { return []Listener{{"grpc", 2, 1, 1}} },
		func() []Certificate { return []Certificate{{"grpc", time.Unix(2e9, 0), 1, true}} })
	m.WatchCredentials(func() []CredentialFile { return []CredentialFile{{"callers", true}, {"admin_tokens", false}} })
	m.WatchRefused(func() []Refused { return []Refused{{Front: "grpc", Right: "give_back", Calls: 1}} })
	m.WatchShedding(func() Shedding {
		return Shedding{Priorities: []ShedPriority{{Name: "p0"}}, Worker: &ShedWorker{}, Fleet: &ShedFleet{Known: true}}
	})
	m.WatchSubBuckets(func() subbucket.Stats { return subbucket.Stats{} })
	m.WatchTenants(func() Tenants { return Tenants{} })
	m.WatchReplica(func() Replica { return Replica{OK: true, Lag: 1.5, Unreplayed: 7} })
}

// everything returns Metrics that have all series there may be.
func everything(t *testing.T, o Options) *Metrics {
	t.Helper()
	m := New(Build{}, o)
	// Some rules have a second level, which is one more label in the names of envoyproxy/ratelimit.
	set := load(t, twoRules+"  - {key: two, descriptors: [{key: levels, rate_limit: {unit: second, requests_per_unit: 10}}]}\n")
	m.RulesInForce(set, time.Now())
	watchAll(m)
	m.HotKey("d.a")
	bursts := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 10, Period: time.Second})
	for range 2 * sampleEvery * len(m.stripes.all) {
		decided(m, headgate.Response{Verdicts: []headgate.Verdict{
			{Rule: set.Rules()[0], Tier: "free", Limit: bursts, Decision: limit.Decision{Limit: 10, RetryAfter: time.Second}},
		}})
	}
	return m
}

func TestK1WhatOthersCount(t *testing.T) {
	m := New(Build{}, Options{})
	watchAll(m)
	expect(t, m, map[string]float64{
		`headgate_turns_waiting`: 17, `headgate_turns_waited_total`: 18,
		`headgate_grpc_h2_events_total{event="calls"}`: 9, `headgate_grpc_h2_events_total{event="batches"}`: 3,
		"headgate_tenant_replica_up": 1, "headgate_tenant_replica_lag_seconds": 1.5, "headgate_tenant_replica_unreplayed_bytes": 7,
		"headgate_tenant_replica_receiving": 0, "headgate_tenant_replica_paused": 0, "headgate_tenant_replica_primary": 0, "headgate_tenant_primary_opened": 0,
		"headgate_audit_decided_total": 10, "headgate_audit_unsampled_total": 1, "headgate_audit_produced_total": 2,
		"headgate_audit_dropped_total": 3, "headgate_audit_buffered": 4,
		`headgate_audit_sink_written_total{sink="files"}`: 5, `headgate_audit_sink_failed_total{sink="files"}`: 6,
		`headgate_audit_sink_buffered{sink="files"}`: 7, `headgate_audit_sink_up{sink="files"}`: 1, `headgate_audit_sink_up{sink="kafka"}`: 0,

		`headgate_accuracy_decided_total{rule="d.a"}`: 1, `headgate_accuracy_wrong_allowed_total{rule="d.a"}`: 2,
		`headgate_accuracy_wrong_denied_total{rule="d.a"}`: 3, `headgate_accuracy_overshoot_ratio{rule="d.a"}`: 0.25,
		`headgate_accuracy_bound_ratio{rule="d.a"}`: 0.5, `headgate_accuracy_decided_total{rule="d.b"}`: 0,

		"headgate_top_keys": 1, "headgate_top_keys_max": 2, "headgate_top_keys_seen_total": 3, "headgate_top_keys_evicted_total": 4,
		`headgate_rule_keys{rule="d.a"}`: 1234.5,

		`headgate_credentials_stale{file="callers"}`: 1, `headgate_credentials_stale{file="admin_tokens"}`: 0,

		"headgate_log_lines_dropped_total":                                 8,
		`headgate_auth_refused_total{door="admin",reason="unknown_token"}`: 7, `headgate_auth_refused_total{door="dashboard",reason="origin"}`: 0,

		"headgate_trace_spans_started_total": 1, "headgate_trace_spans_exported_total": 2,
		"headgate_trace_spans_failed_total": 3, "headgate_trace_spans_dropped_total": 4,

		`headgate_reservations_total{outcome="made"}`: 1, `headgate_reservations_total{outcome="denied"}`: 2,
		`headgate_settlements_total{op="commit",outcome="settled"}`: 3, `headgate_settlements_total{op="cancel",outcome="unknown"}`: 4,
		`headgate_settlements_total{op="cancel",outcome="settled"}`: 0,

		`headgate_store_inspected{shard="a:1",store="store"}`: 1, `headgate_store_inspected{shard="c:1",store="store"}`: 0,
		`headgate_store_clock_offset_seconds{shard="a:1",store="store"}`: -0.5, `headgate_store_clock_error_seconds{shard="a:1",store="store"}`: 0.25,
		`headgate_store_memory_bytes{shard="a:1",store="store"}`: 1, `headgate_store_memory_max_bytes{shard="a:1",store="store"}`: 2,
		`headgate_store_keys{shard="a:1",store="store"}`: 3, `headgate_store_evicted_keys_total{shard="a:1",store="store"}`: 4,
		`headgate_store_expired_keys_total{shard="a:1",store="store"}`: 5,

		`headgate_store_call_duration_seconds_count{store="store"}`: 4, `headgate_store_call_duration_seconds_bucket{store="store",le="0.0001"}`: 2,
		`headgate_store_call_duration_seconds_sum{store="store"}`: 0.006, `headgate_store_call_duration_seconds_count{store="per_second"}`: 0,
		`headgate_store_slot_skew_ratio{store="store"}`: 1.5,
	})
	series := scrape(t, m)
	for _, absent := range []string{
		`headgate_accuracy_bound_ratio{rule="d.b"}`, `headgate_store_memory_max_bytes{shard="b:1",store="store"}`,
		`headgate_store_clock_offset_seconds{shard="c:1",store="store"}`, `headgate_store_slot_skew_ratio{store="per_second"}`,
	} {
		if _, there := series[absent]; there {
			t.Errorf("there is %s, which nobody knows", absent)
		}
	}
}

// The skew is that of the last minute: what was long ago evens out.
func TestSkewIsOfTheLastMinute(t *testing.T) {
	m := New(Build{}, Options{})
	calls := []uint64{1_000_000, 0}
	m.WatchShards(func() []Shard {
		return []Shard{{Store: "store", Addr: "a", Calls: calls[0]}, {Store: "store", Addr: "b", Calls: calls[1]}}
	})
	now := time.Unix(1_700_000_000, 0)
	expectSkew := func(want float64) {
		t.Helper()
		if got := m.skews(m.shards(), now)["store"]; got != want {
			t.Errorf("skew %v, want %v", got, want)
		}
	}
	expectSkew(2) // since start
	for range 90 {
		m.look(now)
		calls[0] += 10
		calls[1] += 30
		now = now.Add(time.Second)
	}
	expectSkew(1.5)
	if n := len(m.history.calls); n > 62 {
		t.Errorf("%d looks are remembered", n)
	}
	calls = []uint64{5, 5} // the servers were asked by somebody new
	expectSkew(1)
}

// The counts of one scrape are those of one instant, though events go on.
func TestAuditCountsOfOneScrapeAddUp(t *testing.T) {
	m, reads := New(Build{}, Options{}), uint64(0)
	m.WatchAudit(func() view.Audit {
		reads++
		return view.Audit{Produced: 100 * reads, Sinks: []view.AuditSink{{Name: "files", Written: 70 * reads, Failed: 10 * reads, Buffered: 20 * reads}}}
	})
	for range 3 {
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sums := map[string]float64{}
		for _, f := range families {
			for _, one := range f.GetMetric() {
				sums[f.GetName()] += one.GetCounter().GetValue() + one.GetGauge().GetValue()
			}
		}
		parts := sums["headgate_audit_sink_written_total"] + sums["headgate_audit_sink_failed_total"] + sums["headgate_audit_sink_buffered"]
		if produced := sums["headgate_audit_produced_total"]; produced == 0 || produced != parts {
			t.Errorf("%g were produced, and %g have become something", produced, parts)
		}
	}
}
