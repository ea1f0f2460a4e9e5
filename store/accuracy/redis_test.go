package accuracy_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/accuracy"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/redisstore"
)

// sampledNode is a node of a fleet over a store, with the layers of all modes, that
// samples all keys.
func sampledNode(t *testing.T, inner store.Leaser, nodes int, share float64, yaml string) *bench {
	t.Helper()
	live := func() int { return nodes }
	own, err := local.New(local.Options{Nodes: live})
	if err != nil {
		t.Fatal(err)
	}
	leases := lease.New(lease.Options{Store: patient{inner}, Local: own, Nodes: live, Budget: patience})
	t.Cleanup(func() { leases.Close() })
	return newBench(t, yaml, share, headgate.Options{Store: unhurried{leases}, Fallback: own})
}

// patience is how long a server may take to answer.
const patience = 5 * time.Second

// unhurried is patient for a store that hands out leases itself: whoever waits for a lease waits
// as long as the question for it may take.
type unhurried struct{ store.Store }

// Take implements store.Store.
func (s unhurried) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	s.Store.Take(context.WithoutCancel(ctx), takes, results)
}

// patient is a store that takes its own time and not that of its caller, who gives a
// call after the answer a few milliseconds: on a busy machine a reference would miss hits.
type patient struct{ store.Leaser }

// Take implements store.Store.
func (s patient) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	s.Leaser.Take(context.WithoutCancel(ctx), takes, results)
}

