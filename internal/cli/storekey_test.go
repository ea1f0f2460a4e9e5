package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/tenant"
)

const storedRules = `domain: d
match: path
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 20}}
  - {key: leased, consistency: leased, rate_limit: {unit: hour, requests_per_unit: 20}}
  - {key: spread, sub_buckets: 2, rate_limit: {unit: hour, requests_per_unit: 20}}
  - {key: guarded, rate_limit: {unit: hour, requests_per_unit: 20}, concurrency: {limit: 5, timeout: 1h}, ban: {after: 3, within: 1h, for: 2h}}
`

// charge does takes on the bucket of one role of a descriptor in the store.
func charge(t *testing.T, url, text string, role rules.Role, takes ...store.Take) {
	t.Helper()
	set := testrules.Load(t, storedRules)
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	matched := set.Domain("d").AppendMatches(nil, entries, time.Now)
	o, err := redisstore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Budget = 2 * time.Second
	redis, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	limits := matched[0].Rule.Limits
	at := slices.IndexFunc(limits, func(l rules.NamedLimit) bool { return l.Role == role })
	for i := range takes {
		takes[i].Key, takes[i].Limit = matched[0].AppendKey(nil, entries, at), limits[at].Limit
	}
	results := make([]store.Result, len(takes))
	redis.Take(t.Context(), takes, results)
	for _, r := range results {
		if r.Err != nil || !r.Allowed {
			t.Fatalf("charge: %+v", r)
		}
	}
}

func TestStoreKeyOnEveryTopology(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(storedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinels := testserver.Sentinel(t, testserver.SentinelConfig{})
	for name, url := range map[string]string{
		"single":   testserver.Redis(t, testserver.RedisConfig{}).URL(),
		"sentinel": "redis+sentinel://" + strings.Join(sentinels.Addrs(), ",") + "/0?master=" + sentinels.Name,
		"cluster":  "redis+cluster://" + strings.Join(testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true}).Addrs(), ","),
	} {
		t.Run(name, func(t *testing.T) {
			charge(t, url, "user:u", rules.Main, store.Take{Hits: 3})
			charge(t, url, "guarded:g", rules.InFlight, store.Take{Hits: 1, Hold: 1}, store.Take{Hits: 1, Hold: 2})
			charge(t, url, "guarded:g", rules.Banning, store.Take{Hits: 2, Op: store.Charge})
			charge(t, url, "guarded:bad", rules.Banning, store.Take{Hits: 3, Op: store.Charge})
			show := func(text string, want ...string) {
				t.Helper()
				var out, errs bytes.Buffer
				code := Run([]string{"store", "key", "--store", url, "--rules", path, "--domain", "d", text}, strings.NewReader(""), &out, &errs)
				if code != 0 {
					t.Fatalf("%s: code %d: %s", text, code, errs.String())
				}
				for _, w := range want {
					if !strings.Contains(out.String(), w) {
						t.Errorf("%s: no %q in\n%s", text, w, out.String())
					}
				}
			}
			show("user:u", "limit  20 per 1h sliding_window", `key    "hg:`, "state  17 of 20 remaining")
			show("user:other", "state  not there: as if unused")
			show("guarded:g", "limit  5 in flight, timeout 1h", "state  2 of 5 slots in use; if not renewed the first ends in 59m",
				"limit  ban for 2h after 3 denials within 1h", "state  2 of 3 denials counted, forgotten in 59m")
			show("guarded:bad", "state  banned for another 1h59m")
			show("leased:x", "note   what nodes have leased counts as used")
			show("spread:x", "note   spread over 2 sub-buckets")
		})
	}
}

// The limit of a tenant is that of its quota, and so is the bucket.
func TestStoreKeyOfATenant(t *testing.T) {
	dir := t.TempDir()
	path, tiersFile := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tiers.yaml")
	const text = "domain: d\nmatch: path\ndescriptors: [{key: tenant, tenant: true, rate_limit: {unit: hour, requests_per_unit: 5}, concurrency: 9}]"
	const tiersText = "tiers: {free: {default: {requests_per_unit: 20, unit: hour}, \"op:x\": {unlimited: true}}}"
	for name, text := range map[string]string{path: text, tiersFile: tiersText} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := testserver.Redis(t, testserver.RedisConfig{}).URL()
	o, err := redisstore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Budget = 2 * time.Second
	redis, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	set, err := rulefile.Load([]rulefile.File{{Name: path, Data: []byte(text)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tiers, err := tierfile.Load(tiersFile)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: redis, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account(nil))))
	request := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "tenant", Value: "acme"}}, Hits: 3}}}
	if err := limiter.Check(t.Context(), []headgate.Request{request}, make([]headgate.Response, 1)); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := Run([]string{"store", "key", "--store", url, "--rules", path, "--tiers", tiersFile, "--domain", "d", "tenant:acme,op:x"}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	for _, want := range []string{"limit  20 per 1h sliding_window", "source tier, tier free", "state  17 of 20 remaining", "9 in flight", "unlimited: nothing is stored"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// What a state means depends on the instant at which it was read, and on the limit.
func TestStateText(t *testing.T) {
	const now = limit.Micros(1_780_315_200_000_000)
	slots := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 2, Period: time.Minute})
	ban := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Hour})
	in := func(seconds int64) int64 { return int64(now) + seconds*1_000_000 }
	for want, c := range map[string]struct {
		limit *limit.Limit
		state limit.State
	}{
		"3 of 2 slots in use; if not renewed the first ends in 5s, the last in 50s":    {slots, limit.State{Kind: 9, Wide: []int64{in(-1), 1, in(5), 2, in(6), 3, in(50), 4}}},
		"1 of 2 slots in use; if not renewed the first ends in 1m0s, the last in 1m0s": {slots, limit.State{Kind: 9, Wide: []int64{in(3600), 1}}},
		"none of 2 slots in use":                   {slots, limit.State{Kind: 9, Wide: []int64{in(0), 1}}},
		"1 of 3 denials counted, forgotten in 55s": {ban, limit.State{Kind: 10, A: in(-5), B: 1}},
		"banned for another 2s":                    {ban, limit.State{Kind: 10, C: in(2)}},
		"none of 3 denials counted":                {ban, limit.State{Kind: 10, C: in(0)}},
		"20 of 20 remaining, reset in 0s":          {limit.Must(limit.PerHour(20)), limit.State{}},
	} {
		if got := stateText(c.limit, c.state, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStoreKeyNeedsARedis(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(storedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"memory://":           "inside its process",
		"memcached://h":       "shows keys of Redis",
		"redis+cluster://h/3": "only database 0",
	} {
		var out, errs bytes.Buffer
		code := Run([]string{"store", "key", "--store", url, "--rules", path, "--domain", "d", "user:u"}, strings.NewReader(""), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "headgate: hint: ") {
			t.Errorf("%s: code %d, %q, want %q", url, code, errs.String(), want)
		}
	}
}
