package app

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
)

func openTestStack(t *testing.T, s config.Settings) *stack {
	t.Helper()
	if s.StoreBudget == 0 {
		s.StoreBudget = 10 * time.Second
	}
	k, err := newStack(&s, true, &hotReporter{metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}), logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.leave(quiet()) })
	return k
}

// limiterOver returns what decides by rules on k.
func limiterOver(t *testing.T, k *stack, yaml string) *headgate.Limiter {
	t.Helper()
	set := testrules.Load(t, yaml)
	limiter, err := headgate.New(headgate.Options{Store: k, Fallback: k.local, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// ask asks n times for a descriptor and counts what passes; nothing may be
// degraded.
func ask(t *testing.T, limiter *headgate.Limiter, text string, n int) (passed int) {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: 1}}}}
		responses := make([]headgate.Response, 1)
		if err := limiter.Check(t.Context(), requests, responses); err != nil {
			t.Fatal(err)
		}
		if reason := responses[0].Degraded(); reason != store.NoReason {
			t.Fatalf("degraded: %s", reason)
		}
		if responses[0].Allowed {
			passed++
		}
	}
	return passed
}

func TestC2TwoStoresByUnit(t *testing.T) {
	slow, fast := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	k := openTestStack(t, config.Settings{Store: config.NewStoreURL(slow.URL()), StorePerSecond: config.NewStoreURL(fast.URL()), DenialMemory: 100})
	limiter := limiterOver(t, k, `
domain: d
match: path
descriptors:
- key: user
  rate_limit: {window: 365d, requests_per_unit: 3, algorithm: fixed_window}
  descriptors:
  - key: op
    rate_limit: {unit: second, requests_per_unit: 100000}
`)
	if got := ask(t, limiter, "user:u,op:w", 5); got != 3 {
		t.Errorf("%d admitted, want 3", got)
	}
	for name, server := range map[string]*testserver.RedisServer{"slow": slow, "fast": fast} {
		await(t, func() error {
			ask(t, limiter, "user:u,op:w", 1) // the bucket of a second does not live long
			if keys := server.MustDo("DBSIZE"); keys != int64(1) {
				return fmt.Errorf("the %s store has %v keys, want the bucket that belongs there", name, keys)
			}
			return nil
		})
	}
	names := map[string]bool{}
	for _, s := range k.shards() {
		names[s.Store+" "+s.Addr] = s.Connected && s.Breaker == 0
	}
	if len(names) != 2 || !names["store "+slow.Addr] || !names["per_second "+fast.Addr] {
		t.Errorf("shards are %v", names)
	}
	fast.Kill()
	if err := k.ping(t.Context()); store.ReasonOf(err) == store.NoReason {
		t.Error("ping does not tell that the second store is gone")
	}
}

// Nodes tell both stores that they are there, whether they count each other or not: a store
// keeps its counters in a shorter form where it knows that all nodes read that.
func TestC2NodesAttendBothStores(t *testing.T) {
	for _, nodes := range []int{0, 3} {
		slow, fast := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
		k := openTestStack(t, config.Settings{Store: config.NewStoreURL(slow.URL()), StorePerSecond: config.NewStoreURL(fast.URL()), Nodes: nodes})
		k.join(slog.New(slog.DiscardHandler))
		for _, server := range []*testserver.RedisServer{slow, fast} {
			await(t, func() error {
				if n := server.MustDo("ZCARD", "hg:readers"); n != int64(1) {
					return fmt.Errorf("%v nodes read the shorter form, want 1", n)
				}
				return nil
			})
		}
		if want := max(nodes, 1); k.fleet.Live() != want {
			t.Errorf("%d nodes, want %d", k.fleet.Live(), want)
		}
	}
}

