package app

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memcachestore"
)

// One server of a cluster is a part of all keys: that it is gone must show
// though the others decide.
func TestPingTellsOfOneLostServer(t *testing.T) {
	cluster := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	k := openTestStack(t, config.Settings{Store: config.NewStoreURL("redis+cluster://" + strings.Join(cluster.Addrs(), ","))})
	if err := k.ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, node := range cluster.Nodes[:2] { // one of them has not the key that is probed
		node.Kill()
		if err := k.ping(t.Context()); store.ReasonOf(err) == store.NoReason {
			t.Errorf("server %d is gone, and ping says %v", i, err)
		}
		cluster.Restart(node)
		cluster.WaitHealthy()
		await(t, func() error { return k.ping(t.Context()) })
	}
}

// await waits until ready returns nil.
func await(t *testing.T, ready func() error) {
	t.Helper()
	if err := eventually.Poll(nil, ready); err != nil {
		t.Fatal(err)
	}
}

// A Redis that answers is not yet one that can decide, and that must not be
// seen in refused requests only.
func TestPingOfAStoreThatCannotDecide(t *testing.T) {
	cases := map[string]struct {
		server testserver.RedisConfig
		want   store.Reason
	}{
		"all is well":      {testserver.RedisConfig{}, store.NoReason},
		"user lacks EVAL":  {testserver.RedisConfig{Users: []string{"user default on nopass ~* +@all -eval -evalsha"}}, store.Denied},
		"user has no keys": {testserver.RedisConfig{Users: []string{"user default on nopass ~other:* +@all"}}, store.Denied},
		"memory is full":   {testserver.RedisConfig{Args: []string{"--maxmemory", "1"}}, store.Full},
		"no such command":  {testserver.RedisConfig{Args: []string{"--rename-command", "EVALSHA", ""}}, store.Misconfigured},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			opened, err := newStack(&config.Settings{Store: config.NewStoreURL(testserver.Redis(t, c.server).URL()), StoreBudget: 10 * time.Second}, true, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			if err := opened.ping(t.Context()); store.ReasonOf(err) != c.want {
				t.Errorf("ping says %v, want reason %q", err, c.want)
			}
		})
	}
}

// The commands that docs/operations.md names are all that a user needs, for every
// mode, the heartbeat, switches and health.
func TestDocumentedPermissionsSuffice(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "- The user needs ")
	list, _, _ = strings.Cut(list, " and the keys with the prefix")
	user := "user default on nopass ~hg:* -@all"
	for _, command := range regexp.MustCompile("`[A-Z]+`").FindAllString(list, -1) {
		user += " +" + strings.ToLower(strings.Trim(command, "`"))
	}
	redis := testserver.Redis(t, testserver.RedisConfig{Users: []string{user, "user other on >other ~* +@all"}})
	k := openTestStack(t, config.Settings{Store: config.NewStoreURL(redis.URL()), DenialMemory: 10})
	k.join(quiet())
	if err := k.ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	register := k.backends[0].Store.(store.Register)
	if done, err := register.ReplaceRegister(t.Context(), "switches", 0, 1, []byte("x")); !done || err != nil {
		t.Errorf("switches are not kept: %t, %v", done, err)
	}
	if version, _, err := register.ReadRegister(t.Context(), "switches", 0); version != 1 || err != nil {
		t.Errorf("switches are not read: version %d, %v", version, err)
	}
	limiter := limiterOver(t, k, `
domain: d
descriptors:
- {key: window, rate_limit: &l {unit: hour, requests_per_unit: 40}}
- {key: log, rate_limit: {unit: hour, requests_per_unit: 40, algorithm: sliding_log}}
- {key: parts, rate_limit: {unit: hour, requests_per_unit: 40, algorithm: sub_windows}}
- {key: bucket, rate_limit: {unit: hour, requests_per_unit: 40, algorithm: token_bucket}}
- {key: leased, consistency: leased, rate_limit: *l}
- {key: synced, consistency: synced, sync_interval: 50ms, rate_limit: *l}
`)
	for _, key := range []string{"window", "log", "parts", "bucket", "leased", "synced"} {
		if got := ask(t, limiter, key+":x", 50); got != 40 {
			t.Errorf("%s: %d admitted, want 40", key, got)
		}
	}
	await(t, func() error {
		leases, beats := sumLeases(k.leases), k.fleet.Stats()
		switch {
		case leases.Failures > 0 || beats.Failed > 0:
			t.Fatalf("leases %+v, heartbeats %+v", leases, beats)
		case leases.ExchangeCalls == 0 || leases.LeaseCalls == 0 || beats.Answered == 0:
			return fmt.Errorf("leases %+v, heartbeats %+v", leases, beats)
		}
		return nil
	})
}

// Every count of a server that a store keeps is one that metrics show.
func TestMemcachedCountsAreShown(t *testing.T) {
	server := memcachestore.ServerStats{Addr: "h:1", Open: 3, Idle: 1, Calls: 5, Failures: 2, Refused: 4, NotTaken: 6}
	got := memcachedShards(memcachestore.Stats{Servers: []memcachestore.ServerStats{server}})
	want := []shardState{{Shard: telemetry.Shard{Addr: "h:1", Connected: true, InFlight: 2, Calls: 5, Failures: 2, Refused: 4, NotTaken: 6}}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
