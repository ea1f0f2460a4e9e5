package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// peek asks p, and returns what TellStale was told.
func peek(t *testing.T, p *Peeks, takes ...store.Take) (results []store.Result, heard time.Duration) {
	t.Helper()
	var told atomic.Int64
	results = make([]store.Result, len(takes))
	p.Take(store.OnStale(context.Background(), func(d time.Duration) { told.Store(int64(d)) }), takes, results)
	for i := range results {
		if results[i].Err != nil {
			t.Fatalf("take %d: %v", i, results[i].Err)
		}
	}
	return results, time.Duration(told.Load())
}

// scripts returns how many scripts servers were asked to run, by clients: what a primary has
// its replicas do is no script.
func scripts(servers ...*testserver.RedisServer) (calls int) {
	for _, s := range servers {
		for _, command := range []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"} {
			calls += s.Calls(command)
		}
	}
	return calls
}

// primaryAndReplica starts both, and waits until the replica is one.
func primaryAndReplica(t *testing.T, cfg testserver.RedisConfig) (primary, replica *testserver.RedisServer) {
	t.Helper()
	cfg.Args = append(cfg.Args, "--repl-diskless-sync-delay", "0")
	primary = testserver.Redis(t, cfg)
	cfg.ReplicaOf = primary
	replica = testserver.Redis(t, cfg)
	primary.AwaitReplica(replica)
	return primary, replica
}

// openPeeks is openURL with replicas asked.
func openPeeks(t *testing.T, url string) (*Store, *Peeks) {
	t.Helper()
	s := openURL(t, url)
	p := s.Peeks()
	if p == nil {
		t.Fatalf("%s names no replicas", url)
	}
	return s, p
}

// What a replica says is what its primary says, however it is counted, and it alone is asked.
func TestReplicaAnswersPeeks(t *testing.T) {
	for _, program := range testserver.RedisPrograms {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			primary, replica := primaryAndReplica(t, testserver.RedisConfig{Program: program})
			s, p := openPeeks(t, primary.URL()+"?peeks=replicas")
			var hits, peeks []store.Take
			add := func(spec limit.Spec) {
				l := limit.Must(spec)
				hits = append(hits, store.Take{Key: fmt.Appendf(nil, "key %d", len(hits)), Limit: l, Hits: 3})
				peeks = append(peeks, store.Take{Key: hits[len(hits)-1].Key, Limit: l})
			}
			for _, a := range []limit.Algorithm{limit.SlidingWindow, limit.FixedWindow, limit.SlidingLog, limit.TokenBucket, limit.GCRA} {
				add(limit.Spec{Algorithm: a, Quota: 10, Period: 24 * time.Hour})
			}
			add(limit.Spec{Algorithm: limit.SubWindows, Quota: 10, Period: 24 * time.Hour, SubWindows: 24})
			for range 3 * maxKeys { // more than one call
				add(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: 24 * time.Hour})
			}
			takeAll(s, hits...)
			primary.AwaitReplica(replica)
			want := takeAll(s, peeks...)
			before := scripts(primary)
			for range 2 { // the first brings the script along
				got, heard := peek(t, p, peeks...)
				if heard < time.Second || heard > time.Hour {
					t.Errorf("the replica has heard of its primary %v ago", heard)
				}
				for i := range got {
					if got[i].Limit != 10 || got[i].Remaining != want[i].Remaining || got[i].Remaining != 7 {
						t.Errorf("%d: the replica says %+v, the primary %+v", i, got[i], want[i])
					}
				}
			}
			if after := scripts(primary); after != before {
				t.Errorf("the primary was asked %d times", after-before)
			}
			if scripts(replica) == 0 {
				t.Error("the replica was not asked")
			}
		})
	}
}

