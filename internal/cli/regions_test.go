package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// farRegions is what a node in Virginia says: one home is heard, one is silent, three of its rules
// wait for a new epoch.
func farRegions() *view.Regions {
	return &view.Regions{
		At: time.Date(2026, 11, 22, 12, 0, 5, 0, time.UTC), Node: "gate-vir-1", Region: "virginia",
		Peers: []view.RegionPeer{
			{Name: "archive", Kind: "home", State: view.PeerSilent, Why: "nothing was heard of it for 42s", Heard: 42.3, RoundTrip: 0.151, LagBound: 30, EpochAge: 70000, Nodes: 6, Asked: 9000, Failed: 17},
			{Name: "home", Kind: "home", State: view.PeerHeard, Heard: 1.2, RoundTrip: 0.0873, Renewal: 0.0912, LagBound: 30, EpochAge: 3 * 366 * 24 * 3600, Nodes: 6, Asked: 12345, Held: 240},
		},
		Rules: []view.RegionRule{
			{Rule: "api.key", Regions: "leased", Peer: "home", State: view.RuleLeased, Buckets: 31, Held: 240, ReserveLeft: 0.52, TakenRate: 118, LeasedRate: 112.4, ReserveRate: 3.1, DeniedRate: 0.2, Unused: 0.013},
			{Rule: "api.month", Regions: "leased", Peer: "home", State: view.RuleOnReserve, Why: "its home may have forgotten what it lent, and lends again in 29d23h; hint: headgate store epoch --vouch, if it has not", ReserveLeft: 0.9, ReserveRate: 4, Unused: -1},
			{Rule: "api.day", Regions: "leased", Peer: "home", State: view.RuleOnReserve, Why: "its home may have forgotten what it lent, and lends again in 23h59m; hint: headgate store epoch --vouch, if it has not", ReserveLeft: -1, Unused: -1},
			{Rule: "api.month2", Regions: "leased", Peer: "home", State: view.RuleOnReserve, Why: "its home may have forgotten what it lent, and lends again in 29d23h; hint: headgate store epoch --vouch, if it has not", ReserveLeft: -1, Unused: -1},
			{Rule: "api.key2", Regions: "leased", Peer: "home", State: view.RuleWaiting, Why: "its home has not answered the last question; what is held passes until it ends, then the reserve", Unused: -1, DeniedRate: 35},
			{Rule: "jobs.tenant\x1b[2J", Regions: "leased", Peer: "archive", State: view.RuleCutOff, Why: "what is held passes until it ends, then the reserve", ReserveLeft: -1, Unused: -1, Excess: 2},
		},
		RulesMore: 3,
		Told: []view.RegionTold{
			{Region: "frankfurt", State: view.PeerHeard, Heard: 0.4, RoundTrip: 0.0862, Lag: 0.9, LagBound: 10, Unheard: 31, Totals: 18200},
			{Region: "singapore", State: view.PeerSilent, Why: "its store has not heard what passed here for 42s: each region counts for itself", Heard: -1, Lag: 42, LagBound: 10, Unheard: 440, Totals: 18200, Failed: 900},
		},
		Shared: []view.SharedRule{
			{Rule: "api.plan", Limits: []view.SharedLimit{{Limit: "1,000 per minute", Floor: 10, Most: 2000}, {Limit: "20,000 per hour", Floor: 200, Most: 40000}}, Buckets: 12400, HitsRate: 8900, Unheard: 70, To: "singapore"},
			{Rule: "api.quiet", Limits: []view.SharedLimit{{Limit: "5 per minute", Most: 10}}},
		},
		SharedMore: 1,
	}
}

func TestRegionsTable(t *testing.T) {
	got := strings.Join(regionsLines(farRegions()), "\n") + "\n"
	path := filepath.Join("testdata", "regions.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s; hint: go test ./internal/cli -run TestRegionsTable -update\n%s", path, got)
	}
}

// cutRegions is what a node says of a limit of which its home lends so many hits.
func cutRegions(node string, lends int64) view.Regions {
	return view.Regions{
		Node: node, Region: "virginia", Peers: []view.RegionPeer{{Name: "home", State: view.PeerHeard}},
		Rules: []view.RegionRule{{Rule: "api.paid", Peer: "home", State: view.RuleLeased, Limits: []view.RegionLimit{{Limit: "1000 per 1m", Home: lends, Reserve: 25}}}},
	}
}

