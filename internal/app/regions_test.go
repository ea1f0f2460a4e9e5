package app

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/rules/rulefile"
)

// withRegions returns settings of a process in a region, whose home is at url.
func withRegions(t *testing.T, main *testserver.RedisServer, home, region, file string) config.Settings {
	t.Helper()
	s := withStores(t, main, "stores: {home: {url: '"+home+"', budget: 1s, breaker: {failures: 1000, ratio: 1, pause: 10ms}}}")
	s.Regions, s.Region = filepath.Join(t.TempDir(), "regions.yaml"), region
	if err := os.WriteFile(s.Regions, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

const threeRegions = "home: home\nreserve: 30%\nregions: {frankfurt: {weight: 2}, virginia: {}, singapore: {}}\n"

// overRegions has a limit of 300 in 10 s, of which the home lends 211, and 44 to 45 are the
// reserve of Virginia and of Singapore each, and 90 of Frankfurt.
const overRegions = `
domain: d
descriptors:
- key: k
  regions: leased
  failure_mode: closed
  rate_limit: {window: 10s, requests_per_unit: 300, algorithm: token_bucket, burst: 300}
`

// globe is three regions of two nodes each, the home of all in Frankfurt behind proxies that
// delay every byte of the others and lose some.
type globe struct {
	home   *testserver.RedisServer
	own    map[string]*testserver.RedisServer
	ways   map[string]*testserver.Proxy
	nodes  []*globeNode
	mu     sync.Mutex
	passed []pass
}

type pass struct{ before, after time.Time }

type globeNode struct {
	region string
	stack  *stack
	limits *headgate.Limiter
	passed atomic.Int64
	failed atomic.Int64
}

// toHome are the ways to the home: 50 ms there and back from Virginia and 150 ms from Singapore, and one
// part in a hundred of what is sent is lost.
var toHome = map[string]testserver.Toxics{"frankfurt": {}, "virginia": lossy(25 * time.Millisecond), "singapore": lossy(75 * time.Millisecond)}

func lossy(latency time.Duration) testserver.Toxics {
	delay := testserver.Toxic{Latency: latency, Jitter: latency / 5, Loss: 0.01}
	return testserver.Toxics{Up: delay, Down: delay}
}

func newGlobe(t *testing.T) *globe {
	t.Helper()
	g := &globe{home: testserver.Redis(t, testserver.RedisConfig{}), own: map[string]*testserver.RedisServer{}, ways: map[string]*testserver.Proxy{}}
	for region := range toHome {
		g.own[region] = testserver.Redis(t, testserver.RedisConfig{})
		g.ways[region] = testserver.NewProxy(t, g.home.Addr)
		g.ways[region].Set(toHome[region])
		for range 2 {
			k := openTestStack(t, withRegions(t, g.own[region], "redis://"+g.ways[region].Addr, region, threeRegions))
			k.join(quiet())
			g.nodes = append(g.nodes, &globeNode{region: region, stack: k, limits: limiterOver(t, k, overRegions)})
		}
	}
	return g
}

// run asks until ctx ends. Together the nodes ask for more than the limit.
func (g *globe) run(ctx context.Context, n *globeNode, requests []headgate.Request) {
	var responses [1]headgate.Response
	for sleep.For(ctx, 40*time.Millisecond) == nil {
		before := time.Now()
		err := n.limits.Check(context.WithoutCancel(ctx), requests, responses[:])
		after := time.Now()
		switch {
		case err != nil || responses[0].Degraded() != "":
			n.failed.Add(1)
		case responses[0].Allowed:
			n.passed.Add(1)
			g.mu.Lock()
			g.passed = append(g.passed, pass{before, after})
			g.mu.Unlock()
		}
	}
}

// all is what has passed so far.
func (g *globe) all() []pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.passed)
}

// excess is by how many hits any time has more than a burst and what the rate, in hits a second,
// gives. A hit passed between before and after.
func excess(passed []pass, burst, rate float64) (worst float64) {
	slices.SortFunc(passed, func(a, b pass) int { return a.after.Compare(b.after) })
	for _, from := range passed {
		count := 0.0
		for _, p := range passed {
			if p.before.Before(from.before) {
				continue
			}
			count++
			worst = max(worst, count-burst-rate*p.after.Sub(from.before).Seconds())
		}
	}
	return worst
}

// leased is how many hits the nodes of region have been lent.
func (g *globe) leased(region string) (sum int64) {
	for _, n := range g.nodes {
		if n.region == region {
			sum += n.stack.regions.homes[0].Stats().Granted
		}
	}
	return sum
}

// hits is how many have passed in region.
func (g *globe) hits(region string) (sum int64) {
	for _, n := range g.nodes {
		if n.region == region {
			sum += n.passed.Load()
		}
	}
	return sum
}

