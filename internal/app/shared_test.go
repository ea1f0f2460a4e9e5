package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/storefile"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
)

// sharing has a limit that is soon used up and one that never is, over all regions.
const sharing = `
domain: d
descriptors:
- key: small
  regions: shared
  rate_limit: {unit: day, requests_per_unit: 300}
- key: large
  regions: shared
  rate_limit: {unit: day, requests_per_unit: 1000000}
- key: bucket
  regions: shared
  rate_limit: {window: 20s, requests_per_unit: 400, algorithm: token_bucket, burst: 400}
`

const sharedRegions = "exchange: 200ms\nfloor: 0%\nregions: {frankfurt: {store: fra}, virginia: {store: vir}, singapore: {store: sin}}\n"

// continent is one region: its Redis, the ways to it from the others, and two nodes.
type continent struct {
	redis *testserver.RedisServer
	ways  map[string]*testserver.Proxy // by the region that goes there
	nodes []*globeNode
}

var storesOf = map[string]string{"frankfurt": "fra", "virginia": "vir", "singapore": "sin"}

// newContinents starts three regions that reach each other through proxies.
func newContinents(t *testing.T) map[string]*continent {
	t.Helper()
	all := map[string]*continent{}
	for region := range storesOf {
		all[region] = &continent{redis: testserver.Redis(t, testserver.RedisConfig{}), ways: map[string]*testserver.Proxy{}}
	}
	for region, c := range all {
		var file strings.Builder
		file.WriteString("stores:\n")
		for other, to := range all {
			way := testserver.NewProxy(t, to.redis.Addr)
			way.Set(wide())
			to.ways[region] = way
			fmt.Fprintf(&file, "  %s: {url: 'redis://%s', budget: 2s, breaker: {failures: 1000, ratio: 1, pause: 10ms}}\n", storesOf[other], way.Addr)
		}
		for range 2 {
			s := withStores(t, c.redis, file.String())
			s.Regions, s.Region = filepath.Join(t.TempDir(), "regions.yaml"), region
			if err := os.WriteFile(s.Regions, []byte(sharedRegions), 0o600); err != nil {
				t.Fatal(err)
			}
			k := openTestStack(t, s)
			k.join(quiet())
			c.nodes = append(c.nodes, &globeNode{region: region, stack: k, limits: limiterOver(t, k, sharing)})
		}
	}
	return all
}

// wide is the way between two continents: 50 to 150 ms there and back, and one part in a hundred of
// what is sent is lost.
func wide() testserver.Toxics {
	delay := testserver.Toxic{Latency: 25 * time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 0.01}
	return testserver.Toxics{Up: delay, Down: delay}
}

// of returns a request for one hit of a key.
func of(key string) []headgate.Request {
	return []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: key, Value: "v"}}, Hits: 1}}}}
}

// used is how many hits of a key the store of a region knows of.
func (c *continent) used(t *testing.T, key string) int64 {
	t.Helper()
	var responses [1]headgate.Response
	if err := c.nodes[0].limits.Peek(t.Context(), of(key), responses[:]); err != nil {
		t.Fatal(err)
	}
	v := &responses[0].Verdicts[0]
	return v.Decision.Limit - v.Decision.Remaining
}