// Whatever is no peek is asked of the primary alone: by the Store always, and by Peeks where
// one take of a batch is none. Nothing that a peek does writes anywhere.
//
//promise:decisions-never-read-replicas
func TestDecisionsNeverAskReplicas(t *testing.T) {
	t.Parallel()
	primary, replica := primaryAndReplica(t, testserver.RedisConfig{})
	s, p := openPeeks(t, primary.URL()+"?peeks=replicas")
	slots := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 3, Period: time.Hour})
	key := []byte("key")
	batches := [][]store.Take{
		{{Key: key, Limit: tenPerHour, Hits: 1}},
		{{Key: key, Limit: tenPerHour, Hits: 1, DryRun: true}},
		{{Key: key, Limit: tenPerHour, Hits: 1, Op: store.Refund}},
		{{Key: key, Limit: tenPerHour, Hits: 1, Op: store.Charge}},
		{{Key: key, Limit: tenPerHour, Op: store.Reset}},
		{{Key: []byte("slots"), Limit: slots, Hits: 1, Hold: 1}},
		{{Key: []byte("slots"), Limit: slots, Hold: 1, Op: store.Renew}},
		{{Key: []byte("slots"), Limit: slots, Hold: 1, Op: store.Release}},
		{{Key: key, Limit: tenPerHour}, {Key: key, Limit: tenPerHour, Hits: 1}, {Key: key, Limit: tenPerHour}},
	}
	for _, batch := range batches {
		takeAll(s, batch...)
		if _, heard := peek(t, p, batch...); heard != 0 {
			t.Errorf("%+v was answered by a replica", batch)
		}
	}
	wantPeek(t, s) // of the Store it is a part of deciding
	if n := scripts(replica); n != 0 {
		t.Errorf("the replica was asked %d times", n)
	}
	if _, heard := peek(t, p, store.Take{Key: key, Limit: tenPerHour}); heard == 0 || scripts(replica) == 0 {
		t.Error("nobody asks the replica")
	}
}

// A replica that may be written to is not written to, not even if it were asked to decide.
func TestPeeksWriteNothing(t *testing.T) {
	t.Parallel()
	primary, replica := primaryAndReplica(t, testserver.RedisConfig{Args: []string{"--replica-read-only", "no"}})
	s, p := openPeeks(t, primary.URL()+"?peeks=replicas")
	takeOne(s, "key", tenPerHour, 3)
	primary.AwaitReplica(replica)
	name := s.Name([]byte("key"))
	before := fmt.Sprint(replica.MustDo("GET", name))
	takes := []store.Take{{Key: []byte("key"), Limit: tenPerHour, Hits: 1}, {Key: []byte("other"), Limit: tenPerHour, Hits: 1}}
	results := make([]store.Result, len(takes))
	if !p.ask(t.Context(), &peekPart{at: s.only, takes: []int{0, 1}}, takes, results) || results[0].Remaining != 7 || results[1].Remaining != 10 {
		t.Errorf("%+v", results)
	}
	if after := fmt.Sprint(replica.MustDo("GET", name)); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if n := fmt.Sprint(replica.MustDo("DBSIZE")); n != "1" {
		t.Errorf("%s keys", n)
	}
}

