package fault

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore"
)

// cutOff is the node whose way is cut; the other one goes on.
const cutOff = 0

// throughWay has the node that is cut off go to the servers by w.
func throughWay(w way) func(int, *redisstore.Options) {
	return func(node int, o *redisstore.Options) {
		if node == cutOff {
			o.Via = w.via
		}
	}
}

// whileCutOff waits, and notes how often the store has answered each node meanwhile.
func (f *faulted) whileCutOff(wait func()) {
	var before [fleet]int64
	for node := range fleet {
		before[node] = f.load.meanwhile[node].Load()
	}
	wait()
	for node := range fleet {
		f.apart[node] += f.load.meanwhile[node].Load() - before[node]
	}
}

// othersGoOn demands that the store has answered the other nodes while one was cut off.
func othersGoOn(f *faulted) {
	f.t.Helper()
	others := int64(0)
	for node := range fleet {
		if node != cutOff {
			others += f.apart[node]
		}
	}
	f.row.notes = append(f.row.notes, fmt.Sprintf("meanwhile the store answered %d times the node that was cut off, %d times the other", f.apart[cutOff], others))
	if others == 0 {
		f.t.Error("while one node was cut off the store did not answer the other one either")
	}
}

// One of two nodes is cut off from a Redis that is well. The other one goes on as if nothing were, and both together
// stay within the limits.
//
//promise:node-cut-off
func TestOneNodeIsCutOff(t *testing.T) {
	for _, c := range []struct {
		name string
		mode failureMode
		cut  func(way)
		long bool
	}{
		{"nothing comes through", failClosed, way.hush, false},
		{"nothing comes through", failLocal, way.hush, true},
		{"connections are reset and refused", failOpen, way.end, true},
	} {
		t.Run(c.name+", "+string(c.mode), func(t *testing.T) {
			if c.long && !*long {
				t.Skip("only with -long")
			}
			server := testserver.Redis(t, testserver.RedisConfig{})
			w := newWay(t, server)
			s := scenario{name: "one of two nodes is cut off: " + c.name, mode: c.mode, options: redisstore.Options{Addr: server.Addr}, each: throughWay(w)}
			s.fault = func(f *faulted) time.Time {
				c.cut(w)
				f.whileCutOff(func() { pause(2 * f.length) })
				w.heal()
				return time.Now()
			}
			s.after = func(f *faulted) {
				late, lost := f.unaccounted(f.options)
				if lost > 0 || late > f.row.degraded() {
					f.t.Errorf("%d hits charged late with %d degraded, %d not charged", late, f.row.degraded(), lost)
				}
				f.row.late = late
				othersGoOn(f)
			}
			s.run(t)
		})
	}
}

// One of two nodes is cut off, and while it is the primary dies and a replica takes its place. It comes back to another
// server than it left, and brings what it knew before all that.
//
//promise:cut-off-through-failover
func TestCutOffThroughFailover(t *testing.T) {
	servers, options := openSentinel(t)
	w := newWay(t, servers.Nodes...)
	var killed *testserver.RedisServer
	s := scenario{
		name: "Sentinel: one of two nodes is cut off, then kill -9 of the primary", mode: failClosed,
		options: options, each: throughWay(w), failovers: servers.Failovers,
	}
	s.fault = func(f *faulted) time.Time {
		w.hush()
		f.whileCutOff(func() { pause(f.length) })
		over := f.loses()
		killed = servers.KillPrimary()
		over()
		servers.WaitForPrimary(killed)
		pause(f.length)
		w.heal()
		return time.Now()
	}
	s.restore = func(*faulted) { servers.Restart(killed) }
	s.after = func(f *faulted) {
		reportUnaccounted(f)
		othersGoOn(f)
	}
	s.run(t)
}

// The primary dies while many clients are connected, and as soon as another one serves they all lose their connections
// to that too, again and again.
func TestFailoverInAStorm(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	const clients = 20
	servers, options := openSentinel(t)
	for range clients {
		openLimiter(t, options, ruleMode{failure: failOpen}, new(listener))
	}
	var killed *testserver.RedisServer
	s := scenario{name: "Sentinel: kill -9 of the primary, and a reconnect storm of 20 more clients", mode: failOpen, options: options, failovers: servers.Failovers}
	s.fault = func(f *faulted) time.Time {
		over := f.loses()
		killed = servers.KillPrimary()
		over()
		primary := servers.WaitForPrimary(killed)
		for range 5 {
			hangUp(primary)
			pause(f.length / 5)
		}
		return time.Now()
	}
	s.restore = func(*faulted) { servers.Restart(killed) }
	s.after = reportUnaccounted
	s.run(t)
}

// Scripts are forgotten by all primaries while slots are moved: who is sent on to another primary finds that this does
// not know the script.
func TestFlushWhileSlotsMove(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	c := openCluster(t, never)
	flush := func() {
		for _, primary := range c.Primaries() {
			primary.MustDo("SCRIPT", "FLUSH")
		}
	}
	s := scenario{name: "Cluster: SCRIPT FLUSH while slots are moved", mode: failClosed, options: c.options, steady: c.steady, failovers: c.Failovers, gentle: true}
	s.fault = func(f *faulted) time.Time {
		primaries := c.Primaries()
		from, to := primaries[0], primaries[2]
		for _, slot := range busySlots(from, 3) {
			for _, step := range []*testserver.SlotMove{c.MoveSlot(slot, from, to), c.MoveSlot(slot, to, from)} {
				step.Begin()
				flush()
				pause(f.length / 6)
				step.MoveKeys(5)
				flush()
				for step.MoveKeys(20) > 0 {
				}
				step.Finish()
			}
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

// A primary of a cluster dies while another one hangs: of three primaries only one is there to say that the dead one is
// dead, so that its replica must wait for the other.
func TestClusterKillWhileAnotherHangs(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	c := openCluster(t, soon())
	const dies, hangs = 1, 2
	var killed *testserver.RedisServer
	s := scenario{name: "Cluster: kill -9 of a primary while another hangs for 600 ms", mode: failClosed, options: c.options, steady: c.steady, failovers: c.Failovers}
	s.fault = func(f *faulted) time.Time {
		killed = c.SlotOwner(c.FirstSlot(dies))
		hung := c.SlotOwner(c.FirstSlot(hangs))
		over := f.loses()
		hung.Stop()
		killed.Kill()
		over()
		pause(600 * time.Millisecond)
		hung.Continue()
		c.WaitForPrimary(c.FirstSlot(dies), killed)
		return time.Now()
	}
	s.restore = func(*faulted) { c.Restart(killed) }
	s.after = func(f *faulted) {
		reportUnaccounted(f)
		c.untouched(f, dies)
	}
	s.run(t)
}
