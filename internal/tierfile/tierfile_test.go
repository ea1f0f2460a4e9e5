package tierfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// platform are the tiers of the worked example.
const platform = `
tiers:
  free: {default: [{requests_per_unit: 100, unit: minute}, {requests_per_unit: 1000, unit: hour}]}
  pro:
    default: [{requests_per_unit: 1000, unit: minute}, {requests_per_unit: 50000, unit: hour, name: hourly}]
    "endpoint:POST /v1/orders": {requests_per_unit: 50, unit: 90s, algorithm: token_bucket, burst: 90}
  enterprise:
    default: {requests_per_unit: 10000, unit: minute}
    endpoint:GET /v1/status: {unlimited: true}
  custom: {}
`

func TestI1Tiers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiers.yaml")
	if err := os.WriteFile(path, []byte(platform), 0o600); err != nil {
		t.Fatal(err)
	}
	tiers, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tiers.Names(), " "); got != "custom enterprise free pro" || tiers.Fallback() != "free" {
		t.Errorf("tiers %s, fallback %s", got, tiers.Fallback())
	}
	free, pro := tiers.Tier("free").Quotas, tiers.Tier("pro").Quotas
	if l := free[tenant.Default].Limits; len(l) != 2 || l[0].Quota != 100 || l[0].Period != time.Minute || l[1].Quota != 1000 || l[1].Period != time.Hour {
		t.Errorf("free: %+v", l)
	}
	orders := pro["endpoint:POST /v1/orders"].Limits[0]
	if orders.Algorithm != limit.TokenBucket || orders.Burst != 90 || orders.Period != 90*time.Second {
		t.Errorf("orders of pro: %+v", orders)
	}
	if name := pro[tenant.Default].Limits[1].Name; name != "hourly" {
		t.Errorf("the hour of pro is called %q", name)
	}
	if !tiers.Tier("enterprise").Quotas["endpoint:GET /v1/status"].Unlimited() {
		t.Error("enterprise has a limit on status")
	}
}

func TestLoadChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiers.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tiers: {free: {default: {requests_per_unit: 1, unit: minute}}}")
	tiers, text, err := LoadChanged(path, nil)
	if err != nil || !tiers.Has("free") {
		t.Fatalf("%v, %v", tiers, err)
	}
	if name := tiers.Tier("free").Quotas[tenant.Default].Limits[0].Name; name != "default/minute" {
		t.Errorf("a limit without a name is called %q", name)
	}
	if again, same, err := LoadChanged(path, text); again != nil || string(same) != string(text) || err != nil {
		t.Errorf("unchanged: %v, %q, %v", again, same, err)
	}
	write("tiers: {free: {}, pro: {}}")
	if tiers, _, err := LoadChanged(path, text); err != nil || !tiers.Has("pro") {
		t.Errorf("changed: %v, %v", tiers, err)
	}
	write("tiers: {free: {}, pro: 7}")
	if tiers, _, err := LoadChanged(path, text); tiers != nil || err == nil || !strings.Contains(err.Error(), path+":1:24: ") {
		t.Errorf("broken: %v, %v", tiers, err)
	}
}