// Where no replica can be asked the primary is, and its answer is not marked.
func TestPeeksWithoutAReplica(t *testing.T) {
	t.Parallel()
	primary, replica := primaryAndReplica(t, testserver.RedisConfig{Users: []string{
		"user default on nopass ~* &* +@all",
		"user all on >secret-all ~hg:* -@all +select +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append +pexpire +info",
		"user few on >secret-few ~hg:* -@all +select +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append +pexpire",
	}})
	other := testserver.Redis(t, testserver.RedisConfig{})
	as := func(user string) string { return strings.Replace(primary.URL(), "redis://", "redis://"+user+"@", 1) }
	question := store.Take{Key: []byte("key"), Limit: tenPerHour}
	ask := func(p *Peeks, marked bool) {
		t.Helper()
		if results, heard := peek(t, p, question); results[0].Remaining != 7 || (heard != 0) != marked {
			t.Errorf("%d remain, heard %v ago", results[0].Remaining, heard)
		}
	}
	s, found := openPeeks(t, as("all:secret-all")+"?peeks=replicas")
	_, named := openPeeks(t, as("all:secret-all")+"?peeks="+replica.Addr)
	few, unasked := openPeeks(t, as("few:secret-few")+"?peeks=replicas")
	session, _ := few.only.Session()
	_, untold := openPeeks(t, as("few:secret-few")+"?peeks="+replica.Addr)
	_, noReplica := openPeeks(t, as("all:secret-all")+"?peeks="+other.Addr)
	_, itself := openPeeks(t, as("all:secret-all")+"?peeks="+primary.Addr)
	_, nobody := openPeeks(t, as("all:secret-all")+"?peeks=127.0.0.1:1")
	takeOne(s, "key", tenPerHour, 3)
	primary.AwaitReplica(replica)
	ask(found, true)
	ask(named, true)
	for _, p := range []*Peeks{unasked, untold, noReplica, itself, nobody} {
		ask(p, false)
	}
	if now, fault := few.only.Session(); now != session {
		t.Errorf("who may not ask for replicas has lost the connection by which it decides: %v", fault)
	}
	// A replica that copies another server now has lost its link.
	replica.MustDo("REPLICAOF", "127.0.0.1", "1")
	ask(found, false)
	ask(named, false)
	replica.Kill()
	ask(found, false)
	ask(named, false)
	if n := scripts(other); n != 0 {
		t.Errorf("what is no replica was asked %d times", n)
	}
	primary.Kill()
	results := make([]store.Result, 1)
	named.Take(context.Background(), []store.Take{question}, results)
	if results[0].Err == nil {
		t.Error("a peek was answered when nobody is there")
	}
}

// The replicas of who is the primary are asked, over TLS and with the password of the
// servers, and after a failover those of the next one.
func TestSentinelPeeks(t *testing.T) {
	servers := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true, TLS: true, Password: "secret-one"})
	o := sentinelOptions(servers)
	o.Password = "secret-one"
	o.Replicas = new(conn.Replicas)
	s := open(t, o)
	p := s.Peeks()
	takeOne(s, "key", tenPerHour, 3)
	question := store.Take{Key: []byte("key"), Limit: tenPerHour}
	marked := func() bool {
		results, heard := peek(t, p, question)
		return results[0].Remaining == 7 && heard > 0
	}
	eventually.True(t, "a replica answers", marked)
	dead := servers.KillPrimary()
	next := servers.WaitForPrimary(dead)
	servers.Restart(dead)
	eventually.True(t, "the store works again", func() bool { return takeOne(s, "key", tenPerHour, 0).Err == nil })
	before := scripts(next)
	eventually.True(t, "a replica of the next primary answers", func() bool {
		before = scripts(next)
		return marked()
	})
	if after := scripts(next); after != before {
		t.Errorf("the next primary was asked too, %d times", after-before)
	}
}

// In a cluster each replica is asked for what its primary has.
func TestClusterPeeks(t *testing.T) {
	t.Parallel()
	servers := testserver.Cluster(t, testserver.ClusterConfig{})
	s := open(t, Options{Cluster: servers.Addrs(), Replicas: new(conn.Replicas)})
	p := s.Peeks()
	var hits, peeks []store.Take
	for i := range 300 {
		key := fmt.Appendf(nil, "key %d", i)
		hits, peeks = append(hits, store.Take{Key: key, Limit: tenPerHour, Hits: 3}), append(peeks, store.Take{Key: key, Limit: tenPerHour})
	}
	takeAll(s, hits...)
	if n := scripts(servers.Nodes[3:]...); n != 0 {
		t.Errorf("replicas were asked %d times to decide", n)
	}
	right := func() bool {
		results, heard := peek(t, p, peeks...)
		return heard > 0 && !slices.ContainsFunc(results, func(r store.Result) bool { return r.Remaining != 7 })
	}
	var before int
	eventually.True(t, "replicas answer alone", func() bool {
		before = scripts(servers.Nodes[:3]...)
		return right() && scripts(servers.Nodes[:3]...) == before
	})
	for _, replica := range servers.Nodes[3:] {
		if scripts(replica) == 0 {
			t.Errorf("the replica %s was not asked", replica.Addr)
		}
	}
	// Without one of them its primary answers for it.
	servers.Nodes[3].Kill()
	if !right() {
		t.Error("not all is answered right without a replica")
	}
}