// Three regions with Redis of their own count one limit. While one of them is cut off in one
// direction, and in both, no request fails; afterwards every region knows of each hit, once.
//
//promise:shared-converges shared-cut-off
func TestSharedUnderFaults(t *testing.T) {
	all := newContinents(t)
	var passed atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for _, c := range all {
		for _, n := range c.nodes {
			running.Go(func() {
				var responses [1]headgate.Response
				for sleep.For(ctx, 5*time.Millisecond) == nil {
					err := n.limits.Check(context.WithoutCancel(ctx), of("large"), responses[:])
					switch {
					case err != nil || responses[0].Degraded() != "":
						n.failed.Add(1)
					case responses[0].Allowed:
						passed.Add(1)
						n.passed.Add(1)
					}
				}
			})
		}
	}
	// grows waits until the others know of much more that passed in one region.
	knows := func(region string, more int64) {
		before := all[region].used(t, "large")
		eventually.True(t, region+" hears of the others", func() bool { return all[region].used(t, "large") > before+more })
	}
	for region := range all {
		knows(region, 100)
	}
	// What leaves Singapore is lost, and then what goes there too.
	for region, c := range all {
		if region != "singapore" {
			c.ways["singapore"].Set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
		}
	}
	knows("frankfurt", 50)
	knows("singapore", 50)
	for _, way := range all["singapore"].ways {
		way.Set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
	}
	own := all["singapore"].nodes[0].passed.Load()
	eventually.True(t, "the region that is cut off goes on", func() bool { return all["singapore"].nodes[0].passed.Load() > own+50 })
	cancel()
	running.Wait()
	for _, c := range all {
		for _, way := range c.ways {
			way.Set(testserver.Toxics{})
			way.Reset()
		}
	}
	for region, c := range all {
		eventually.True(t, region+" knows of each hit", func() bool { return c.used(t, "large") == passed.Load() })
		for _, n := range c.nodes {
			if f := n.failed.Load(); f > 0 {
				t.Errorf("%s: %d requests failed", region, f)
			}
		}
	}
	// Nothing is told twice: further rounds change nothing.
	for _, c := range all {
		for _, n := range c.nodes {
			if err := n.stack.regions.shared.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	for region, c := range all {
		if n := c.used(t, "large"); n != passed.Load() {
			t.Errorf("%s knows of %d hits, and %d passed", region, n, passed.Load())
		}
	}
}

// Three regions with Redis of their own ask for more than the limit, over ways that lose and are slow,
// of which one is cut in one direction, and healed: no request fails, and what passes is within
// what the regions may let pass. How far the limit was exceeded, and the longest lag, is logged.
//
//promise:shared-bound shared-cut-off
func TestSharedBound(t *testing.T) {
	all := newContinents(t)
	g := &globe{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for region, c := range all {
		for _, n := range c.nodes {
			n.region = region
			g.nodes = append(g.nodes, n)
			running.Go(func() { g.run(ctx, n, of("bucket")) })
		}
	}
	var longest time.Duration
	lags := func() (most time.Duration) {
		for _, n := range g.nodes {
			for _, p := range n.stack.regions.shared.Peers() {
				most = max(most, p.Lag)
			}
		}
		longest = max(longest, most)
		return most
	}
	passes := func(hits int64) {
		before := len(g.all())
		eventually.True(t, "more passes", func() bool { lags(); return int64(len(g.all())-before) > hits })
	}
	passes(600) // more than a burst
	quiet := excess(g.all(), 400, 20)
	t.Logf("not cut off: %.0f hits over a bucket of 400, lag %v", quiet, longest)
	// What leaves Singapore is lost.
	for region, c := range all {
		if region != "singapore" {
			c.ways["singapore"].Set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
		}
	}
	passes(200)
	for region, c := range all {
		if region != "singapore" {
			c.ways["singapore"].Set(wide())
			c.ways["singapore"].Reset()
		}
	}
	eventually.True(t, "Singapore tells again what passes", func() bool { return lags() < 10*time.Second })
	passes(50)
	cancel()
	running.Wait()
	over, failed := excess(g.all(), 400, 20), int64(0)
	for _, n := range g.nodes {
		failed += n.failed.Load()
	}
	t.Logf("%d hits passed, %.0f over a bucket of 400, %d failed, the longest lag was %v", len(g.all()), over, failed, longest)
	if failed > 0 || over > 2*400 {
		t.Errorf("%d requests failed, and %.0f hits were over the limit; the bound is 800", failed, over)
	}
}

// What is used up in one region is used up in all, and what an operator forgets, all forget.
//
//promise:shared-limit
func TestSharedLimit(t *testing.T) {
	all := newContinents(t)
	var responses [1]headgate.Response
	frankfurt := all["frankfurt"].nodes[0]
	for range 300 {
		if err := frankfurt.limits.Check(t.Context(), of("small"), responses[:]); err != nil || !responses[0].Allowed {
			t.Fatalf("%+v, %v", responses[0], err)
		}
	}
	for region, c := range all {
		eventually.True(t, region+" denies", func() bool { return c.used(t, "small") == 300 })
		if err := c.nodes[1].limits.Check(t.Context(), of("small"), responses[:]); err != nil || responses[0].Allowed {
			t.Errorf("%s: %+v, %v", region, responses[0], err)
		}
	}
	reset := of("small")
	reset[0].Descriptors[0].Op = store.Reset
	if err := all["virginia"].nodes[1].limits.Check(t.Context(), reset, responses[:]); err != nil {
		t.Fatal(err)
	}
	for region, c := range all {
		eventually.True(t, region+" has forgotten", func() bool { return c.used(t, "small") == 0 })
	}
	// The nodes of another region are none of this one.
	for _, c := range all {
		eventually.True(t, "two nodes", func() bool { return c.nodes[0].stack.fleet.Live() == 2 })
	}
}

// What regions cannot tell each other is refused when rules are loaded.
//
//promise:shared-refused
func TestRulesThatRegionsCannotShare(t *testing.T) {
	main, other := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	settings := func(file string) config.Settings {
		s := withRegions(t, main, other.URL(), "virginia", file)
		return s
	}
	const two = "regions: {virginia: {store: vir}, frankfurt: {store: home}}"
	load := func(s config.Settings, keys string) error {
		_, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte("domain: d\nmatch: path\ndescriptors:\n- {key: k, regions: shared, " + keys + "}\n")}}, rulefile.Options{Fit: openTestStack(t, s).fit})
		return err
	}
	for keys, want := range map[string]string{
		"rate_limit: {unit: minute, requests_per_unit: 10}":                                               "",
		"tenant: true, failure_mode: local, rate_limit: {unit: minute, requests_per_unit: 10}":            "",
		"consistency: leased, rate_limit: {unit: minute, requests_per_unit: 10}":                          "",
		"consistency: synced, rate_limit: {unit: minute, requests_per_unit: 10}":                          "does not go with consistency: synced",
		"sub_buckets: 4, rate_limit: {unit: minute, requests_per_unit: 10}":                               "does not go with sub_buckets",
		"store: home, rate_limit: {unit: minute, requests_per_unit: 10}":                                  "counts in the store of each region",
		"rate_limit: {unit: second, requests_per_unit: 10}":                                               "hint: a longer period",
		"rate_limit: {unit: minute, requests_per_unit: 10, algorithm: leaky_queue}":                       "leaky_queue counts no hits that have passed",
		"concurrency: {limit: 5}, rate_limit: {unit: minute, requests_per_unit: 10}":                      "is for limits that count hits",
		"rate_limit: {unit: minute, requests_per_unit: 10, algorithm: sliding_log}":                       "",
		"rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 200}":          "",
		"rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 20}":           "hint: a longer period",
		"ban: {after: 5, within: 1m, for: 1h}, rate_limit: {unit: minute, requests_per_unit: 10}":         "is for limits that count hits",
		"raise_hot_keys: {by: 50, for: 1h}, rate_limit: {unit: minute, requests_per_unit: 10}":            "",
		"rate_limit: {unit: minute, requests_per_unit: 10, algorithm: sub_windows, sub_windows: 6}":       "",
		"failure_mode: closed, rate_limit: {unit: month, requests_per_unit: 10, algorithm: fixed_window}": "",
	} {
		if err := load(settings(two), keys); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", keys, err, want)
		}
	}
	if err := load(settings(threeRegions), "rate_limit: {unit: minute, requests_per_unit: 10}"); err == nil || !strings.Contains(err.Error(), "names no stores") {
		t.Errorf("without stores: %v", err)
	}
	for file, want := range map[string]string{
		"regions: {virginia: {store: vir}, frankfurt: {store: none}}":                "region frankfurt: there is no store none",
		"regions: {virginia: {store: vir}, frankfurt: {}}":                           "regions frankfurt have no store",
		"regions: {virginia: {store: home}, frankfurt: {store: home}}":               "have one store, home",
		"home: home\nregions: {virginia: {store: vir}, frankfurt: {store: home}}":    "home: home is the store of the region frankfurt",
		"exchange: 1ms\nregions: {virginia: {store: vir}, frankfurt: {store: home}}": "exchange: \"1ms\" is out of range",
		"floor: 30%\nregions: {virginia: {store: vir}, frankfurt: {store: home}}":    "floor: 30% is out of range",
	} {
		s := settings(file)
		if _, err := newStack(&s, true, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", file, err, want)
		}
	}
}

