package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
)

const storedRules = `domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 20}}
  - {key: leased, consistency: leased, rate_limit: {unit: hour, requests_per_unit: 20}}
  - {key: spread, sub_buckets: 2, rate_limit: {unit: hour, requests_per_unit: 20}}
`

// charge uses up hits of a descriptor's bucket in the store.
func charge(t *testing.T, url, text string, hits int64) {
	t.Helper()
	set, err := rules.Load([]rules.File{{Name: "rules.yaml", Data: []byte(storedRules)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
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
	results := make([]store.Result, 1)
	redis.Take(t.Context(), []store.Take{{Key: matched[0].AppendKey(nil, entries, 0), Limit: matched[0].Rule.Limits[0].Limit, Hits: hits}}, results)
	if results[0].Err != nil || !results[0].Allowed {
		t.Fatalf("charge: %+v", results[0])
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
			charge(t, url, "user:u", 3)
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
			show("leased:x", "note   what nodes have leased counts as used")
			show("spread:x", "note   spread over 2 sub-buckets")
		})
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
