package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
)

// withStores returns settings with a main store and a file of others.
func withStores(t *testing.T, main *testserver.RedisServer, file string) config.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stores.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Settings{
		Store: config.NewStoreURL(main.URL()), Stores: path, StoreBudget: 10 * time.Second,
		BreakerFailures: 1000, BreakerRatio: 1, BreakerPause: time.Second, DenialMemory: 100,
	}
}

// bucketsIn returns how many buckets a store holds; the names of nodes and probes are none.
func bucketsIn(server *testserver.RedisServer) int64 {
	keys, _ := server.MustDo("DBSIZE").(int64)
	return keys
}

const farAndNear = `
domain: d
match: path
descriptors:
- key: near
  rate_limit: {window: 365d, requests_per_unit: 9, algorithm: fixed_window}
  descriptors:
  - {key: far, store: home, rate_limit: {window: 365d, requests_per_unit: 3, algorithm: fixed_window}}
- {key: lone, store: home, rate_limit: {window: 365d, requests_per_unit: 5}}
`

// The buckets of a rule are in the store that it names, those of others are not, and a
// request that meets both kinds is charged in both or in none.
func TestC2StoresByName(t *testing.T) {
	main, home := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	k := openTestStack(t, withStores(t, main, "stores: {home: {url: "+home.URL()+"}}"))
	limiter := limiterOver(t, k, farAndNear)
	if got := ask(t, limiter, "near:u,far:w", 5); got != 3 {
		t.Errorf("%d admitted, want the 3 of the rule in home", got)
	}
	if a, b := bucketsIn(main), bucketsIn(home); a != 1 || b != 1 {
		t.Errorf("%d buckets in the main store and %d in home, want one each", a, b)
	}
	if got := ask(t, limiter, "near:u", 10); got != 6 {
		t.Errorf("%d admitted, want the 6 of 9 that denials in home left", got)
	}
	names := map[string]bool{}
	for _, s := range k.shards() {
		names[s.Store+" "+s.Addr] = s.Connected
	}
	if len(names) != 2 || !names["store "+main.Addr] || !names["home "+home.Addr] {
		t.Errorf("shards are %v", names)
	}
	home.Kill()
	if err := k.ping(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "store home: ") {
		t.Errorf("ping says %v", err)
	}
	if got := degradedBy(t, limiter, "lone:u"); got == store.NoReason {
		t.Error("a rule whose store is away is decided by it")
	}
	if got := degradedBy(t, limiter, "near:v"); got != store.NoReason {
		t.Errorf("a rule of the other store is degraded: %v", got)
	}
}

// degradedBy asks for one hit, and returns why the store did not decide it.
func degradedBy(t *testing.T, limiter *headgate.Limiter, text string) store.Reason {
	t.Helper()
	response := checkOp(t, limiter, text, store.Hit, 1)
	return response.Degraded()
}

// checkOp does one thing to the buckets of a descriptor.
func checkOp(t *testing.T, limiter *headgate.Limiter, text string, op store.Op, hits int64) headgate.Response {
	t.Helper()
	responses := make([]headgate.Response, 1)
	if err := limiter.Check(t.Context(), []headgate.Request{request(t, text, op, hits)}, responses); err != nil {
		t.Fatal(err)
	}
	return responses[0]
}

func request(t *testing.T, text string, op store.Op, hits int64) headgate.Request {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: hits, Op: op}}}
}

// Whatever is done to a bucket finds it in its store: peeks, refunds, resets, reservations.
func TestC2EverythingFindsTheStore(t *testing.T) {
	main, home := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	k := openTestStack(t, withStores(t, main, "stores: {home: {url: "+home.URL()+"}}"))
	limiter := limiterOver(t, k, farAndNear)
	left := func() int64 {
		t.Helper()
		r := checkOp(t, limiter, "lone:u", store.Hit, 0)
		return r.Verdicts[0].Decision.Remaining
	}
	for _, step := range []struct {
		name string
		do   func()
		left int64
	}{
		{"hits", func() { ask(t, limiter, "lone:u", 3) }, 2},
		{"refund", func() { checkOp(t, limiter, "lone:u", store.Refund, 1) }, 3},
		{"charge", func() { checkOp(t, limiter, "lone:u", store.Charge, 2) }, 1},
		{"reset", func() { checkOp(t, limiter, "lone:u", store.Reset, 0) }, 5},
		{"reserve and commit less", func() {
			req := request(t, "lone:u", store.Hit, 4)
			var r headgate.Response
			reserved, err := limiter.Reserve(t.Context(), &req, reservation.Options{}, &r)
			if err != nil || !r.Allowed {
				t.Fatalf("%+v, %v", r, err)
			}
			if outcome, err := limiter.Commit(t.Context(), reserved, reservation.Actual{Hits: []int64{1}}, &r); err != nil || outcome != reservation.Settled {
				t.Fatalf("%v, %v", outcome, err)
			}
		}, 4},
	} {
		step.do()
		if got := left(); got != step.left {
			t.Errorf("after %s %d are left, want %d", step.name, got, step.left)
		}
	}
	if bucketsIn(home) != 1 {
		t.Errorf("%d buckets in home, want one", bucketsIn(home))
	}
}

