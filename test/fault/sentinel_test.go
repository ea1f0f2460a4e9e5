package fault

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store/redisstore"
)

// openSentinel starts three sentinels over a primary and a replica. They ask around
// more often than by default, which shortens the outages, not the time to heal.
func openSentinel(t *testing.T) (*testserver.SentinelServers, redisstore.Options) {
	t.Helper()
	s := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true})
	return s, redisstore.Options{Sentinel: &redisstore.Sentinel{Addrs: s.Addrs(), Master: s.Name}}
}

// The primary dies again and again, and a replica takes its place. What it had
// acknowledged and not passed on is lost.
//
//promise:failover-loses
func TestSentinelKills(t *testing.T) {
	for _, rule := range []ruleMode{{failOpen, false}, {failClosed, false}, {failLocal, false}, {failOpen, true}} {
		t.Run(rule.consistency()+" "+string(rule.failure), func(t *testing.T) {
			if rule != (ruleMode{failure: failOpen}) && !*long {
				t.Skip("only with -long")
			}
			servers, options := openSentinel(t)
			var killed *testserver.RedisServer
			s := scenario{name: "Sentinel: kill -9 of the primary", mode: rule.failure, leased: rule.leased, tries: begun.kills, options: options, failovers: servers.Failovers}
			s.fault = func(f *faulted) time.Time {
				over := f.loses()
				killed = servers.KillPrimary()
				over()
				servers.WaitForPrimary(killed)
				return time.Now()
			}
			s.restore = func(*faulted) { servers.Restart(killed) }
			s.after = reportUnaccounted
			s.run(t)
		})
	}
}

// A sentinel dies with the primary that it told of.
func TestSentinelAndPrimaryDie(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	servers, options := openSentinel(t)
	sentinels := servers.Sentinels()
	var killed, with *testserver.RedisServer
	next := 0
	s := scenario{name: "Sentinel: kill -9 of the primary and a sentinel", mode: failOpen, options: options, failovers: servers.Failovers}
	s.fault = func(f *faulted) time.Time {
		with = sentinels[next%len(sentinels)]
		next++
		with.Kill()
		over := f.loses()
		killed = servers.KillPrimary()
		over()
		servers.WaitForPrimary(killed)
		return time.Now()
	}
	s.restore = func(*faulted) {
		servers.RestartSentinel(with)
		servers.Restart(killed)
	}
	s.after = reportUnaccounted
	s.run(t)
}

// A primary that hangs is replaced. When it goes on it is for a moment a second
// primary: a node that is still connected to it is answered by it, until the
// sentinels make it a replica, and what it counted then is lost.
//
//promise:two-primaries brought-back-two-primaries
func TestSentinelPrimaryHangs(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	for _, remembers := range []bool{true, false} {
		servers, options := openSentinel(t)
		s := scenario{name: "Sentinel: the primary hangs, is replaced, and goes on", mode: failClosed, options: options, failovers: servers.Failovers}
		if !remembers {
			s.name += "; nothing is remembered"
			s.options.Remembered = -1
		}
		var longest time.Duration
		var scripts int
		s.fault = func(f *faulted) time.Time {
			hung := servers.WaitForPrimary(nil)
			before := hung.Calls("evalsha")
			over := f.loses()
			hung.Stop()
			servers.WaitForPrimary(hung)
			repaired := time.Now()
			hung.Continue()
			servers.WaitForDemotion(hung)
			over()
			longest = max(longest, time.Since(repaired))
			scripts += hung.Calls("evalsha") - before
			servers.WaitForReplica(hung)
			return repaired
		}
		s.after = func(f *faulted) {
			reportUnaccounted(f)
			f.row.notes = append(f.row.notes, fmt.Sprintf("the old primary stayed one for up to %s more, and ran %d scripts", rounded(longest), scripts))
		}
		s.run(t)
	}
}

// A replica that hangs concerns nobody.
func TestSentinelReplicaHangs(t *testing.T) {
	servers, options := openSentinel(t)
	options.Budget = patientBudget
	s := scenario{name: "Sentinel: the replica hangs", mode: failClosed, options: options, failovers: servers.Failovers, gentle: true}
	s.fault = func(f *faulted) time.Time {
		primary := servers.WaitForPrimary(nil)
		for _, node := range servers.Nodes {
			if node != primary {
				node.Stop()
				pause(f.length)
				if !f.load.waitAnswers() {
					f.t.Errorf("the store has not answered %v after a replica hung", patience)
				}
				node.Continue()
			}
		}
		return time.Now()
	}
	s.after = func(f *faulted) {
		reportUnaccounted(f)
		if f.row.lost > 0 && len(f.losses) == 0 {
			f.t.Errorf("%d lost hits by a replica alone", f.row.lost)
		}
	}
	s.run(t)
}

// reportUnaccounted puts what a failover has lost into the row.
func reportUnaccounted(f *faulted) {
	f.row.late, f.row.lost = f.unaccounted(f.options)
}
