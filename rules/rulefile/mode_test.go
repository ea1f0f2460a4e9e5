package rulefile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/diff"
)

func modeOf(t *testing.T, keys string) *rules.Rule {
	t.Helper()
	return mustLoad(t, "domain: d\ndescriptors:\n- {key: k, "+keys+", rate_limit: {unit: minute, requests_per_unit: 100}}", Options{}).Rules()[0]
}

func TestModeOfKeys(t *testing.T) {
	for _, tt := range []struct {
		keys, text string
		want       rules.Mode
	}{
		{"consistency: exact", "exact, each request in the store", rules.Mode{HotKeys: rules.HotCoalesce}},
		{"consistency: exact, hot_keys: auto", "exact", rules.Mode{}},
		{"hot_keys: coalesce", "exact, each request in the store", rules.Mode{HotKeys: rules.HotCoalesce}},
		{"consistency: , sync_interval: , lease_ttl: , local_share: , hot_keys: , sub_buckets: , remember_denials: ", "exact", rules.Mode{}},
		{"consistency: leased", "leased", rules.Mode{Consistency: rules.Leased}},
		{"consistency: leased, lease_ttl: 50ms", "leased for up to 50ms", rules.Mode{Consistency: rules.Leased, LeaseTTL: 50 * time.Millisecond}},
		{"consistency: synced", "synced every 200ms", rules.Mode{Consistency: rules.Synced}},
		{"consistency: synced, sync_interval: 5s", "synced every 5s", rules.Mode{Consistency: rules.Synced, SyncInterval: 5 * time.Second}},
		{"consistency: local", "local", rules.Mode{Consistency: rules.Local}},
		{"consistency: local, local_share: whole", "local, the whole limit on each node", rules.Mode{Consistency: rules.Local, Whole: true}},
		{"hot_keys: lease, lease_ttl: 1m", "exact, hot keys leased for up to 1m", rules.Mode{HotKeys: rules.HotLease, LeaseTTL: time.Minute}},
		{"sub_buckets: 8", "exact in 8 sub-buckets", rules.Mode{SubBuckets: 8}},
		{"remember_denials: false", "exact, denials not remembered", rules.Mode{AskAlways: true}},
		{"failure_mode: local, local_share: whole", "exact", rules.Mode{Whole: true}},
		{"store: home", "exact, in store home", rules.Mode{Store: "home"}},
		{"store: eu-west_1, consistency: leased", "leased, in store eu-west_1", rules.Mode{Store: "eu-west_1", Consistency: rules.Leased}},
		{"store: , remember_denials: ", "exact", rules.Mode{}},
		{"regions: each", "exact", rules.Mode{}},
		{"regions: leased, failure_mode: closed", "exact, over all regions leased", rules.Mode{Regions: rules.RegionsLeased}},
		{"regions: leased, failure_mode: closed, consistency: leased, store: home", "leased, in store home, over all regions leased", rules.Mode{Regions: rules.RegionsLeased, Consistency: rules.Leased, Store: "home"}},
	} {
		r := modeOf(t, tt.keys)
		if r.Mode != tt.want || r.Mode.String() != tt.text {
			t.Errorf("%s: %+v, %q; want %+v, %q", tt.keys, r.Mode, r.Mode, tt.want, tt.text)
		}
		if inSummary := strings.Contains(describe.Summary(r), "; "+tt.text+"; "); inSummary != (tt.text != "exact") {
			t.Errorf("%s: summary is %q", tt.keys, describe.Summary(r))
		}
	}
}

func TestModeKeysAreOfHeadgate(t *testing.T) {
	for _, key := range modeKeys {
		if keys()[key].envoy || !keys()[key].belongs(inDescriptor) {
			t.Errorf("%s is %+v", key, keys()[key])
		}
	}
}

func TestModeWithoutLimitIsWarnedOf(t *testing.T) {
	set := mustLoad(t, "domain: d\ndescriptors: [{key: k, consistency: leased, sub_buckets: 8}]", Options{})
	if len(set.Warnings()) != 2 {
		t.Errorf("warnings are %v, want one for each key", set.Warnings())
	}
}

func TestIndexIsThePlaceInTheSet(t *testing.T) {
	set := mustLoad(t, `
domain: d
descriptors:
- {always: true, name: all, rate_limit: &l {unit: minute, requests_per_unit: 5}}
- {key: a, rate_limit: *l, descriptors: [{key: b, rate_limit: *l}]}
- {key: c, rate_limit: *l}
`, Options{})
	for i, r := range set.Rules() {
		if r.Index() != i {
			t.Errorf("rule %s has index %d, want %d", r.ID, r.Index(), i)
		}
	}
}

