package memstore

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/storetest"
)

// testClock is a clock that tests set.
type testClock struct{ micros atomic.Int64 }

func (c *testClock) now() limit.Micros { return limit.Micros(c.micros.Load()) }

func (c *testClock) set(now limit.Micros) { c.micros.Store(int64(now)) }

func (c *testClock) advance(by limit.Micros) { c.micros.Add(int64(by)) }

// stateOf is what is stored for key.
func (s *Store) stateOf(key string) limit.State {
	k := s.identBytes([]byte(key))
	sh := s.shardOf(k)
	where := sh.locate(k, narrow)
	if !where.found {
		return limit.State{}
	}
	state := sh.state(where)
	state.Wide = slices.Clone(state.Wide)
	return state
}

// TestConformance runs the suite on many shards, where buckets are by
// themselves, and on one, where they move, sweep and reuse each other's slots.
//
//promise:stores
func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{
		"many shards": {},
		"one shard":   {MaxBytes: 4 << 20, Shards: 1},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T) storetest.Harness {
				c := new(testClock)
				o := o
				o.Now = c.now
				s := newStore(t, o)
				return storetest.Harness{Store: s, SetNow: c.set, State: s.stateOf}
			}
			storetest.Run(t, open)
			t.Run("leases", func(t *testing.T) { storetest.RunLeases(t, open) })
			t.Run("totals", func(t *testing.T) { storetest.RunTotals(t, open) })
			t.Run("roster", func(t *testing.T) { storetest.RunRoster(t, open) })
			t.Run("swaps", func(t *testing.T) { storetest.RunSwaps(t, open) })
		})
	}
}