// Every mode works on two stores as on one, and none needs a store that leases.
func TestModesOnEveryStore(t *testing.T) {
	const yaml = `
domain: d
match: leaf
descriptors:
- {key: exact, rate_limit: &l {window: 365d, requests_per_unit: 40, algorithm: fixed_window}}
- {key: leased, consistency: leased, rate_limit: *l}
- {key: synced, consistency: synced, rate_limit: *l}
- {key: local, consistency: local, rate_limit: *l}
- {key: spread, sub_buckets: 2, rate_limit: *l}
- {key: second, consistency: leased, rate_limit: {unit: second, requests_per_unit: 1000000}}
`
	redis := func() string { return testserver.Redis(t, testserver.RedisConfig{}).URL() }
	cluster := func() string {
		return "redis+cluster://" + strings.Join(testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true}).Addrs(), ",")
	}
	memcached := func() string { return testserver.Memcached(t, testserver.MemcachedConfig{}).URL() }
	for name, tt := range map[string]struct {
		settings config.Settings
		exact    bool // leased and synced rules are exact
	}{
		"memory":          {config.Settings{Store: config.NewStoreURL("memory://")}, true},
		"redis":           {config.Settings{Store: config.NewStoreURL(redis())}, false},
		"redis and redis": {config.Settings{Store: config.NewStoreURL(redis()), StorePerSecond: config.NewStoreURL(redis())}, false},
		"cluster":         {config.Settings{Store: config.NewStoreURL(cluster())}, false},
		"cluster and one": {config.Settings{Store: config.NewStoreURL(cluster()), StorePerSecond: config.NewStoreURL(redis())}, false},
		"memcached":       {config.Settings{Store: config.NewStoreURL(memcached())}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tt.settings.Nodes, tt.settings.DenialMemory = 2, 1000
			k := openTestStack(t, tt.settings)
			if got := k.modesAreExact() != ""; got != tt.exact {
				t.Errorf("modes are exact: %q", k.modesAreExact())
			}
			limiter := limiterOver(t, k, yaml)
			for key, want := range map[string]int{"exact": 40, "leased": 40, "synced": 40, "local": 20, "second": 60} {
				if got := ask(t, limiter, key+":x", 60); got != want {
					t.Errorf("%s: %d admitted, want %d", key, got, want)
				}
			}
			if got := ask(t, limiter, "spread:x", 60); got < 39 || got > 40 {
				t.Errorf("spread: %d admitted, want 39 or 40", got)
			}
		})
	}
}

func TestFleetCountsTheNodes(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	settings := config.Settings{Store: config.NewStoreURL(redis.URL())}
	first, second := openTestStack(t, settings), openTestStack(t, settings)
	first.join(quiet())
	second.join(quiet())
	await(t, func() error {
		if first.fleet.Live() != 2 || second.fleet.Live() != 2 {
			return fmt.Errorf("%+v and %+v", first.fleet.Stats(), second.fleet.Stats())
		}
		return nil
	})
	static := openTestStack(t, config.Settings{Store: config.NewStoreURL(redis.URL()), Nodes: 7})
	if got := static.fleet.Live(); got != 7 {
		t.Errorf("%d nodes, want the 7 of the setting", got)
	}
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

// A key that gets much of the load is leased without a word in the rule, named in the
// log, and costs few calls from then on.
func TestD6HotKeyIsLeasedAndNamed(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	var log lines
	settings := config.Settings{Store: config.NewStoreURL(redis.URL()), StoreBudget: 10 * time.Second}
	k, err := newStack(&settings, true, &hotReporter{metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}), logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.leave(quiet()) })
	limiter := limiterOver(t, k, "domain: d\ndescriptors: [{key: k, name: busy, rate_limit: {unit: day, requests_per_unit: 10000000}}]")
	await(t, func() error {
		if ask(t, limiter, "k:hot", 500); !log.has("a key is hot") {
			return fmt.Errorf("no key is hot: %+v", sumLeases(k.leases))
		}
		return nil
	})
	if !log.has("rule=busy key_hash=") {
		t.Errorf("the log does not name the rule and the key: %s", log.text.String())
	}
	await(t, func() error {
		ask(t, limiter, "k:hot", 500)
		if leases := sumLeases(k.leases); leases.Hot != 1 || leases.Used == 0 {
			return fmt.Errorf("%+v", leases)
		}
		return nil
	})
}

