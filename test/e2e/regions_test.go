package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
)

const leasedRules = `
domain: api
descriptors:
- key: account
  regions: leased
  failure_mode: closed
  rate_limit: {window: 10s, requests_per_unit: 2000, algorithm: token_bucket, burst: 2000}
- {key: user, rate_limit: {unit: minute, requests_per_unit: 1000}}
`

// gates are two processes in two regions, with a Redis each, and the home of both behind a
// proxy, whose password must be seen nowhere.
type gates struct {
	t      *testing.T
	home   *testserver.RedisServer
	way    *testserver.Proxy // of Virginia
	nodes  map[string]*node
	admins map[string]string
	token  string // its file
}

const homeSecret = "not-a-real-secret-of-home"

func startGates(t *testing.T) *gates {
	t.Helper()
	dir, err := os.MkdirTemp("", "hg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	g := &gates{t: t, home: testserver.Redis(t, testserver.RedisConfig{Password: homeSecret}), nodes: map[string]*node{}, admins: map[string]string{}}
	g.way = testserver.NewProxy(t, g.home.Addr)
	made, _, code := g.run("admin", "token", "ann", "--scope", "read")
	if code != 0 {
		t.Fatal("no token is made")
	}
	token, lines, _ := strings.Cut(made, "\n")
	g.token = write("token", token)
	for region, addr := range map[string]string{"frankfurt": g.home.Addr, "virginia": g.way.Addr} {
		url := "redis://:" + homeSecret + "@" + addr
		g.admins[region] = "unix://" + filepath.Join(dir, region)
		g.nodes[region] = startNode(t, "--rules", write(region+".rules.yaml", leasedRules), "--store", testserver.Redis(t, testserver.RedisConfig{}).URL(), "--store-budget", "10s",
			"--stores", write(region+".stores.yaml", "stores: {home: {url: '"+url+"', budget: 1s}}"), "--node-name", region,
			"--regions", write(region+".regions.yaml", "home: home\nregions: {frankfurt: {}, virginia: {}}"), "--region", region,
			"--admin-addr", g.admins[region], "--admin-tokens", write(region+".tokens.yaml", "tokens:\n"+lines))
	}
	if _, stderr, code := g.run("store", "epoch", "--vouch", "--store", "redis://:"+homeSecret+"@"+g.home.Addr); code != 0 {
		t.Fatal(stderr)
	}
	return g
}

// run runs a command of headgate, and sees to it that nobody is told the secret.
func (g *gates) run(args ...string) (stdout, stderr string, code int) {
	g.t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		g.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		g.t.Fatal(err)
	}
	if strings.Contains(out.String()+trouble.String(), homeSecret) {
		g.t.Errorf("headgate %q tells the password of the home", args)
	}
	return out.String(), trouble.String(), cmd.ProcessState.ExitCode()
}

// status asks all nodes by one command, and returns what they say by their names.
func (g *gates) status() (code int, of map[string]view.Regions, trouble string) {
	g.t.Helper()
	out, trouble, code := g.run(append([]string{"regions", "status", "--json", "--admin-token-file", g.token, "--admin"}, slices.Sorted(maps.Values(g.admins))...)...)
	of = map[string]view.Regions{}
	for line := range strings.Lines(out) {
		var r view.Regions
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			g.t.Fatal(err)
		}
		of[r.Node] = r
	}
	return code, of, trouble
}

// becomes waits until the rule of a region is in a state, while somebody asks for it.
func (g *gates) becomes(region, state string, wantCode int) view.Regions {
	g.t.Helper()
	var found view.Regions
	g.nodes[region].until(g.t, func() error {
		for _, n := range g.nodes {
			for range 5 {
				if a, err := n.check(`{"domain":"api","descriptors":[{"entries":[{"key":"account","value":"acme"}],"hits":1}]}`); err != nil || a.Degraded != "" {
					g.t.Errorf("a request has failed: %+v, %v", a, err)
				}
			}
		}
		code, all, trouble := g.status()
		found = all[region]
		if len(found.Rules) != 1 || found.Rules[0].State != state || code != wantCode {
			return fmt.Errorf("the exit code is %d, want %d for %s: %+v\n%s", code, wantCode, state, found, trouble)
		}
		return nil
	})
	return found
}