// The exit code says whether all homes are heard, and whether all nodes were asked.
func TestRegionsStatusCodes(t *testing.T) {
	answers := map[string]any{
		"/ok":    view.Regions{Node: "a", Region: "frankfurt", Peers: []view.RegionPeer{{Name: "home", State: view.PeerHeard}}, Rules: []view.RegionRule{}},
		"/new":   view.Regions{Node: "b", Region: "virginia", Peers: []view.RegionPeer{{Name: "home", State: view.PeerUnheard, Heard: -1}}, Rules: []view.RegionRule{}},
		"/bad":   farRegions(),
		"/none":  view.Regions{Node: "c", Peers: []view.RegionPeer{}, Rules: []view.RegionRule{}},
		"/deaf":  view.Regions{Node: "d", Region: "virginia", Peers: []view.RegionPeer{}, Told: farRegions().Told, Shared: farRegions().Shared},
		"/looks": view.Regions{Node: "e", Region: "virginia", Onlooker: true, Peers: []view.RegionPeer{}, Told: []view.RegionTold{{Region: "frankfurt", State: view.PeerUnheard, Heard: -1}}},
		"/cut":   cutRegions("f", 900),
		"/cut2":  cutRegions("g", 500),
		"/other": map[string]string{"hello": "world"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, found := strings.CutSuffix(r.URL.Path, "/admin/v1/regions")
		if !found || answers[at] == nil || r.Header.Get("Authorization") != "Bearer hgat_x" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(answers[at]) // the client says what it lacks
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hgat_x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		nodes, out, err string
		code            int
	}{
		{"/ok", "region frankfurt", "", exitOK},
		{"/ok /new", "region virginia", "", exitOK},
		{"/none", "no regions are set", "", exitOK},
		{"/looks", "node e, region virginia, does not decide: what is held and told is on the nodes that do; hint: ask their admin APIs (--admin-addr)\n", "", exitOK},
		{"/bad", "region virginia", "node gate-vir-1 does not hear the home archive", exitNo},
		{"/ok /bad", "region frankfurt", "node gate-vir-1 does not hear the home archive", exitNo},
		{"/bad", "region singapore: its store has not heard", "node gate-vir-1 cannot tell the region singapore what passes", exitNo},
		{"/deaf", "SHARED RULE", "node d cannot tell the region singapore what passes", exitNo},
		{"/ok /cut", "node f", "", exitOK},
		{"/cut /cut2", "node g", "nodes f and g divide the limit of the rule api.paid (1000 per 1m) in different ways", exitNo},
		{"/other", "", "does not say how its regions are", exitUsage},
		{"/gone /bad", "region virginia", "/gone: the admin API answers 404", exitUsage},
	} {
		var out, trouble strings.Builder
		args := []string{"regions", "status", "--admin-token-file", token}
		for _, at := range strings.Fields(tt.nodes) {
			args = append(args, server.URL+at)
		}
		code := Run(args, strings.NewReader(""), &out, &trouble)
		if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(trouble.String(), tt.err) || (trouble.Len() == 0) != (tt.err == "") {
			t.Errorf("%s: %d\n%s%s", tt.nodes, code, out.String(), trouble.String())
		}
	}
	many := []string{"regions", "status", "--admin-token-file", token}
	for i := range maxNodes + 1 {
		many = append(many, fmt.Sprint(server.URL, "/", i))
	}
	var out, trouble strings.Builder
	if code := Run(many, strings.NewReader(""), &out, &trouble); code != exitUsage || !strings.Contains(trouble.String(), "at most 256") {
		t.Errorf("%d: %s", code, trouble.String())
	}
}

// What a home that is away means stands in top, and nothing does while all are heard.
func TestTopTellsOfHomes(t *testing.T) {
	s := nodeSnapshot()
	has := func() bool { return strings.Contains(plain(&s), "\nregions: no answer of the home archive\n") }
	if s.Overview.Health.Homes = nil; has() {
		t.Error("a node without regions tells of homes")
	}
	if s.Overview.Health.Homes = (&view.State{OK: true}); has() {
		t.Error("a home that is heard is told of")
	}
	if s.Overview.Health.Homes = (&view.State{Error: "no answer of the home archive"}); !has() {
		t.Error(plain(&s))
	}
}

// Nodes that divide a limit by different files let more pass together: that is no, and says which nodes.
func TestRegionsOfDifferentFiles(t *testing.T) {
	node := func(name, region, home string, lends, reserve int64) *view.Regions {
		return &view.Regions{Node: name, Region: region, Rules: []view.RegionRule{{
			Rule: "api.paid", Peer: home, Limits: []view.RegionLimit{
				{Limit: "1000 per 1m", Home: lends, Reserve: reserve, Others: 1000 - lends - reserve},
				{Limit: "9000 per 1h", Home: 9 * lends, Reserve: 9 * reserve, Others: 9 * (1000 - lends - reserve)},
			},
		}}}
	}
	first := node("a", "virginia", "home", 900, 25)
	for says, other := range map[string]*view.Regions{
		"":                                      node("b", "virginia", "home", 900, 25),
		"the home home lends 500":               node("b", "singapore", "home", 500, 25),
		"the home archive lends 900":            node("b", "singapore", "archive", 900, 25),
		"by the second the reserve of virginia": node("b", "virginia", "home", 900, 50),
	} {
		said := cuts{}
		if err := said.differ(first); err != nil {
			t.Fatal(err)
		}
		err := said.differ(other)
		if says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	// By the file of a node, all reserves are 100. With one for each region they may be that and no more,
	// however few of the regions were asked.
	regions := []*view.Regions{first, node("c", "frankfurt", "home", 900, 50), node("d", "singapore", "home", 900, 25)}
	said := cuts{}
	for _, one := range regions {
		if err := said.differ(one); err != nil {
			t.Errorf("a region with a reserve of its own: %v", err)
		}
	}
	said = cuts{}
	// The file of this node gives the larger reserve to another region, and as much to the home.
	regions[0] = node("a", "virginia", "home", 900, 50)
	var errs []error
	for _, one := range regions {
		errs = append(errs, said.differ(one))
	}
	const want = "their reserves (node a of virginia 50, node c of frankfurt 50, node d of singapore 25) are 125 together, and its home leaves 100 for all regions"
	if errs[0] != nil || errs[1] != nil || errs[2] == nil || !strings.Contains(errs[2].Error(), want) {
		t.Errorf("%v, want %q", errs, want)
	}
}