func TestParseRefuses(t *testing.T) {
	one := func(quota string) string { return "tiers:\n  free:\n    default: " + quota + "\n" }
	for text, want := range map[string]string{
		"":          "no tiers",
		"[]":        "line 1: ",
		"{":         "line 2: ",
		"tier: {}":  "line 1: ",
		"tiers: []": "line 1: ",
		"tiers: {}": "no tiers",
		"tiers: {pro: {default: {unlimited: true}}}":                                           "no tier free",
		"tiers: {free: {}, free: {}}":                                                          "line 1: ",
		one("{}"):                                                                              "line 3: no requests_per_unit",
		one("[]"):                                                                              "line 3: a quota without limits",
		one("{requests_per_unit: 1}"):                                                          "line 3: no unit",
		one("{requests_per_unit: -1, unit: minute}"):                                           "line 3: limit: quota -1 is negative",
		one("{requests_per_unit: 1, unit: fortnight}"):                                         `line 3: unit "fortnight"`,
		one("{requests_per_unit: 1, unit: 367d}"):                                              "line 3: unit",
		one("{requests_per_unit: 1, unit: minute, algorithm: best}"):                           "line 3: unknown algorithm",
		one("{requests_per_unit: 1, unit: minute, algorithm: ban}"):                            "line 3: algorithm ban",
		one("{requests_per_unit: 1, unit: minute, burst: 2}"):                                  "line 3: limit: burst",
		one("{requests_per_unit: one, unit: minute}"):                                          "line 3: ",
		one("{requests_per_unit: 1, per: minute}"):                                             "line 3: ",
		one("{requests_per_unit: 1, unlimited: true}"):                                         "line 3: unlimited stands alone",
		one("[{unlimited: true}, {requests_per_unit: 1, unit: minute}]"):                       "line 3: unlimited stands alone",
		one("[{requests_per_unit: 1, unit: minute}, {requests_per_unit: 2, unit: minute}]"):    "line 3: limit 1: a second",
		"tiers:\n  free:\n    orders: {unlimited: true}":                                       "line 3: tier free: ",
		"tiers:\n  free:\n    default: {unlimited: true}\n    \"\": {unlimited: true}":         "tier free: a second quota of default",
		"tiers: {\"a b\": {default: {unlimited: true}}, free: {default: {unlimited: true}}}":   "tier: name",
		"fallback: gold\ntiers: {free: {default: {unlimited: true}}}":                          "no tier gold",
		"a: &a [x]\ntiers: {free: {default: *a}}":                                              "",
		"tiers: {free: {default: {requests_per_unit: 99999999999999999999999, unit: minute}}}": "line 1: ",
	} {
		tiers, err := Parse([]byte(text))
		if err == nil {
			t.Errorf("%s: accepted as %+v", text, tiers)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, want %q", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "tiers.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "read tiers") {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("#"+strings.Repeat("x", maxBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(platform)
	f.Add("tiers: {free: {burst_pool: {requests_per_unit: 5, unit: hour, per_key: {entry: k, requests_per_unit: 1}}}}")
	f.Fuzz(func(t *testing.T, text string) {
		tiers, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, name := range tiers.Names() {
			for _, q := range tiers.Tier(name).Quotas {
				if err := q.Validate(); err != nil {
					t.Errorf("tier %s: %v", name, err)
				}
			}
			if p := tiers.Tier(name).Pool; p != nil && p.Validate() != nil {
				t.Errorf("tier %s: %v", name, p.Validate())
			}
		}
	})
}

func TestI5BurstPools(t *testing.T) {
	tiers, err := Parse([]byte(`
tiers:
  free: {burst_pool: {requests_per_unit: 50, unit: minute}}
  pro:
    default: {requests_per_unit: 1000, unit: minute}
    burst_pool: {name: spare, requests_per_unit: 500, unit: hour, algorithm: token_bucket, burst: 900, per_key: {entry: api_key, requests_per_unit: 100}}
  none: {}
`))
	if err != nil {
		t.Fatal(err)
	}
	if p := tiers.Tier("free").Pool; p.Quota != 50 || p.Period != time.Minute || p.Algorithm != limit.SlidingWindow || p.Name != "burst_pool" || p.PerKey != nil {
		t.Errorf("free: %+v", p)
	}
	p := tiers.Tier("pro").Pool
	if p.Quota != 500 || p.Period != time.Hour || p.Burst != 900 || p.Name != "spare" {
		t.Errorf("pro: %+v", p)
	}
	if k := p.PerKey; k.Entry != "api_key" || k.Quota != 100 || k.Period != time.Hour || k.Algorithm != limit.TokenBucket || k.Name != "spare/key" {
		t.Errorf("a key of pro: %+v", k)
	}
	if tiers.Tier("none").Pool != nil || len(tiers.Tier("pro").Quotas) != 1 {
		t.Error("a pool that nobody has written, or one that is a quota")
	}
	one := func(pool string) string { return "tiers:\n  free:\n    burst_pool: " + pool + "\n" }
	for text, want := range map[string]string{
		one("7"):                      "line 3: ",
		one("[]"):                     "line 3: ",
		one("~"):                      "line 3: burst_pool: no requests_per_unit",
		one("{requests_per_unit: 1}"): "line 3: burst_pool: no unit",
		one("{requests_per_unit: 1, unit: hour, algorithm: ban}"):                                          "line 3: burst_pool: algorithm ban",
		one("{unlimited: true}"):                                                                           "line 3: ",
		one("{requests_per_unit: 1, unit: hour, per_key: {requests_per_unit: 1}}"):                         "line 3: burst_pool: per key: entry of 0 bytes",
		one("{requests_per_unit: 1, unit: hour, per_key: {entry: k}}"):                                     "line 3: burst_pool: per_key: no requests_per_unit",
		one("{requests_per_unit: 1, unit: hour, per_key: {entry: k, requests_per_unit: -1}}"):              "line 3: burst_pool: per_key: limit: quota",
		one("{requests_per_unit: 1, unit: hour, per_key: {entry: k, requests_per_unit: 1, unit: minute}}"): "line 3: ",
		one("{requests_per_unit: 1, unit: hour}\n    burst_pool: {requests_per_unit: 1, unit: hour}"):      "line ",
	} {
		if tiers, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", text, tiers, err, want)
		}
	}
}

// A tier may name the store of its tenants, which is none of its descriptors.
func TestStoreOfATier(t *testing.T) {
	tiers, err := Parse([]byte("tiers:\n  free: {default: {requests_per_unit: 1, unit: minute}}\n  own:\n    store: acme\n    default: {requests_per_unit: 9, unit: minute}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if own := tiers.Tier("own"); own.Store != "acme" || len(own.Quotas) != 1 || tiers.Tier("free").Store != "" {
		t.Errorf("%+v", own)
	}
	for text, want := range map[string]string{"[acme]": "line 1: ", "'a b'": "tier free: store: "} {
		if _, err := Parse([]byte("tiers: {free: {store: " + text + "}}")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("store: %s: %v", text, err)
		}
	}
}