// patientRedis opens a store that waits for its server, however busy the machine is.
func patientRedis(t *testing.T, o redisstore.Options) *redisstore.Store {
	t.Helper()
	if o.Budget == 0 {
		o.Budget = patience
	}
	s, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func optionsOf(t *testing.T, server *testserver.RedisServer) redisstore.Options {
	t.Helper()
	o, err := redisstore.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Two nodes that each have the whole limit let twice as much pass: the excess that the
// rule promises, seen by both together.
func TestRedisMeasuresLocalNodes(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	yaml := `
domain: d
descriptors:
- {key: whole, name: whole, consistency: local, local_share: whole, rate_limit: {window: 365d, requests_per_unit: 10, algorithm: fixed_window}}
- {key: share, name: share, consistency: local, rate_limit: {window: 365d, requests_per_unit: 10, algorithm: fixed_window}}
- {key: synced, name: synced, consistency: synced, rate_limit: {window: 365d, requests_per_unit: 10, algorithm: fixed_window}}
- {key: leased, name: leased, consistency: leased, rate_limit: {window: 365d, requests_per_unit: 100, algorithm: fixed_window}}
- {key: exact, name: exact, rate_limit: {window: 365d, requests_per_unit: 10, algorithm: sub_windows}}
`
	var nodes [2]*bench
	for i := range nodes {
		nodes[i] = sampledNode(t, patientRedis(t, optionsOf(t, server)), len(nodes), 1, yaml)
	}
	for range 15 {
		for _, node := range nodes {
			for _, text := range []string{"whole:k", "share:k", "exact:k", "synced:k", "leased:k"} {
				d := on(text)
				if text == "leased:k" {
					d.Hits = 10
				}
				node.check(d)
			}
		}
	}
	for _, node := range nodes { // how far they go within their bounds is a matter of time
		for rule, bound := range map[string]float64{"synced": 1, "leased": 0} {
			if r := node.counts(rule); r.Decided != 15 || r.Overshoot > bound || bound == 0 && r.WrongAllowed > 0 || r.Missed > 0 {
				t.Errorf("%s: %+v", rule, r)
			}
		}
	}
	for rule, want := range map[string]accuracy.Counts{
		"whole": {Decided: 30, WrongAllowed: 10, Overshoot: 1},
		"share": {Decided: 30},
		"exact": {Decided: 30},
	} {
		var sum accuracy.Counts
		for _, node := range nodes {
			r := node.counts(rule)
			sum.Decided, sum.WrongAllowed, sum.WrongDenied = sum.Decided+r.Decided, sum.WrongAllowed+r.WrongAllowed, sum.WrongDenied+r.WrongDenied
			sum.Overshoot = max(sum.Overshoot, r.Overshoot)
		}
		if sum != want {
			t.Errorf("%s: %+v, want %+v", rule, sum, want)
		}
	}
}

// While the server is away, a node that samples answers as one that does not.
func TestRedisKilledWhileMeasuring(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	yaml := `
domain: d
descriptors:
- {key: open, name: open, rate_limit: &l {unit: hour, requests_per_unit: 5}}
- {key: closed, name: closed, failure_mode: closed, rate_limit: *l}
- {key: fallback, name: fallback, failure_mode: local, rate_limit: *l}
- {key: local, name: local, consistency: local, rate_limit: *l}
`
	o := optionsOf(t, server)
	plain, sampled := sampledNode(t, patientRedis(t, o), 1, 0, yaml), sampledNode(t, patientRedis(t, o), 1, 1, yaml)
	ask := func(when string) {
		for _, key := range []string{"open", "closed", "fallback", "local"} {
			for i := range 7 {
				want, got := plain.check(on(key+":plain")), sampled.check(on(key+":sampled"))
				w, g := &want.Verdicts[0], &got.Verdicts[0]
				if len(got.Verdicts) != 1 || got.Allowed != want.Allowed || (g.Degraded == store.NoReason) != (w.Degraded == store.NoReason) || g.By != w.By || g.Decision.Remaining != w.Decision.Remaining {
					t.Fatalf("%s, %s, request %d:\n got %+v\nwant %+v", when, key, i+1, g, w)
				}
			}
		}
	}
	for _, step := range []struct {
		when string
		want accuracy.Counts
	}{{"alive", accuracy.Counts{Decided: 7}}, {"killed", accuracy.Counts{Decided: 7, Missed: 7}}} {
		if step.when == "killed" {
			server.Kill()
		}
		ask(step.when)
		for _, rule := range []string{"open", "closed", "fallback", "local"} {
			if got := sampled.counts(rule); got != step.want {
				t.Errorf("%s, %s: %+v, want %+v", step.when, rule, got, step.want)
			}
		}
	}
}

// In a cluster a group over several shards stays what it is, and references are exact
// though they are in other shards than their buckets.
func TestClusterMeasuresGroups(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{})
	b := sampledNode(t, patientRedis(t, redisstore.Options{Cluster: servers.Addrs()[:1]}), 1, 1, `
domain: d
descriptors:
- {key: user, name: user, rate_limit: {window: 365d, requests_per_unit: 6, algorithm: sub_windows}}
- {key: address, name: address, rate_limit: {window: 365d, requests_per_unit: 4, algorithm: fixed_window}}
`)
	for user := range 8 {
		d := []headgate.Descriptor{on(fmt.Sprintf("user:u%d", user)), on(fmt.Sprintf("address:a%d", user))}
		for i := range 10 {
			if r := b.check(d...); r.Allowed != (i < 4) || r.Degraded() != store.NoReason {
				t.Fatalf("user %d, request %d: %+v", user, i+1, r)
			}
		}
		for i := range 3 { // what addresses denied was charged to no user
			if r := b.check(d[0]); r.Allowed != (i < 2) {
				t.Fatalf("user %d alone, request %d: %+v", user, i+1, r)
			}
		}
	}
	for rule, decided := range map[string]int64{"user": 8 * (4 + 3), "address": 8 * 10} {
		if got := b.counts(rule); got != (accuracy.Counts{Decided: decided}) {
			t.Errorf("%s: %+v, want %d decided", rule, got, decided)
		}
	}
}

// One server decides a batch in one step, so an exact limit and its reference agree
// however many ask at once.
func TestRedisMeasuresWhoAskAtOnce(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	const yaml = `
domain: d
descriptors:
- {key: user, name: user, remember_denials: false, rate_limit: {window: 1h, requests_per_unit: 100, algorithm: sliding_log}}
- {key: bucket, name: bucket, remember_denials: false, rate_limit: {unit: second, requests_per_unit: 200, algorithm: token_bucket, burst: 50}}
- {key: first, name: first, remember_denials: false, rate_limit: {unit: second, requests_per_unit: 500, algorithm: token_bucket, burst: 20}}
- {key: second, name: second, remember_denials: false, rate_limit: {window: 1h, requests_per_unit: 5, algorithm: fixed_window}}
`
	var nodes [2]*bench
	for i := range nodes {
		nodes[i] = sampledNode(t, patientRedis(t, optionsOf(t, server)), len(nodes), 1, yaml)
	}
	var asking sync.WaitGroup
	for i := range 16 {
		asking.Go(func() {
			for j := range 100 {
				nodes[i%2].check(on(fmt.Sprintf("user:u%d", j%4)))
				nodes[i%2].check(on("bucket:b"))
				nodes[i%2].check(on("first:a"), on(fmt.Sprintf("second:%d", j%10)))
			}
		})
	}
	asking.Wait()
	for _, node := range nodes { // what the first denies is never counted for the second
		if got := node.counts("second"); got.WrongAllowed > 0 || got.Overshoot > 0 || got.Decided == 0 {
			t.Errorf("in groups: %+v", got)
		}
	}
	for _, rule := range []string{"user", "bucket"} {
		for i, node := range nodes {
			if got := node.counts(rule); got != (accuracy.Counts{Decided: 800}) {
				t.Errorf("%s on node %d: %+v, want 800 decided", rule, i, got)
			}
		}
	}
}