// Stores of regions that are one place, or not that of the region itself, are refused: hits would
// count twice, or in a place that nobody reads. No error has a password.
func TestPlacesOfRegions(t *testing.T) {
	main := testserver.Redis(t, testserver.RedisConfig{})
	settings := config.Settings{StoreBudget: time.Second, BreakerFailures: 1000, BreakerRatio: 1, BreakerPause: time.Second}
	for stores, want := range map[string]string{
		"vir: {url: 'redis://:hush@MAIN'}, fra: {url: 'redis://other.test:6379'}, sin: {url: 'redis://third.test:6379'}":                          "",
		"fra: {url: 'redis://other.test:6379'}, sin: {url: 'redis://third.test:6379'}":                                                            "",
		"fra: {url: 'redis://other.test:6379'}, sin: {url: 'redis://other.test:6379/1'}":                                                          "",
		"fra: {url: 'redis://other.test:6379?prefix=a:'}, sin: {url: 'redis://other.test:6379?prefix=b:'}":                                        "",
		"fra: {url: 'redis+sentinel://s.test:26379/0?master=fra'}, sin: {url: 'redis+sentinel://s.test:26379/0?master=sin'}":                      "",
		"fra: {url: 'redis://:hush@MAIN'}, sin: {url: 'redis://third.test:6379'}":                                                                 "region frankfurt: the store fra is that of --store, in which the region virginia counts",
		"fra: {url: 'redis://:hush@other.test:6379'}, sin: {url: 'redis://:hush@Other.test/0?prefix=hg:'}":                                        "regions frankfurt and singapore: the stores fra and sin are one",
		"fra: {url: 'redis+cluster://a.test:1,b.test:1'}, sin: {url: 'redis+cluster://b.test:1,c.test:1'}":                                        "the stores fra and sin are one",
		"vir: {url: 'redis://:hush@MAIN/3'}, fra: {url: 'redis://other.test:6379'}, sin: {url: 'redis://third.test:6379'}":                        "region virginia: the store vir has database 3 and prefix \"hg:\", and --store has database 0 and prefix \"hg:\"",
		"vir: {url: 'redis://:hush@outside.test:6379?prefix=vir:'}, fra: {url: 'redis://other.test:6379'}, sin: {url: 'redis://third.test:6379'}": "would not hear of the others; hint: the same server, database and prefix",
		"vir: {url: 'memcached://cache.test:11211'}, fra: {url: 'redis://other.test:6379'}, sin: {url: 'redis://third.test:6379'}":                "",
		"vir: {url: 'rediss://:hush@outside.test:6379/0'}, fra: {url: 'unix:///run/fra.sock'}, sin: {url: 'unix:///run/sin.sock'}":                "",
	} {
		var backends []backend
		path := filepath.Join(t.TempDir(), "stores.yaml")
		if err := os.WriteFile(path, []byte("stores: {"+strings.ReplaceAll(stores, "MAIN", main.Addr)+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
		named, err := storefile.Load(path, settings.Tuning())
		if err != nil {
			t.Fatal(err)
		}
		backends = append(backends, backend{name: storefile.Main, url: config.NewStoreURL(main.URL())})
		for _, s := range named {
			backends = append(backends, backend{name: s.Name, url: s.URL})
		}
		err = checkPlaces("virginia", storesOf, backends)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush")) {
			t.Errorf("%s: %v; want %q", stores, err, want)
		}
	}
}