func TestDiffShowsModes(t *testing.T) {
	const file = "domain: d\ndescriptors: [{key: k, %s, rate_limit: {unit: minute, requests_per_unit: 100}}]"
	from := mustLoad(t, fmt.Sprintf(file, "consistency: synced, failure_mode: local, local_share: whole"), Options{})
	to := mustLoad(t, fmt.Sprintf(file, "hot_keys: lease, lease_ttl: 2s, remember_denials: false"), Options{})
	var lines []string
	for _, c := range diff.Sets(from, to) {
		lines = append(lines, c.String())
	}
	want := `~ d.k: consistency: synced -> exact
~ d.k: failure_mode: local -> open
~ d.k: hot_keys: auto -> lease
~ d.k: lease_ttl: none -> 2s
~ d.k: local_share: whole -> share
~ d.k: remember_denials: true -> false
~ d.k: sync_interval: 200ms -> none`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Hot keys are leased without a word, but not where a word speaks against it, nor
// where the store is asked all the same.
func TestD6HotKeysAreLeasedByDefault(t *testing.T) {
	const limits = "rate_limit: {unit: minute, requests_per_unit: %d%s}"
	const large = 100_000
	for _, tt := range []struct {
		keys  string
		limit string
		want  bool
	}{
		{"", fmt.Sprintf(limits, large, ""), true},
		{"hot_keys: auto", fmt.Sprintf(limits, large, ""), true},
		{"failure_mode: closed", fmt.Sprintf(limits, large, ""), true},
		{"shadow_mode: true", fmt.Sprintf(limits, large, ""), true},
		{"", fmt.Sprintf(limits, large, ", algorithm: gcra"), true},
		{"", fmt.Sprintf(limits, large, ", algorithm: fixed_window"), true},
		{"", fmt.Sprintf(limits, 600, ""), true},
		{"", fmt.Sprintf(limits, 599, ""), false},
		{"", "rate_limit: {unit: day, requests_per_unit: 1000}", true},
		{"", "rate_limit: {unit: day, requests_per_unit: 999}", false},
		{"", fmt.Sprintf(limits, large, ", algorithm: leaky_queue"), false},
		{"consistency: exact", fmt.Sprintf(limits, large, ""), false},
		{"hot_keys: coalesce", fmt.Sprintf(limits, large, ""), false},
		{"consistency: synced", fmt.Sprintf(limits, large, ""), false},
		{"consistency: local", fmt.Sprintf(limits, large, ""), false},
		{"sensitive: true", fmt.Sprintf(limits, large, ""), false},
		{"sensitive: true, hot_keys: lease", fmt.Sprintf(limits, large, ""), true},
		{"hot_keys: lease", fmt.Sprintf(limits, 5, ""), true},
		{"remember_denials: false", fmt.Sprintf(limits, large, ""), false},
		{"sub_buckets: 8", fmt.Sprintf(limits, large, ""), false},
		{"on_change: reset", fmt.Sprintf(limits, large, ""), false},
		{"concurrency: 20", fmt.Sprintf(limits, large, ""), false},
		{"ban: {after: 5, within: 1m, for: 1m}", fmt.Sprintf(limits, large, ""), false},
		{"", "limits: [{unit: second, requests_per_unit: 1000}, {unit: day, requests_per_unit: 9}]", false},
	} {
		text := "domain: d\ndescriptors: [{" + strings.Join(slices.DeleteFunc([]string{"key: k", tt.keys, tt.limit}, func(s string) bool { return s == "" }), ", ") + "}]"
		r := mustLoad(t, text, Options{}).Rules()[0]
		if got := r.LeasesHot(); got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.keys, tt.limit, got, tt.want)
		}
		if got := strings.Contains(describe.Promise(r, 0), "for a hot key"); got != tt.want {
			t.Errorf("%s %s: the promise is %q", tt.keys, tt.limit, describe.Promise(r, 0))
		}
	}
}

