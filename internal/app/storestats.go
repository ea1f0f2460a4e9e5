package app

import (
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/store/breaker"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/memcachestore"
	"github.com/headgate/headgate/store/redisstore"
)

// breakerStates numbers the states as metrics do.
var breakerStates = map[breaker.State]int{breaker.Closed: 0, breaker.HalfOpen: 1, breaker.Open: 2}

// shardState is what metrics and the log tell of one server of a store.
type shardState struct {
	telemetry.Shard
	state  breaker.State // as Shard.Breaker, which is its number
	opened uint64        // how often the breaker has opened
	fault  error         // the last failure
}

func redisShards(stats redisstore.Stats) []shardState {
	shards := make([]shardState, len(stats.Shards))
	for i := range stats.Shards {
		s := &stats.Shards[i]
		shards[i] = shardState{state: s.Breaker, opened: s.Opened, fault: s.Fault, Shard: telemetry.Shard{
			Addr: s.Addr, Connected: s.Connected, Breaker: breakerStates[s.Breaker], InFlight: s.InFlight,
			Calls: s.Calls, Failures: s.Failures, Refused: s.Refused, Late: s.Late, Redirected: s.Redirected, Reseeded: s.Reseeded,
			Overdue: s.Overdue, Starved: s.Starved, Took: s.Took, Flights: s.Merged.Flights, Callers: s.Merged.Callers, Takes: s.Merged.Questions,
		}}
	}
	return shards
}

func memcachedShards(stats memcachestore.Stats) []shardState {
	shards := make([]shardState, len(stats.Servers))
	for i := range stats.Servers {
		s := &stats.Servers[i]
		shards[i] = shardState{state: s.Breaker.State, opened: s.Breaker.Opened, fault: s.Fault, Shard: telemetry.Shard{
			Addr: s.Addr, Connected: s.Open > 0, Breaker: breakerStates[s.Breaker.State], InFlight: int64(s.Open - s.Idle),
			Calls: s.Calls, Failures: s.Failures, Refused: s.Refused, NotTaken: s.NotTaken, Took: s.Took,
		}}
	}
	return shards
}

// sumLeases adds up what the leases of all stores are.
func sumLeases(stores []*lease.Store) lease.Stats {
	var total lease.Stats
	for _, one := range stores {
		stats := one.Stats()
		total.Add(&stats)
	}
	return total
}
