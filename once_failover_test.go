package headgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// F2: when the primary of a shard dies and its replica takes over, a check whose answer the
// replica had been told is repeated and charged nothing. What it had not been told may be
// charged again, by the first repeat, and by no later one.
//
//promise:id-failover
func TestF2ChargedOnceOverAFailover(t *testing.T) {
	const told, untold = 60, 60
	cluster := testserver.Cluster(t, testserver.ClusterConfig{NodeTimeout: time.Minute}) // no failover but ours
	// Two nodes: one decides, the other one is asked again.
	var nodes [2]*headgate.Limiter
	for i := range nodes {
		s := openRedis(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ","))
		t.Cleanup(func() { s.Close() })
		l, err := headgate.New(headgate.Options{Store: s, AnswersAwaited: time.Minute, Rules: load(t, `
domain: d
descriptors: [{key: user, rate_limit: {window: 366d, requests_per_unit: 10, algorithm: fixed_window}}]
`)})
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = l
	}
	// ask checks the user i, by an id of its own or by none, and returns what is left of 10.
	ask := func(l *headgate.Limiter, i int, id string, hits int64) (left int64) {
		t.Helper()
		eventually.Nil(t, fmt.Sprint("an answer about user ", i), func() error {
			d := on(fmt.Sprint("user:", i))
			d.Hits = hits
			responses := make([]headgate.Response, 1)
			if err := l.CheckOnce(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}, []string{id}, responses); err != nil {
				t.Fatal(err)
			}
			if reason := responses[0].Degraded(); reason != "" {
				return fmt.Errorf("degraded: %s", reason)
			}
			left = responses[0].Verdicts[0].Decision.Remaining
			return nil
		})
		return left
	}
	check := func(l *headgate.Limiter, i int) int64 { return ask(l, i, fmt.Sprint("id-", i), 1) }

	for i := range told {
		check(nodes[0], i)
	}
	victim := cluster.SlotOwner(cluster.FirstSlot(0))
	eventually.Nil(t, "the replica has been told all", func() error { return caughtUp(victim) })
	replica := replicaOf(t, cluster, victim)
	victim.CutReplicas()
	for i := range untold {
		check(nodes[0], told+i)
	}
	victim.Kill()
	replica.MustDo("CLUSTER", "FAILOVER", "TAKEOVER")
	cluster.WaitForPrimary(cluster.FirstSlot(0), victim)

	for i := range told {
		if left := check(nodes[1], i); left != 9 {
			t.Errorf("user %d: the repeat is told that %d are left, want 9", i, left)
		}
	}
	if c := nodes[1].CheckIDs(); c.First != 0 || c.Repeated != told {
		t.Errorf("of %d that the replica had been told: %+v", told, c)
	}
	for i := range untold {
		check(nodes[1], told+i)
	}
	again := nodes[1].CheckIDs().First
	if again == 0 || again >= untold {
		t.Errorf("%d of %d were decided again, want those of one shard of three: the failover has lost nothing, or all", again, untold)
	}
	for i := range told + untold {
		check(nodes[1], i)
		check(nodes[0], i)
	}
	if c := nodes[0].CheckIDs(); nodes[1].CheckIDs().First != again || c.First != told+untold {
		t.Errorf("decided %d and %d times, want %d and %d: what was decided again is not remembered", c.First, nodes[1].CheckIDs().First, told+untold, again)
	}
	for i := range told + untold {
		most := int64(1)
		if i >= told {
			most = 2
		}
		if used := 10 - ask(nodes[1], i, "", 0); used > most || used < 1 && i < told {
			t.Errorf("user %d was charged %d times, want at most %d", i, used, most)
		}
	}
	t.Logf("%d of %d checks that the replica had not been told were decided again", again, untold)
}

// caughtUp returns an error while a replica of a primary lacks something.
func caughtUp(primary *testserver.RedisServer) error {
	offset, err := primary.Info("replication", "master_repl_offset")
	if err != nil {
		return err
	}
	replica, err := primary.Info("replication", "slave0")
	if err == nil && !strings.Contains(replica, "offset="+offset+",") {
		err = fmt.Errorf("the primary is at %s, its replica at %s", offset, replica)
	}
	return err
}

// replicaOf returns the replica of a primary.
func replicaOf(t *testing.T, cluster *testserver.ClusterServers, primary *testserver.RedisServer) *testserver.RedisServer {
	t.Helper()
	for _, node := range cluster.Nodes {
		if port, err := node.Info("replication", "master_port"); err == nil && strings.HasSuffix(primary.Addr, ":"+port) {
			return node
		}
	}
	t.Fatalf("%s has no replica", primary.Addr)
	return nil
}
