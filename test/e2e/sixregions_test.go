package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
)

// worldRules have, shared and leased, a limit that is never used up and one that soon is. Their
// windows of a year do not end while a test runs.
const worldRules = `
domain: api
descriptors:
- {key: plan, regions: shared, rate_limit: {window: 8760h, requests_per_unit: 1000000}}
- {key: trial, regions: shared, rate_limit: {window: 8760h, requests_per_unit: 100}}
- {key: paid, regions: leased, failure_mode: closed, rate_limit: {window: 8760h, requests_per_unit: 100000}}
- {key: budget, regions: leased, failure_mode: closed, rate_limit: {window: 8760h, requests_per_unit: 300}}
`

const (
	trialLimit, paidLimit, budgetLimit = 100, 100_000, 300
	// paidHits is what a request costs by the rule paid: so much demand that nodes lease.
	paidHits = 5
	// worldPace is the time between two requests of a node.
	worldPace = 25 * time.Millisecond
)

// stores by region, as the files name them.
var worldStores = map[string]string{"frankfurt": "fra", "virginia": "vir", "singapore": "sin"}

// way leads the processes of a region to a store: of another region, or to the home.
type way struct{ from, to string }

// use is of which rule, in which act of the test and in which region hits have passed.
type use struct{ rule, act, region string }

// world is three regions with a Redis and two processes each. The home is on the Redis of
// Frankfurt. All ways between regions are through proxies.
type world struct {
	*gates
	ways  map[way]*testserver.Proxy
	files string // a folder

	mu      sync.Mutex
	act     string
	passed  map[use]int
	denials map[use]map[string]bool // the nodes that have denied
	failed  []string
}

// between is the way between two continents: 50 to 150 ms there and back, and one part in a hundred
// of what is sent is lost.
func between() testserver.Toxics {
	delay := testserver.Toxic{Latency: 25 * time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 0.01}
	return testserver.Toxics{Up: delay, Down: delay}
}

// lost returns toxics with which nothing comes through in these directions.
func lost(up, down bool) testserver.Toxics {
	toxics := between()
	toxics.Up.Stall, toxics.Down.Stall = up, down
	return toxics
}

func startWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "hg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{
		gates: &gates{t: t, nodes: map[string]*node{}, admins: map[string]string{}},
		ways:  map[way]*testserver.Proxy{}, files: dir,
		act: "calm", passed: map[use]int{}, denials: map[use]map[string]bool{},
	}
	made, _, code := w.run("admin", "token", "ann", "--scope", "read")
	if code != 0 {
		t.Fatal("no token is made")
	}
	token, lines, _ := strings.Cut(made, "\n")
	w.token = w.write("token", token)
	w.write("tokens.yaml", "tokens:\n"+lines)
	w.write("rules.yaml", worldRules)
	w.write("regions.yaml", "home: home\nreserve: 1%\nexchange: 200ms\nfloor: 0%\nregions: {frankfurt: {store: fra}, virginia: {store: vir}, singapore: {store: sin}}\n")
	own := map[string]*testserver.RedisServer{}
	for region := range worldStores {
		own[region] = testserver.Redis(t, testserver.RedisConfig{})
	}
	home := own["frankfurt"]
	if _, stderr, code := w.run("store", "epoch", "--vouch", "--store", home.URL()+"?prefix=home:"); code != 0 {
		t.Fatal(stderr)
	}
	for region, server := range own {
		w.start(region, server, w.stores(region, own))
	}
	for name, n := range w.nodes {
		n.until(t, func() error {
			if err := n.health(http.StatusOK); err != nil {
				return fmt.Errorf("start %s: %w\n%s", name, err, n.process.Output())
			}
			return nil
		})
	}
	t.Cleanup(func() { // all at once: each gives back what it holds
		for _, n := range w.nodes {
			if err := n.process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		for name, n := range w.nodes {
			eventually.True(t, name+" ends", func() bool {
				select {
				case <-n.process.Ended():
					return true
				default:
					return false
				}
			})
		}
	})
	return w
}