// A home that is cut off from one region, and heard again, is seen by all who look: by
// `regions status` and its exit code, `top`, metrics and the admin API, and nowhere is its
// password. No request fails.
func TestRegionsAreSeen(t *testing.T) {
	t.Parallel()
	g := startGates(t)
	r := g.becomes("virginia", view.RuleLeased, 0)
	g.nodes["virginia"].until(t, func() error {
		if r = g.becomes("virginia", view.RuleLeased, 0); r.Rules[0].Granted == 0 || r.Rules[0].TakenRate == 0 || r.Peers[0].Renewal == 0 {
			return fmt.Errorf("nothing is leased: %+v", r)
		}
		return nil
	})
	if rule := r.Rules[0]; rule.Rule != "api.account" || rule.Excess != 0 || rule.Bound != 0 || rule.Limits[0].Home != 1800 || rule.Limits[0].Reserve != 100 || rule.Limits[0].Others != 100 {
		t.Errorf("the rule is %+v", rule)
	}
	far := g.nodes["virginia"]
	if up, state := far.metric(t, `headgate_regions_home_up{home="home"}`), far.metric(t, `headgate_regions_rule_state{home="home",rule="api.account"}`); up != 1 || state != 0 {
		t.Errorf("home_up is %v and the state %v", up, state)
	}
	if lent := far.metric(t, `headgate_regions_rule_hits_granted_total{home="home",rule="api.account"}`); lent == 0 {
		t.Error("metrics tell of no hits that were lent to the rule")
	}

	g.way.Set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
	r = g.becomes("virginia", view.RuleCutOff, 1)
	if peer := r.Peers[0]; peer.State != view.PeerSilent || peer.Heard < 10 {
		t.Errorf("the home is %+v", peer)
	}
	_, all, trouble := g.status()
	if near := all["frankfurt"]; near.Rules[0].State != view.RuleLeased || len(near.Silent()) != 0 {
		t.Errorf("the region of the home is %+v", near)
	}
	if !strings.Contains(trouble, "node virginia does not hear the home home") || strings.Contains(trouble, "node frankfurt") {
		t.Errorf("standard error: %s", trouble)
	}
	text, _, _ := g.run("regions", "status", "--admin-token-file", g.token, "--admin", g.admins["virginia"])
	for _, want := range []string{"node virginia, region virginia", "silent", "cut off", "home home: nothing was heard of it for"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if top, _, _ := g.run("top", "--once", "--admin-token-file", g.token, "--admin", g.admins["virginia"]); !strings.Contains(top, "regions: no answer of the home home") || !strings.Contains(top, "ready") {
		t.Errorf("top: %s", top)
	}
	if up, state := far.metric(t, `headgate_regions_home_up{home="home"}`), far.metric(t, `headgate_regions_rule_state{home="home",rule="api.account"}`); up != 0 || state != 2 {
		t.Errorf("home_up is %v and the state %v", up, state)
	}
	// Nobody is woken because all have lost a server for which no request waits.
	if series := far.scrape(t); !strings.Contains(series, `headgate_store_awaited{shard="`+g.way.Addr+`",store="home"} 0`) ||
		!regexp.MustCompile(`headgate_store_awaited{shard="[^"]*",store="store"} 1`).MatchString(series) {
		t.Error("the metrics do not say that requests wait for the store of the region, and for no home")
	}
	for region, n := range g.nodes {
		if strings.Contains(n.scrape(t)+n.process.Output(), homeSecret) {
			t.Errorf("%s tells the password of the home", region)
		}
	}

	g.way.Heal()
	g.way.Reset()
	r = g.becomes("virginia", view.RuleLeased, 0)
	if r.Rules[0].Excess != 0 {
		t.Errorf("the rule is %+v", r.Rules[0])
	}
	if top, _, _ := g.run("top", "--once", "--admin-token-file", g.token, "--admin", g.admins["virginia"]); strings.Contains(top, "regions:") {
		t.Errorf("top: %s", top)
	}
}

const sharedRules = `
domain: api
descriptors:
- {key: account, regions: shared, rate_limit: {unit: day, requests_per_unit: 1000}}
`

// Two regions with a Redis each tell each other what passes. One that cannot tell is seen by all
// who look, and no request fails; afterwards both know of each hit.
func TestRegionsTellEachOther(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	g := &gates{t: t, nodes: map[string]*node{}, admins: map[string]string{}}
	made, _, code := g.run("admin", "token", "ann", "--scope", "read")
	if code != 0 {
		t.Fatal("no token is made")
	}
	token, lines, _ := strings.Cut(made, "\n")
	g.token = write("token", token)
	own := map[string]*testserver.RedisServer{}
	for _, region := range []string{"frankfurt", "virginia"} {
		own[region] = testserver.Redis(t, testserver.RedisConfig{Password: homeSecret})
	}
	g.way = testserver.NewProxy(t, own["frankfurt"].Addr)
	stores := fmt.Sprintf("stores: {fra: {url: 'redis://:%[1]s@%[2]s', budget: 1s}, vir: {url: 'redis://:%[1]s@%[3]s', budget: 1s}}", homeSecret, g.way.Addr, own["virginia"].Addr)
	for region, server := range own {
		g.admins[region] = "unix://" + filepath.Join(dir, region)
		g.nodes[region] = startNode(t, "--rules", write("rules.yaml", sharedRules), "--store", "redis://:"+homeSecret+"@"+server.Addr, "--store-budget", "10s",
			"--stores", write("stores.yaml", stores), "--node-name", region, "--region", region,
			"--regions", write("regions.yaml", "exchange: 200ms\nfloor: 0%\nregions: {frankfurt: {store: fra}, virginia: {store: vir}}"),
			"--admin-addr", g.admins[region], "--admin-tokens", write("tokens.yaml", "tokens:\n"+lines))
	}
	far := g.nodes["virginia"]
	passed := 0
	ask := func(region string) {
		a, err := g.nodes[region].check(`{"domain":"api","descriptors":[{"entries":[{"key":"account","value":"acme"}],"hits":1}]}`)
		if err != nil || a.Degraded != "" || !a.Allowed {
			t.Fatalf("a request has failed: %+v, %v", a, err)
		}
		passed++
	}
	known := func(want int) {
		t.Helper()
		for region, n := range g.nodes {
			n.until(t, func() error {
				a, err := n.check(`{"domain":"api","descriptors":[{"entries":[{"key":"account","value":"acme"}],"hits":0}]}`)
				if err != nil || 1000-a.Remaining != want {
					return fmt.Errorf("%s knows of %d, %v; want %d", region, 1000-a.Remaining, err, want)
				}
				return nil
			})
		}
	}
	for range 30 {
		ask("frankfurt")
		ask("virginia")
	}
	known(60)
	if up, hits := far.metric(t, `headgate_regions_told_up{region="frankfurt"}`), far.metric(t, `headgate_regions_shared_hits_total{rule="api.account"}`); up != 1 || hits != 30 {
		t.Errorf("told_up is %v, and %v hits passed", up, hits)
	}
	if code, all, trouble := g.status(); code != 0 || len(all["virginia"].Told) != 1 || all["virginia"].Shared[0].Rule != "api.account" || all["virginia"].Shared[0].Limits[0].Most != 1000 {
		t.Errorf("%d, %+v\n%s", code, all, trouble)
	}

	g.way.Set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
	ask("virginia")
	far.until(t, func() error {
		code, all, trouble := g.status()
		if code != 1 || !strings.Contains(trouble, "node virginia cannot tell the region frankfurt what passes") || strings.Contains(trouble, "node frankfurt") {
			return fmt.Errorf("the exit code is %d: %+v\n%s", code, all, trouble)
		}
		return nil
	})
	ask("virginia")
	ask("frankfurt")
	if up := far.metric(t, `headgate_regions_told_up{region="frankfurt"}`); up != 0 {
		t.Errorf("told_up is %v", up)
	}
	if top, _, _ := g.run("top", "--once", "--admin-token-file", g.token, "--admin", g.admins["virginia"]); !strings.Contains(top, "regions: no answer of the store of frankfurt") || !strings.Contains(top, "ready") {
		t.Errorf("top: %s", top)
	}
	g.way.Heal()
	g.way.Reset()
	known(passed)
	far.until(t, func() error {
		if code, _, trouble := g.status(); code != 0 {
			return fmt.Errorf("the exit code is %d\n%s", code, trouble)
		}
		return nil
	})
	for region, n := range g.nodes {
		if strings.Contains(n.scrape(t)+n.process.Output(), homeSecret) {
			t.Errorf("%s tells a password", region)
		}
	}
}