// Nodes lease from a store that a rule names as from any other, and never more than it has.
func TestC2LeasesFromANamedStore(t *testing.T) {
	main, home := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	var nodes []*headgate.Limiter
	for range 2 {
		k := openTestStack(t, withStores(t, main, "stores: {home: {url: "+home.URL()+", budget: 5s}}"))
		nodes = append(nodes, limiterOver(t, k, `
domain: d
descriptors:
- {key: user, store: home, consistency: leased, rate_limit: {window: 365d, requests_per_unit: 200, algorithm: fixed_window}}
`))
	}
	passed := 0
	for range 300 {
		for _, node := range nodes {
			passed += ask(t, node, "user:u", 1)
		}
	}
	if passed > 200 || passed < 100 {
		t.Errorf("%d of 600 passed a limit of 200", passed)
	}
	if bucketsIn(main) != 0 || bucketsIn(home) == 0 {
		t.Errorf("%d keys in the main store, %d in home", bucketsIn(main), bucketsIn(home))
	}
}

// A rule that names no store there is would be counted where nobody looks for it.
func TestUnknownStoresAreRefused(t *testing.T) {
	main, other := testserver.Redis(t, testserver.RedisConfig{}), testserver.Memcached(t, testserver.MemcachedConfig{})
	file := rulefile.File{Name: "r.yaml", Data: []byte(`domain: d
descriptors:
- {key: main, store: store, rate_limit: {unit: minute, requests_per_unit: 9}}
- {key: cached, store: cache, rate_limit: {unit: minute, requests_per_unit: 9}}
- {key: log, store: cache, rate_limit: {unit: minute, requests_per_unit: 9, algorithm: sliding_log}}
- {key: wrong, store: hime, rate_limit: {unit: minute, requests_per_unit: 9}}
`)}
	for name, tt := range map[string]struct {
		settings config.Settings
		want     []string
	}{
		"with a file": {withStores(t, main, "stores: {cache: {url: "+other.URL()+"}}"), []string{
			"5:1: rule d.log: ", "6:1: rule d.wrong: there is no store hime; hint: one of cache, or another one in the file of --stores",
		}},
		"without one": {config.Settings{Store: config.NewStoreURL(main.URL())}, []string{
			"4:1: rule d.cached: there is no store cache; hint: name it in a file of stores, --stores FILE", "5:1: rule d.log: ", "6:1: rule d.wrong: ",
		}},
	} {
		_, err := rulefile.Load([]rulefile.File{file}, rulefile.Options{Fit: openTestStack(t, tt.settings).fit})
		var list rules.Errors
		if errors.As(err, &list); len(list) != len(tt.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range tt.want {
			if got := fmt.Sprint(list[i]); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// A file of stores that cannot be used ends the start, with its place and no password.
func TestBadFileOfStores(t *testing.T) {
	main := testserver.Redis(t, testserver.RedisConfig{})
	for file, want := range map[string]string{
		"stores: {home: {url: 'redis://u:hunter2@h:1/x'}}": "store home: ",
		"stores: {home: {url: 'redis://h:1', bugdet: 1s}}": `unknown key "bugdet"`,
	} {
		s := withStores(t, main, file)
		_, err := newStack(&s, true, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "--stores: "+s.Stores) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The buckets of tenants whose tier names a store are there, whatever the rules say; those of
// others are not.
func TestC2StoreOfATier(t *testing.T) {
	main, home, acme := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	k := openTestStack(t, withStores(t, main, "stores: {home: {url: "+home.URL()+"}, acme: {url: "+acme.URL()+"}}"))
	limiter := limiterOver(t, k, `
domain: d
match: path
store: home
descriptors:
- key: tenant
  tenant: true
  rate_limit: {window: 365d, requests_per_unit: 4, algorithm: fixed_window}
  descriptors:
  - {key: op, rate_limit: {window: 365d, requests_per_unit: 100, algorithm: fixed_window}}
`)
	tiers, err := tierfile.Parse([]byte(`
tiers:
  free: {}
  own: {store: acme, default: {requests_per_unit: 7, unit: year, algorithm: fixed_window}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for where, err := range tiers.Unfit(k.unfit) {
		t.Errorf("%s: %v", where, err)
	}
	limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{
		{Subject: tenant.Subject{Key: "tenant", Value: "acme"}, Tiers: []tenant.Assignment{{Tier: "own"}}},
		{Subject: tenant.Subject{Key: "tenant", Value: "calm"}, Tiers: []tenant.Assignment{{Tier: "own"}}},
	})))
	if got := ask(t, limiter, "tenant:other,op:x", 9); got != 4 {
		t.Errorf("%d of another tenant passed, want the 4 of the rule", got)
	}
	if a, b, c := bucketsIn(main), bucketsIn(home), bucketsIn(acme); a != 0 || b != 2 || c != 0 {
		t.Errorf("%d, %d and %d buckets, want both of them in home", a, b, c)
	}
	if got := ask(t, limiter, "tenant:acme,op:x", 9); got != 7 {
		t.Errorf("%d passed, want the 7 of the tier", got)
	}
	// Its quota, what it would be in the home tier, and the rule for op.
	if a, b, c := bucketsIn(main), bucketsIn(home), bucketsIn(acme); a != 0 || b != 2 || c < 2 {
		t.Errorf("%d, %d and %d buckets, want those of acme in acme", a, b, c)
	}
	acme.Kill()
	if got := degradedBy(t, limiter, "tenant:calm,op:x"); got == store.NoReason {
		t.Error("a tenant whose store is away is decided by it")
	}
	if got := degradedBy(t, limiter, "tenant:third,op:x"); got != store.NoReason {
		t.Errorf("another tenant is degraded: %v", got)
	}
}