func (w *world) write(name, text string) (path string) {
	w.t.Helper()
	path = filepath.Join(w.files, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// stores writes the file of stores of a region, and opens its ways.
func (w *world) stores(region string, own map[string]*testserver.RedisServer) (path string) {
	var file strings.Builder
	file.WriteString("stores:\n")
	add := func(name, of, query string) {
		addr := own[of].Addr
		if of != region {
			p := testserver.NewProxy(w.t, addr)
			p.Set(between())
			w.ways[way{region, name}] = p
			addr = p.Addr
		}
		fmt.Fprintf(&file, "  %s: {url: 'redis://%s%s', budget: 2s, breaker: {failures: 1000, ratio: 1, pause: 10ms}}\n", name, addr, query)
	}
	add("home", "frankfurt", "?prefix=home:")
	for of, name := range worldStores {
		add(name, of, "")
	}
	return w.write(region+".stores.yaml", file.String())
}

// start launches the two processes of a region, called by its name and a number.
func (w *world) start(region string, own *testserver.RedisServer, stores string) {
	for i := range 2 {
		name := fmt.Sprintf("%s-%d", region, i)
		w.admins[name] = "unix://" + filepath.Join(w.files, name)
		w.nodes[name] = launch(w.t, "--rules", filepath.Join(w.files, "rules.yaml"), "--store", own.URL(), "--store-budget", "10s",
			"--stores", stores, "--regions", filepath.Join(w.files, "regions.yaml"), "--region", region, "--node-name", name,
			"--admin-addr", w.admins[name], "--admin-tokens", filepath.Join(w.files, "tokens.yaml"))
	}
}

// of returns the names of the nodes of a region.
func (w *world) of(region string) (names []string) {
	for name := range w.nodes {
		if strings.HasPrefix(name, region) {
			names = append(names, name)
		}
	}
	return names
}

// load asks a node by all rules until ctx ends, and once more what it had begun with. Each act
// has buckets of its own, but for the plan.
func (w *world) load(ctx context.Context, region, name string) {
	for sleep.For(ctx, worldPace) == nil {
		w.mu.Lock()
		act := w.act
		w.mu.Unlock()
		answers, err := w.nodes[name].checkAll([]string{
			worldCheck("plan", "all", 1), worldCheck("trial", act, 1), worldCheck("paid", act, paidHits), worldCheck("budget", act, 1),
		})
		w.book(region, name, act, answers, err)
	}
}

func worldCheck(rule, value string, hits int) string {
	return fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":%q}],"hits":%d}]}`, rule, value, hits)
}

// book counts the answers to one request.
func (w *world) book(region, name, act string, answers []answer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || len(answers) != 4 {
		w.failed = append(w.failed, fmt.Sprintf("%s: %d answers, %v", name, len(answers), err))
		return
	}
	for i, rule := range []string{"plan", "trial", "paid", "budget"} {
		u := use{rule, act, region}
		switch a := answers[i]; {
		case a.Degraded != "" || !a.Allowed && rule == "plan":
			w.failed = append(w.failed, fmt.Sprintf("%s: %s: %+v", name, rule, a))
		case !a.Allowed:
			if w.denials[u] == nil {
				w.denials[u] = map[string]bool{}
			}
			w.denials[u][name] = true
		case rule == "paid":
			w.passed[u] += paidHits
		default:
			w.passed[u]++
		}
	}
}

// sum is how many hits have passed by a rule, in an act and a region; "" is in all.
func (w *world) sum(rule, act, region string) (hits int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for u, n := range w.passed {
		if u.rule == rule && (act == "" || u.act == act) && (region == "" || u.region == region) {
			hits += n
		}
	}
	return hits
}

// begin begins an act.
func (w *world) begin(act string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.act = act
}

// usedUp waits until the small limits of an act are used up: by the shared one all nodes deny, and of
// the leased one half has passed at least.
func (w *world) usedUp(act string) {
	w.t.Helper()
	eventually.Nil(w.t, act, func() error {
		w.mu.Lock()
		denying := 0
		for u, names := range w.denials {
			if u.rule == "trial" && u.act == act {
				denying += len(names)
			}
		}
		w.mu.Unlock()
		if leased := w.sum("budget", act, ""); denying < len(w.nodes) || leased < budgetLimit/2 {
			return fmt.Errorf("%d nodes deny by the shared limit, and %d hits have passed by the leased one", denying, leased)
		}
		return nil
	})
}

// used is how many hits of the plan the store of a region knows of.
func (w *world) used(region string) (int, error) {
	a, err := w.nodes[region+"-1"].check(worldCheck("plan", "all", 0))
	if err != nil || a.Degraded != "" || a.Limit == 0 {
		return 0, fmt.Errorf("%s does not say what is used: %+v, %w", region, a, err)
	}
	return a.Limit - a.Remaining, nil
}

// hears waits until the store of a region has heard of more hits of others than had passed in all
// others when this was called.
func (w *world) hears(region string) {
	w.t.Helper()
	others := w.sum("plan", "", "") - w.sum("plan", "", region)
	eventually.Nil(w.t, region+" hears of the others", func() error {
		used, err := w.used(region)
		// What passed here is read later, so all that was counted is booked by then, but for one
		// request of each node.
		if heard := used - w.sum("plan", "", region); err == nil && heard <= others+len(w.nodes) {
			err = fmt.Errorf("it has heard of %d hits, and %d had passed elsewhere", heard, others)
		}
		return err
	})
}

// passes waits until more requests pass in a region.
func (w *world) passes(region string) {
	w.t.Helper()
	before := w.sum("plan", "", region)
	eventually.True(w.t, region+" goes on", func() bool { return w.sum("plan", "", region) > before+20 })
}

// lent is how many hits of the rule paid the home has lent to a node.
func (w *world) lent(name string) float64 {
	return w.nodes[name].metric(w.t, `headgate_regions_rule_hits_granted_total{home="home",rule="api.paid"}`)
}

// leases waits until the home lends more to each of these nodes.
func (w *world) leases(names []string) {
	w.t.Helper()
	before := map[string]float64{}
	for _, name := range names {
		before[name] = w.lent(name)
	}
	for _, name := range names {
		eventually.True(w.t, "the home lends to "+name, func() bool { return w.lent(name) > before[name] })
	}
}

// cut loses what leaves a region, and, where that is said, what goes there too.
func (w *world) cut(region string, both bool) {
	for at, p := range w.ways {
		switch {
		case at.from == region:
			p.Set(lost(true, both)) // questions, and answers to them
		case at.to == worldStores[region]:
			p.Set(lost(both, true))
		}
	}
}

// heal has all ways as they were. Connections that are reset have to be made again; from others comes
// what was held back.
func (w *world) heal(reset bool) {
	for _, p := range w.ways {
		p.Set(between())
		if reset {
			p.Reset()
		}
	}
}

var printedBound = regexp.MustCompile(`over all regions: of 100 excess <= min\((\d+), D x \(200ms \+ delay\)\)(?: \+ (\d+))?`)

// bound is what `rules validate` prints of by how much the rule trial can be exceeded.
func (w *world) bound() int {
	w.t.Helper()
	out, stderr, code := w.run("rules", "validate", "--regions", filepath.Join(w.files, "regions.yaml"), filepath.Join(w.files, "rules.yaml"))
	found := printedBound.FindStringSubmatch(out)
	if code != 0 || found == nil {
		w.t.Fatalf("no bound is printed: %s\n%s", out, stderr)
	}
	most, err1 := strconv.Atoi(found[1])
	floors, err2 := strconv.Atoi(cmp.Or(found[2], "0")) // small limits have none
	if err1 != nil || err2 != nil {
		w.t.Fatal(found)
	}
	return most + floors
}

// knowAll waits until the store of each region knows of each hit of the plan once.
func (w *world) knowAll() {
	w.t.Helper()
	all := w.sum("plan", "", "")
	for region := range worldStores {
		eventually.Nil(w.t, region+" knows of each hit", func() error {
			used, err := w.used(region)
			if err == nil && used != all {
				err = fmt.Errorf("it knows of %d, and %d have passed", used, all)
			}
			return err
		})
	}
}

// well waits until no node has anything to complain of, and returns the longest lag. No node may have
// let pass more by leases than it was lent.
func (w *world) well() (lag float64) {
	w.t.Helper()
	var all map[string]view.Regions
	eventually.Nil(w.t, "all is well", func() error {
		var code int
		var trouble string
		if code, all, trouble = w.status(); code != 0 || len(all) != len(w.nodes) {
			return fmt.Errorf("the exit code is %d, of %d nodes\n%s", code, len(all), trouble)
		}
		lag = 0
		for name, r := range all {
			if len(r.Told) != 2 || len(r.Rules) != 2 {
				return fmt.Errorf("%s has %+v", name, r)
			}
			for _, to := range r.Told {
				if lag = max(lag, to.Lag); to.State != view.PeerHeard || to.Lag >= 10 {
					return fmt.Errorf("%s tells %+v", name, to)
				}
			}
			for _, rule := range r.Rules {
				if rule.State != view.RuleLeased {
					return fmt.Errorf("%s has %+v", name, rule)
				}
			}
		}
		return nil
	})
	for name, r := range all {
		for _, rule := range r.Rules {
			if rule.Excess != 0 || rule.Bound != 0 {
				w.t.Errorf("%s lets pass more than it was lent: %+v", name, rule)
			}
		}
	}
	return lag
}

// Six processes in three regions, each with a Redis of its own, decide by shared and leased rules over
// ways that are slow and lose. One region is cut off in one direction, and comes back with all
// that was held back; in both, and has to connect anew; and the home is cut off from another
// one. No request fails; by shared limits no more passes than is printed, by leased ones no more than
// the limit; and afterwards each region knows of each hit, once.
//
//promise:several-regions regions-shared regions-leased shared-cut-off shared-converges shared-messages region-cut-off region-heals
func TestSixProcessesInThreeRegions(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	most := w.bound()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for region := range worldStores {
		for _, name := range w.of(region) {
			running.Go(func() { w.load(ctx, region, name) })
		}
	}
	regions := slices.Sorted(maps.Keys(worldStores))
	for _, region := range regions {
		w.hears(region)
	}
	w.leases(slices.Sorted(maps.Keys(w.nodes)))
	w.usedUp("calm")

	// Nobody hears Singapore. It hears the others as long as connections last on which it answers
	// nothing.
	w.cut("singapore", false)
	w.begin("one way")
	w.hears("frankfurt") // of Virginia
	w.usedUp("one way")
	w.heal(false)
	w.leases(w.of("singapore"))
	w.begin("healed")
	w.usedUp("healed")

	w.cut("singapore", true)
	w.begin("cut off")
	w.passes("singapore")
	w.usedUp("cut off")
	w.heal(true)

	w.ways[way{"virginia", "home"}].Set(lost(true, true))
	w.begin("without the home")
	w.passes("virginia")
	w.usedUp("without the home")
	w.leases(w.of("singapore"))
	w.heal(true)
	w.leases(w.of("virginia"))

	w.begin("at last")
	w.usedUp("at last")
	lag := w.well()
	cancel()
	running.Wait()
	w.knowAll()
	// Further rounds tell nothing twice.
	for _, region := range regions {
		for _, name := range w.of(region) {
			answers, err := w.nodes[name].checkAll([]string{worldCheck("plan", "all", 1), worldCheck("trial", "x", 1), worldCheck("paid", "x", paidHits), worldCheck("budget", "x", 1)})
			w.book(region, name, "x", answers, err)
		}
	}
	w.knowAll()

	if len(w.failed) > 0 {
		t.Errorf("%d requests failed: %.1000s", len(w.failed), strings.Join(w.failed, "\n"))
	}
	for _, act := range []string{"calm", "one way", "healed", "cut off", "without the home", "at last"} {
		shared, leased, paid := w.sum("trial", act, ""), w.sum("budget", act, ""), w.sum("paid", act, "")
		t.Logf("%s: by the shared limit of %d passed %d, which may be %d more, by the leased one of %d passed %d", act, trialLimit, shared, most, budgetLimit, leased)
		if shared > trialLimit+most || leased > budgetLimit || paid > paidLimit {
			t.Errorf("%s: %d hits passed by the shared limit of %d, %d by the leased one of %d, %d by that of %d", act, shared, trialLimit, leased, budgetLimit, paid, paidLimit)
		}
		for _, region := range regions {
			if n := w.sum("trial", act, region); n > trialLimit {
				t.Errorf("%s: %d hits passed in %s by the shared limit", act, n, region)
			}
		}
	}
	t.Logf("%d requests passed, the lag is %.1fs", w.sum("plan", "", ""), lag)
}