// Three regions with Redis of their own ask for more than the limit, while one is cut off from
// the home, comes back, and the home is started anew without its data: nothing fails, and no
// more passes than the limit.
//
//promise:several-regions region-cut-off region-heals region-home-forgets
func TestRegionsUnderFaults(t *testing.T) {
	g := newGlobe(t)
	store := g.nodes[0].stack.regions.homes[0]
	if err := store.Vouch(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for _, n := range g.nodes {
		running.Go(func() { g.run(ctx, n, of("k")) })
	}
	for region := range g.own {
		eventually.True(t, region+" is lent hits", func() bool { return g.leased(region) > 20 })
	}

	far := g.ways["singapore"]
	far.Set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
	before, lent := g.hits("singapore"), g.leased("frankfurt")
	eventually.True(t, "what is cut off has its reserve", func() bool { return g.hits("singapore") > before+10 })
	eventually.True(t, "the others are lent what there is", func() bool { return g.leased("frankfurt") > lent+20 })
	far.Set(toHome["singapore"])
	far.Reset()
	lent = g.leased("singapore")
	eventually.True(t, "what was cut off is lent hits again", func() bool { return g.leased("singapore") > lent+10 })

	g.home.Kill()
	before = g.hits("virginia")
	eventually.True(t, "without a home regions have their reserves", func() bool { return g.hits("virginia") > before+5 })
	g.home.Restart()
	eventually.True(t, "a home without its data is noticed", func() bool {
		for _, n := range g.nodes {
			if n.stack.regions.homes[0].Stats().Epochs == 0 {
				return false
			}
		}
		return true
	})
	before, lent = g.hits("virginia"), g.leased("virginia")
	eventually.True(t, "until its epoch is old enough regions have their reserves", func() bool { return g.hits("virginia") > before+5 })
	if now := g.leased("virginia"); now > lent {
		t.Errorf("a home that has forgotten all has lent %d hits", now-lent)
	}
	cancel()
	running.Wait()

	var failed, leases, reserved int64
	for _, n := range g.nodes {
		st := n.stack.regions.homes[0].Stats()
		failed, leases, reserved = failed+n.failed.Load(), leases+int64(st.Leased), reserved+int64(st.Reserved)
		if st.Granted != st.Used+st.Returned+st.Lost+st.Held+st.UnderWay {
			t.Errorf("hits are not conserved: %+v", st)
		}
	}
	over := excess(g.all(), 300, 30)
	t.Logf("%d hits passed, %d takes by leases, %d asked the reserve, %d failed, %.0f over", len(g.passed), leases, reserved, failed, over)
	if failed > 0 || over > 0 {
		t.Errorf("%d requests failed, and %.1f hits were over the limit", failed, over)
	}
}

// What the regions of a process do not bear is refused when its rules are loaded.
func TestRulesThatRegionsCannotHold(t *testing.T) {
	main, home := testserver.Redis(t, testserver.RedisConfig{}), testserver.Redis(t, testserver.RedisConfig{})
	load := func(s config.Settings, keys string) error {
		_, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte("domain: d\nmatch: path\ndescriptors:\n- {key: k, regions: leased, failure_mode: closed, " + keys + "}\n")}}, rulefile.Options{Fit: openTestStack(t, s).fit})
		return err
	}
	over := withRegions(t, main, home.URL(), "virginia", threeRegions)
	for keys, want := range map[string]string{
		"rate_limit: {unit: minute, requests_per_unit: 100}":                                          "",
		"store: home, rate_limit: {unit: minute, requests_per_unit: 100}":                             "",
		"rate_limit: {unit: minute, requests_per_unit: 10}":                                           "the region singapore has a reserve of none; hint: a larger limit",
		"rate_limit: {unit: minute, requests_per_unit: 100, algorithm: sliding_log}":                  "hits of sliding_log cannot be leased",
		"rate_limit: {unit: minute, requests_per_unit: 100, algorithm: leaky_bucket}":                 "would not be evenly spaced",
		"rate_limit: {unit: minute, requests_per_unit: 100, algorithm: sub_windows, sub_windows: 60}": "",
		"rate_limit: {window: 10s, requests_per_unit: 100, algorithm: sub_windows, sub_windows: 20}":  "too short for another continent",
		"rate_limit: {unit: second, requests_per_unit: 100, algorithm: token_bucket}":                 "too short for another continent",
		"rate_limit: {unit: minute, requests_per_unit: 100, count_denied: true}":                      "count_denied needs every hit in one place",
		"store: none, rate_limit: {unit: minute, requests_per_unit: 100}":                             "there is no store none",
		"store: store, rate_limit: {unit: minute, requests_per_unit: 100}":                            "the store store does not lend",
	} {
		if err := load(over, keys); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", keys, err, want)
		}
	}
	if err := load(withStores(t, main, "stores: {home: {url: '"+home.URL()+"'}}"), "rate_limit: {unit: minute, requests_per_unit: 100}"); err == nil || !strings.Contains(err.Error(), "hint: --regions FILE and --region NAME") {
		t.Errorf("without regions: %v", err)
	}
}

func TestBadRegions(t *testing.T) {
	main, cache := testserver.Redis(t, testserver.RedisConfig{}), testserver.Memcached(t, testserver.MemcachedConfig{})
	for _, tt := range []struct{ home, region, file, want string }{
		{main.URL(), "tokyo", threeRegions, "--region: there is no region tokyo; hint: one of frankfurt, singapore, virginia"},
		{main.URL(), "", threeRegions, "--region: it is not said in which region"},
		{main.URL(), "virginia", "home: hime\nregions: {virginia: {}}", "home: no store hime of --stores can lend"},
		{cache.URL(), "virginia", threeRegions, "home: no store home of --stores can lend"},
		{main.URL(), "virginia", "regions: {}", "--regions: "},
	} {
		s := withRegions(t, main, tt.home, tt.region, tt.file)
		if _, err := newStack(&s, true, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
