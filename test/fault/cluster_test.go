package fault

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
)

// steadyKeys is how many keys are told apart by their shard.
const steadyKeys = 24

// clusterRig is a cluster and keys of which the shard is known.
type clusterRig struct {
	*testserver.ClusterServers
	options redisstore.Options
	steady  []*tally
	shard   []int // of steady[i]
}

// soon is how long a primary must be silent before its replica takes its place, in
// scenarios of which that is a part; never is for the others, also on a machine
// that is busy with other things.
func soon() time.Duration {
	if *long {
		return time.Second
	}
	return 500 * time.Millisecond
}

const never = time.Minute

// openCluster starts three primaries with a replica each, which takes over when
// its primary has been silent for that long.
func openCluster(t *testing.T, silent time.Duration) *clusterRig {
	t.Helper()
	servers := testserver.Cluster(t, testserver.ClusterConfig{NodeTimeout: silent})
	c := &clusterRig{ClusterServers: servers, options: redisstore.Options{Cluster: servers.Addrs()[:2], Budget: patientBudget}}
	c.findShards(t)
	return c
}

// findShards takes one hit of each steady key and looks which primary has a key
// more afterwards.
func (c *clusterRig) findShards(t *testing.T) {
	t.Helper()
	limiter := openLimiter(t, c.options, ruleMode{failure: failOpen}, new(listener))
	primaries := c.Primaries()
	before := sizes(primaries)
	for i := range steadyKeys {
		key := &tally{lane: new(lane), value: fmt.Sprint(i)}
		ask(t, limiter, asked{"steady", key}, 1)
		after := sizes(primaries)
		shard := -1
		for j := range primaries {
			if after[j] == before[j]+1 {
				shard = j
			}
		}
		if shard < 0 {
			t.Fatalf("a hit made no key: the primaries held %v keys, and hold %v", before, after)
		}
		before = after
		c.steady, c.shard = append(c.steady, key), append(c.shard, shard)
	}
	seen := map[int]bool{}
	for _, shard := range c.shard {
		seen[shard] = true
	}
	if len(seen) != len(primaries) {
		t.Fatalf("%d keys are in %d of %d shards: the keys are not spread", steadyKeys, len(seen), len(primaries))
	}
}

// sizes returns the number of keys of each server.
func sizes(servers []*testserver.RedisServer) []int64 {
	all := make([]int64, len(servers))
	for i, server := range servers {
		all[i], _ = server.MustDo("DBSIZE").(int64)
	}
	return all
}

// untouched tells how many degraded answers keys of other shards than that had, and
// demands that those were answered by the store under the fault when its own were
// not. It may be none that are degraded, but for what a busy machine may cost.
func (c *clusterRig) untouched(f *faulted, shard int) {
	f.t.Helper()
	var elsewhere, there counts
	var answered [2]int64 // there and elsewhere, under the fault
	reasons := map[store.Reason]int{}
	for i, key := range c.steady {
		if c.shard[i] == shard {
			there.add(key.counts)
			answered[0] += key.meanwhile
			continue
		}
		elsewhere.add(key.counts)
		answered[1] += key.meanwhile
		for reason, n := range key.reasons {
			reasons[reason] += n
		}
	}
	f.t.Logf("shard %d: %d of %d answers degraded; the others: %d of %d, %v", shard,
		there.degraded(), there.degraded()+there.allowed, elsewhere.degraded(), elsewhere.degraded()+elsewhere.allowed, reasons)
	f.row.notes = append(f.row.notes, fmt.Sprintf("other shards: %d degraded", elsewhere.degraded()))
	if answered[1] <= answered[0] {
		f.t.Errorf("under the fault of shard %d the store has answered %d times for its keys, and only %d times for those of the others",
			shard, answered[0], answered[1])
	}
}

// A primary of a cluster dies again and again. Its replica takes over; the other
// shards are not concerned.
//
//promise:shards-apart failover-loses
func TestClusterKills(t *testing.T) {
	c := openCluster(t, soon())
	const shard = 1
	var killed *testserver.RedisServer
	s := scenario{name: "Cluster: kill -9 of a primary", mode: failOpen, tries: begun.kills, options: c.options, steady: c.steady, failovers: c.Failovers}
	s.fault = func(f *faulted) time.Time {
		over := f.loses()
		killed = c.KillPrimary(shard)
		over()
		c.WaitForPrimary(c.FirstSlot(shard), killed)
		return time.Now()
	}
	s.restore = func(*faulted) { c.Restart(killed) }
	s.after = func(f *faulted) {
		reportUnaccounted(f)
		c.untouched(f, shard)
	}
	s.run(t)
}

// A primary of a cluster hangs and goes on before anybody takes its place.
func TestClusterPrimaryHangs(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	c := openCluster(t, soon())
	const shard = 2
	s := scenario{name: "Cluster: a primary hangs for 600 ms", mode: failLocal, options: c.options, steady: c.steady, failovers: c.Failovers}
	s.fault = func(*faulted) time.Time {
		primary := c.SlotOwner(c.FirstSlot(shard))
		primary.Stop()
		pause(600 * time.Millisecond)
		primary.Continue()
		return time.Now()
	}
	s.after = func(f *faulted) {
		reportUnaccounted(f)
		c.untouched(f, shard)
	}
	s.run(t)
}

// Slots are moved, there and back, while their keys are asked. Each hit is charged
// once, wherever it was sent first.
func TestClusterSlotMoves(t *testing.T) {
	c := openCluster(t, never)
	s := scenario{name: "Cluster: slots are moved", mode: failClosed, options: c.options, steady: c.steady, failovers: c.Failovers, gentle: true}
	s.fault = func(f *faulted) time.Time {
		primaries := c.Primaries()
		from, to := primaries[0], primaries[2]
		for _, slot := range busySlots(from, 3) {
			c.move(slot, from, to, f.length/6)
			c.move(slot, to, from, f.length/6)
		}
		return time.Now()
	}
	s.after = func(f *faulted) {
		reportUnaccounted(f)
		if f.row.lost > 0 || f.row.late > f.row.degraded() {
			f.t.Errorf("%d hits charged twice or late with %d degraded, %d not charged", f.row.late, f.row.degraded(), f.row.lost)
		}
	}
	s.run(t)
}

// move moves a slot in steps, with a pause in the middle.
func (c *clusterRig) move(slot int, from, to *testserver.RedisServer, middle time.Duration) {
	step := c.MoveSlot(slot, from, to)
	step.Begin()
	pause(middle)
	step.MoveKeys(5)
	pause(middle)
	for step.MoveKeys(20) > 0 {
	}
	step.Finish()
}

// busySlots returns up to n slots that hold the most keys of a primary.
func busySlots(primary *testserver.RedisServer, n int) []int {
	names, _ := primary.MustDo("KEYS", "*").([]any)
	held := map[int]int{}
	for _, name := range names {
		held[testserver.KeySlot(fmt.Sprint(name))]++
	}
	var busiest []int
	for range n {
		best := -1
		for slot, keys := range held {
			if best < 0 || keys > held[best] {
				best = slot
			}
		}
		if best >= 0 {
			busiest = append(busiest, best)
			delete(held, best)
		}
	}
	return busiest
}
