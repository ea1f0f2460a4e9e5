package storefile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
)

var usual = config.StoreTuning{Budget: 20 * time.Millisecond, BreakerFailures: 3, BreakerRatio: 0.5, BreakerSlow: 7 * time.Millisecond, BreakerPause: time.Second}

func load(t *testing.T, text string) ([]Store, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stores.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, usual)
}

func TestStoresOfAFile(t *testing.T) {
	got, err := load(t, `
stores:
  near: {url: redis://near:6379/0}
  home:
    url: "rediss://u:hunter2@home:6380/0?prefix=home:"
    budget: 300ms
    breaker: {failures: 5, ratio: 0.25, slow: 200ms, pause: 2s}
  far: {url: memcached://far:11211, budget: 1s}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Store{
		{"far", config.NewStoreURL("memcached://far:11211"), config.StoreTuning{Budget: time.Second, BreakerFailures: 3, BreakerRatio: 0.5, BreakerPause: time.Second}},
		{"home", config.NewStoreURL("rediss://u:hunter2@home:6380/0?prefix=home:"), config.StoreTuning{Budget: 300 * time.Millisecond, BreakerFailures: 5, BreakerRatio: 0.25, BreakerSlow: 200 * time.Millisecond, BreakerPause: 2 * time.Second}},
		{"near", config.NewStoreURL("redis://near:6379/0"), usual},
	}
	if len(got) != len(want) {
		t.Fatalf("%d stores: %v", len(got), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("store %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if text := fmt.Sprintf("%v %+v", got, got); strings.Contains(text, "hunter2") {
		t.Errorf("the password is in %s", text)
	}
}

// The example of the documentation is a file of stores.
func TestExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\nstores:\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/operations.md has no example")
	}
	stores, err := load(t, "stores:\n"+text)
	if err != nil || len(stores) != 2 || stores[0].Name != "acme" || stores[1].Name != "home" || stores[1].Budget != 300*time.Millisecond {
		t.Errorf("%+v, %v", stores, err)
	}
}

func TestBadFiles(t *testing.T) {
	many := "stores:\n"
	for i := range maxStores + 1 {
		many += fmt.Sprintf("  s%d: {url: redis://h:1}\n", i)
	}
	for text, want := range map[string]string{
		"":                                    "no stores; hint: stores: {home:",
		"stores: {}":                          "no stores",
		many:                                  "15 stores; hint: at most 14",
		"stores: {Home: {url: redis://h:1}}":  `store Home: name "Home"; hint: a lower-case letter`,
		"stores: {store: {url: redis://h:1}}": "store store: the name is taken",
		"stores: {per_second: {url: redis://h:1}}":                                         "store per_second: the name is taken",
		"stores: {a: {}}":                                                                  "store a: url: no store is named",
		"stores: {a: {url: memory://}}":                                                    "store a: url: a memory store counts in this process alone",
		"stores: {a: {url: http://u:hunter2@h}}":                                           "store a: url: unknown kind of store",
		"stores: {a: {url: h:6379}}":                                                       "hint: redis://",
		"stores: {a: {url: redis://h:1, budget: 11s}}":                                     "store a: budget: 11s is out of range; hint: from 1ms to 10s",
		"stores: {a: {url: redis://h:1, budget: -1s}}":                                     "budget: -1s is out of range",
		"stores: {a: {url: redis://h:1, budget: 300}}":                                     "stores.yaml:1:40: budget: a whole number is not a duration",
		"stores: {a: {url: redis://h:1, breaker: {failures: -1}}}":                         "breaker: failures: -1 is out of range",
		"stores: {a: {url: redis://h:1, breaker: {ratio: 2}}}":                             "breaker: ratio: 2 is out of range; hint: above 0, up to 1",
		"stores: {a: {url: redis://h:1, breaker: {slow: 1h}}}":                             "breaker: slow: 1h0m0s is out of range",
		"stores: {a: {url: redis://h:1, breaker: {pause: 1ms}}}":                           "breaker: pause: 1ms is out of range",
		"stores: {a: {url: redis://h:1, weight: 2}}":                                       "stores.yaml:1:32: unknown key; hint: there is url, budget, breaker",
		"stores:\n  a: {url: redis://h:1}\n  a: {url: redis://h:2}":                        "stores.yaml:3:3: a key is there twice",
		"stores: {a: {url: redis://h:1}}\n---\nstores: {}":                                 "more than one document",
		"stores: {a: {url: redis://h:1, budget: 11s}, b: {url: redis://h:1, budget: -1s}}": "store b: budget",
		"stores: {a: {url: [redis://u:hunter2@h:1]}}":                                      "stores.yaml:1:19: url: a list is not text",
		"stores: {a: {url: 'redis://u:hunter2@h:1/%zz'}}":                                  "store a: url: not a URL",
		"stores: {a: {url: redis://h:1, budget: soon}}":                                    "stores.yaml:1:40: budget: text is not a duration",
	} {
		stores, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, %v; want %q", text, stores, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "stores.yaml") {
			t.Errorf("%q: %v does not name the file", text, err)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), usual); err == nil {
		t.Error("a file that is not there")
	}
}

// Nothing that a file holds makes it panic, or shows in an error.
func FuzzParse(f *testing.F) {
	f.Add("stores: {home: {url: redis://h:1, budget: 300ms, breaker: {failures: 5, ratio: 0.5, slow: 200ms, pause: 2s}}}")
	f.Add("stores: {a: {url: memcached://h:1}, b: null}")
	f.Fuzz(func(t *testing.T, text string) {
		stores, err := parse([]byte(text), usual)
		if err != nil {
			return
		}
		for _, s := range stores {
			if s.URL.CheckAs("url") != nil || s.Check() != nil || s.Budget == 0 {
				t.Errorf("%q: %+v", text, s)
			}
		}
	})
}
