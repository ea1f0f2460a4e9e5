package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
)

// withReplica starts a primary and a replica of it.
func withReplica(t *testing.T) (primary, replica *testserver.RedisServer) {
	t.Helper()
	args := []string{"--repl-diskless-sync-delay", "0"}
	primary = testserver.Redis(t, testserver.RedisConfig{Args: args})
	replica = testserver.Redis(t, testserver.RedisConfig{Args: args, ReplicaOf: primary})
	primary.AwaitReplica(replica)
	return primary, replica
}

// scriptsOf returns how many scripts clients have had a server run.
func scriptsOf(s *testserver.RedisServer) int { return s.Calls("evalsha") + s.Calls("eval") }

// What operators look at is read from a replica, and marked; what they do, and what is
// decided, is not.
//
//promise:decisions-never-read-replicas
func TestOperatorsReadReplicas(t *testing.T) {
	primary, replica := withReplica(t)
	s, _ := adminSettings(t)
	s.Rules, s.StoreBudget = tenantSettings(t).Rules, 10*time.Second
	s.Store = config.NewStoreURL(primary.URL() + "?peeks=replicas")
	writeFile(t, s.Tiers, "tiers: {free: {default: {requests_per_unit: 100, unit: day}}}")
	at, o := startOperated(t, s, quiet())
	for range 3 {
		status, body := o.at("http://"+at["http"]).send(t, http.MethodPost, "/v1/check", "application/json", `{"domain":"api","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}
	primary.AwaitReplica(replica)
	if n := scriptsOf(replica); n != 0 {
		t.Errorf("the replica was asked %d times to decide", n)
	}
	type usage struct {
		Usage map[string]struct{ Used int64 }
		Stale *int64 `json:"stale_s"`
	}
	asks := func(method, path, body string) (u usage) {
		t.Helper()
		kind := ""
		if body != "" {
			kind = "application/json"
		}
		status, text := o.ask(t, method, path, kind, body)
		if err := json.Unmarshal([]byte(text), &u); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s (%v)", status, text, err)
		}
		return u
	}
	if u := asks(http.MethodGet, "usage/tenant:acme", ""); u.Usage["default"].Used != 3 || u.Stale == nil || *u.Stale < 1 {
		t.Errorf("read from a replica is %+v", u)
	}
	if scriptsOf(replica) == 0 {
		t.Error("the replica was not asked")
	}
	asked := scriptsOf(replica)
	if u := asks(http.MethodPost, "usage/tenant:acme/refund", `{"descriptor":"default","hits":2}`); u.Usage["default"].Used != 1 || u.Stale != nil {
		t.Errorf("after a refund it is %+v", u)
	}
	if u := asks(http.MethodPost, "usage/tenant:acme/reset", `{}`); u.Usage["default"].Used != 0 || u.Stale != nil {
		t.Errorf("after a reset it is %+v", u)
	}
	if n := scriptsOf(replica); n != asked {
		t.Errorf("the replica was asked %d times about what was just done", n-asked)
	}
	replica.Kill()
	if u := asks(http.MethodGet, "usage/tenant:acme", ""); u.Usage["default"].Used != 0 || u.Stale != nil {
		t.Errorf("without a replica it is %+v", u)
	}
}

// at returns o at another address.
func (o operator) at(base string) operator { return operator{base, o.token} }

const everyPlace = `
domain: d
match: path
descriptors:
- {key: near, rate_limit: {window: 365d, requests_per_unit: 9, algorithm: fixed_window}}
- {key: parts, sub_buckets: 3, rate_limit: {window: 365d, requests_per_unit: 90, algorithm: fixed_window}}
- {key: leased, consistency: leased, rate_limit: {window: 365d, requests_per_unit: 9, algorithm: fixed_window}}
- {key: own, consistency: local, rate_limit: {window: 365d, requests_per_unit: 9, algorithm: fixed_window}}
- {key: far, store: home, rate_limit: {window: 365d, requests_per_unit: 9, algorithm: fixed_window}}
- {key: second, rate_limit: {window: 1s, requests_per_unit: 9, algorithm: fixed_window}}
`

// Each bucket is read where it is kept: in the replica of its store, in parts, in the store
// that names no replicas, or on this node.
func TestPeeksFindTheirBuckets(t *testing.T) {
	main, replica := withReplica(t)
	home := testserver.Redis(t, testserver.RedisConfig{})
	s := withStores(t, main, "stores: {home: {url: "+home.URL()+"}}")
	s.Store = config.NewStoreURL(main.URL() + "?peeks=replicas")
	k := openTestStack(t, s)
	limiter := limiterOver(t, k, everyPlace)
	peek := func(text string, in store.Store) (remaining int64, marked bool) {
		t.Helper()
		var told atomic.Bool
		responses := make([]headgate.Response, 1)
		ctx := store.OnStale(context.Background(), func(time.Duration) { told.Store(true) })
		if err := limiter.PeekIn(ctx, in, []headgate.Request{request(t, text, store.Hit, 5)}, responses); err != nil {
			t.Fatal(err)
		}
		v := &responses[0].Verdicts[0]
		if v.Degraded != store.NoReason {
			t.Errorf("%s: %v", text, v.Degraded)
		}
		return v.Decision.Remaining, told.Load()
	}
	for text, marked := range map[string]bool{"near:u": true, "parts:u": true, "leased:u": true, "own:u": false, "far:u": false, "second:u": true} {
		ask(t, limiter, text, 4)
		main.AwaitReplica(replica)
		got, stale := peek(text, k.peeks)
		want, _ := peek(text, k)
		if strings.HasPrefix(text, "leased") {
			want = got // a node has more than it has used
		}
		if strings.HasPrefix(text, "second") {
			want = got // a second may be over
		}
		if got != want || stale != marked {
			t.Errorf("%s: %d remain in a replica and %d where it is decided; marked: %t", text, got, want, stale)
		}
	}
}

// A store that names no replicas has none read.
func TestNoReplicasUnlessNamed(t *testing.T) {
	main, _ := withReplica(t)
	for _, url := range []string{"memory://", main.URL(), main.URL() + "?peeks=primary"} {
		if k := openTestStack(t, config.Settings{Store: config.NewStoreURL(url)}); k.peeks != nil {
			t.Errorf("%s has replicas read", url)
		}
	}
}