func TestD6HotKeysAreNamedButNotEndlessly(t *testing.T) {
	var log strings.Builder
	r := &hotReporter{metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}), logger: slog.New(slog.NewTextHandler(&log, nil))}
	for i := range 1000 {
		r.report(&store.Take{Mode: &store.Mode{Rule: "api.user", Main: true}}, hotkey.Key{byte(i)}, 1234.5)
	}
	lines := strings.Count(log.String(), "\n")
	if lines < 10 || lines > 11 {
		t.Errorf("%d lines, want 10", lines)
	}
	if first, _, _ := strings.Cut(log.String(), "\n"); !strings.Contains(first, "rule=api.user key_hash=00000000000000000000000000000000 per_second=1234") {
		t.Errorf("the first line is %s", first)
	}
	if untold, ok := r.lines.MayTell(hotLines, time.Now().Add(time.Hour)); !ok || untold != 1000-lines {
		t.Errorf("an hour later: %v, %d untold, want %d", ok, untold, 1000-lines)
	}
}

// Memcached has two algorithms; rules with another one are refused wherever it is the
// store of theirs.
func TestUnfitRulesAreRefused(t *testing.T) {
	memcached, redis := testserver.Memcached(t, testserver.MemcachedConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	files := []rulefile.File{{Name: "r.yaml", Data: []byte(`domain: d
descriptors:
- {key: fits, rate_limit: {unit: minute, requests_per_unit: 9}}
- {key: log, rate_limit: {unit: minute, requests_per_unit: 9, algorithm: sliding_log}}
- {key: quick, rate_limit: {unit: second, requests_per_unit: 9, algorithm: token_bucket}}
- {key: own, consistency: local, rate_limit: {unit: minute, requests_per_unit: 9, algorithm: sliding_log}}
`)}}
	for name, tt := range map[string]struct {
		settings config.Settings
		want     []string
	}{
		"memcached":           {config.Settings{Store: config.NewStoreURL(memcached.URL())}, []string{"rule d.log:", "rule d.quick:"}},
		"memcached and redis": {config.Settings{Store: config.NewStoreURL(memcached.URL()), StorePerSecond: config.NewStoreURL(redis.URL())}, []string{"rule d.log:"}},
		"redis and memcached": {config.Settings{Store: config.NewStoreURL(redis.URL()), StorePerSecond: config.NewStoreURL(memcached.URL())}, []string{"rule d.quick:"}},
		"redis":               {config.Settings{Store: config.NewStoreURL(redis.URL())}, nil},
	} {
		_, err := rulefile.Load(files, rulefile.Options{Fit: openTestStack(t, tt.settings).fit})
		var list rules.Errors
		if errors.As(err, &list); len(list) != len(tt.want) {
			t.Errorf("%s: %d errors, want %d: %v", name, len(list), len(tt.want), err)
			continue
		}
		for i, rule := range tt.want {
			if !strings.Contains(list[i].Message, rule) || list[i].Hint == "" {
				t.Errorf("%s: %v, want %s", name, list[i], rule)
			}
		}
	}
}

func TestModesInMemoryAreToldOnce(t *testing.T) {
	var log strings.Builder
	r := &ruleReporter{logger: slog.New(slog.NewTextHandler(&log, nil)), modesAreExact: "the counters are in this process"}
	load := func(keys string) *rules.Set {
		set := testrules.Load(t, fmt.Sprintf("domain: d\ndescriptors: [{key: k, %s, rate_limit: {unit: minute, requests_per_unit: 9}}]", keys))
		return set
	}
	for i, step := range []struct {
		keys string
		want int
	}{{"consistency: exact", 0}, {"consistency: local", 0}, {"consistency: leased", 1}, {"hot_keys: lease", 1}} {
		r.modes(load(step.keys))
		if got := strings.Count(log.String(), "\n"); got != step.want {
			t.Errorf("step %d: %d lines, want %d", i, got, step.want)
		}
	}
}