func TestPromise(t *testing.T) {
	for _, tt := range []struct {
		keys  string
		nodes int
		want  string
	}{
		{"consistency: exact", 10, "exact: every decision is made in the shared store, so excess 0"},
		{"consistency: leased", 0, "leased: hits that a node takes in advance count as used until its lease ends, so excess 0"},
		{"consistency: leased", 10, "so excess 0; with 10 nodes: store calls per window of 100: about 53"},
		{"consistency: synced", 0, "synced: a node decides by what it saw up to 200ms ago; excess <= min((nodes - 1) x limit, demand x (200ms + delay))"},
		{"consistency: synced", 10, "; with 10 nodes: excess <= 900"},
		{"consistency: synced", 1, "; with 1 node: excess <= 0"},
		{"consistency: local", 10, "; with 10 nodes: 10 of 100 on each, excess <= 0"},
		{"consistency: local", 130, "; with 130 nodes: 1 of 100 on each, excess <= 30"},
		{"consistency: local, local_share: whole", 3, "excess <= (nodes - 1) x limit; with 3 nodes: excess <= 200"},
		{"hot_keys: lease", 0, "and for a hot key hits that a node takes in advance count as used"},
		{"sub_buckets: 8", 0, "denied while fewer than 8 are left"},
	} {
		if got := describe.Promise(modeOf(t, tt.keys), tt.nodes); !strings.Contains(got, tt.want) {
			t.Errorf("%s with %d nodes: %q, want %q in it", tt.keys, tt.nodes, got, tt.want)
		}
	}
	for _, tt := range []struct {
		keys  string
		nodes int
		want  string
	}{
		{"consistency: exact", 0, "without the store: each node lets pass by itself what the limit admits; excess <= (nodes - 1) x limit while the store is away; in a time in which it is there too, excess <= nodes x what the limit admits in the outage"},
		{"failure_mode: open", 10, "admits in the outage; with 10 nodes: excess <= 900 while it is away"},
		{"failure_mode: open_unbounded", 10, "without the store: everything passes"},
		{"failure_mode: closed", 10, "without the store: nothing passes"},
		{"failure_mode: local", 10, "without the store: each node decides alone by limit / nodes, at least 1; excess <= max(0, nodes - limit) while all know who is alive, and a busy node denies early; in a time in which the store is there too, excess <= what all shares together admit in the outage"},
		{"failure_mode: local, local_share: whole", 10, "without the store: each node decides alone by the whole limit; excess <= (nodes - 1) x limit while the store is away; in a time in which it is there too, excess <= nodes x what the limit admits in the outage"},
		{"sensitive: true", 0, "without the store: nothing passes"},
		{"consistency: local", 10, ""},
	} {
		if got := describe.FailurePromise(modeOf(t, tt.keys), tt.nodes); !strings.HasSuffix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s with %d nodes: %q, want %q at its end", tt.keys, tt.nodes, got, tt.want)
		}
	}
	unlimited := mustLoad(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]", Options{}).Rules()[0]
	if got := describe.Promise(unlimited, 10) + describe.FailurePromise(unlimited, 10); got != "" {
		t.Errorf("an unlimited rule promises %q", got)
	}
}

// Excess is what Promise says in words, as a share of the limit.
func TestExcess(t *testing.T) {
	for _, tt := range []struct {
		keys  string
		nodes int
		want  float64
	}{
		{"consistency: exact", 0, 0},
		{"hot_keys: lease", 10, 0},
		{"sub_buckets: 8", 10, 0},
		{"consistency: leased", 10, 0},
		{"consistency: synced", 0, math.Inf(1)},
		{"consistency: synced", 1, 0},
		{"consistency: synced", 10, 9},
		{"consistency: synced", describe.MaxNodes + 1, describe.MaxNodes - 1},
		{"consistency: local", 0, math.Inf(1)},
		{"consistency: local", 10, 0},
		{"consistency: local", 130, 0.3},
		{"consistency: local, local_share: whole", 3, 2},
	} {
		r := modeOf(t, tt.keys)
		if got := describe.Excess(&r.Mode, r.Limits[0].Limit, tt.nodes); got != tt.want {
			t.Errorf("%s with %d nodes: %v, want %v", tt.keys, tt.nodes, got, tt.want)
		}
	}
	nothing := limit.Must(limit.PerMinute(0))
	if got := describe.Excess(&rules.Mode{Consistency: rules.Local}, nothing, 10); got != 0 {
		t.Errorf("of a limit of nothing: %v", got)
	}
}

// 2 x 10 x (1 + ln(100,000 / (2 x 10))) is 190.3.

func TestStoreOfAFile(t *testing.T) {
	set := mustLoad(t, string(corpus(t, "headgate/accepted")["stores"].Data), Options{})
	got := map[string]string{}
	for _, r := range set.Rules() {
		got[r.ID] = r.Mode.Store
	}
	want := map[string]string{"stores.tenant": "home", "stores.burst": "per_second", "stores.near": "", "stores.free": "", "stores.leased": "home"}
	if !maps.Equal(got, want) {
		t.Errorf("stores are %v, want %v", got, want)
	}
}
