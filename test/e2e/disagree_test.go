package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// disagreement is a rule that two nodes have as old and one as new.
type disagreement struct {
	old, new    string // algorithm, quota and, if it is not the quota, burst
	mode        string // consistency; "" is exact
	onChange    string
	asked       int
	least, most int
}

var disagreements = []disagreement{
	{old: "sliding_window 100", new: "gcra 200", asked: 700, least: 100, most: 200},
	{old: "sliding_window 100", new: "token_bucket 120", asked: 500, least: 100, most: 120},
	{old: "fixed_window 100", new: "gcra 110", asked: 500, least: 100, most: 110},
	{old: "sliding_log 100", new: "gcra 1000", asked: 1600, least: 100, most: 1000},
	{old: "gcra 200", new: "sliding_window 100", asked: 700, least: 100, most: 200},
	{old: "sliding_window 1000", new: "gcra 2000", mode: "leased", asked: 4000, least: 500, most: 2000},
	{old: "sliding_window 100", new: "gcra 100 20", asked: 500, least: 20, most: 100},
	{old: "sliding_window 1000", new: "gcra 100", asked: 1600, least: 100, most: 1000},
	{old: "sliding_window 1000", new: "token_bucket 500", asked: 1600, least: 500, most: 1000},
	{old: "fixed_window 100", new: "gcra 50", asked: 300, least: 50, most: 100},
	{old: "sub_windows 100", new: "sliding_window 150", asked: 500, least: 100, most: 150},
	{old: "gcra 100 100", new: "gcra 100 20", asked: 500, least: 20, most: 100},
	// Each begins anew once: the new one without what had passed before it was asked.
	{old: "sliding_window 100", new: "gcra 150", onChange: "reset", asked: 600, least: 100, most: 250},
	{old: "sliding_window 100", new: "sliding_window 200", asked: 600, least: 100, most: 200},
}

// limitText is a limit of a year, in which a bucket refills by next to nothing.
func limitText(limit string) string {
	words := strings.Fields(limit)
	text := fmt.Sprintf("{window: 365d, requests_per_unit: %s, algorithm: %s", words[1], words[0])
	if len(words) > 2 {
		text += ", burst: " + words[2]
	}
	return text + "}"
}

// rulesOf returns the rules of a node that has the old or the new limits.
func rulesOf(isNew bool) string {
	text := "domain: d\ndescriptors:\n"
	for i, d := range disagreements {
		limit := d.old
		if isNew {
			limit = d.new
		}
		text += fmt.Sprintf("- {key: pair%d, rate_limit: %s", i, limitText(limit))
		if d.mode != "" {
			text += ", consistency: " + d.mode
		}
		if d.onChange != "" {
			text += ", on_change: " + d.onChange
		}
		text += "}\n"
	}
	return text
}

// Nodes that disagree on a limit, as in a rolling deploy, go on limiting: no key gets
// more than the largest of the limits, and none less than the smallest.
//
//promise:disagreement-lets-pass
func TestNodesThatDisagree(t *testing.T) {
	t.Parallel()
	for _, memory := range []string{"", "0"} {
		t.Run("denial memory "+memory, func(t *testing.T) {
			redis := testserver.Redis(t, testserver.RedisConfig{})
			var fleet [3]*node
			for i := range fleet {
				args := []string{"--rules", writeRules(t, rulesOf(i == 2)), "--store", redis.URL(), "--store-budget", "10s", "--nodes", "3"}
				if memory != "" {
					args = append(args, "--denial-memory", memory)
				}
				fleet[i] = startNode(t, args...)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for order, next := range map[string]func(int) int{
				"in turn":   func(n int) int { return n % len(fleet) },
				"at random": func(int) int { return random.IntN(len(fleet)) },
			} {
				for i, allowed := range askTogether(t, fleet[:], order, next) {
					if d := disagreements[i]; allowed < d.least || allowed > d.most {
						t.Errorf("2 x %s, %s %s%s, %s: %d of %d allowed, want %d to %d",
							d.old, d.new, d.mode, d.onChange, order, allowed, d.asked, d.least, d.most)
					}
				}
			}
		})
	}
}

// askTogether asks one node after the other about all disagreements in one call, each as
// often as it wants, and returns how many requests of each passed.
func askTogether(t *testing.T, fleet []*node, value string, next func(int) int) []int {
	t.Helper()
	allowed := make([]int, len(disagreements))
	for n := 0; ; n++ {
		var checks []string
		var asked []int
		for i, d := range disagreements {
			if n < d.asked {
				checks, asked = append(checks, body(i, value)), append(asked, i)
			}
		}
		if len(asked) == 0 {
			return allowed
		}
		answers, err := fleet[next(n)].checkAll(checks)
		if err != nil || len(answers) != len(asked) {
			t.Fatalf("%d answers to %v: %v", len(answers), checks, err)
		}
		for i, a := range answers {
			if a.Degraded != "" {
				t.Fatalf("%s: %+v", checks[i], a)
			}
			if a.Allowed {
				allowed[asked[i]]++
			}
		}
	}
}

func body(pair int, value string) string {
	return descriptorOf(fmt.Sprintf("pair%d", pair), value)
}

// askInOrder asks one node after the other and returns how many requests passed.
func askInOrder(t *testing.T, fleet []*node, body string, times int, next func(int) int) int {
	t.Helper()
	allowed := 0
	for i := range times {
		a, err := fleet[next(i)].check(body)
		if err != nil || a.Degraded != "" {
			t.Fatalf("%s: %+v, %v", body, a, err)
		}
		if a.Allowed {
			allowed++
		}
	}
	return allowed
}

// Callers that name limits of different bursts for one key, as services that each have a
// setting of their own, share its count: no more passes than the largest of them allows.
//
//promise:more-than-eight-limits
func TestManyBurstsOfOneKey(t *testing.T) {
	for _, store := range []string{"redis", "memory"} {
		t.Run(store, func(t *testing.T) {
			url := "memory://"
			if store == "redis" {
				url = testserver.Redis(t, testserver.RedisConfig{}).URL()
			}
			n := startNode(t, "--rules", writeRules(t, rulesOf(false)), "--store", url, "--store-budget", "10s")
			for versions := 2; versions <= 8; versions++ {
				allowed, largest := 0, 10*versions
				for i := range 300 {
					const month = 30 * 24 * 60 * 60 * 1000
					a, err := n.check(fmt.Sprintf(`{"key":"user%d","limit":100,"burst":%d,"window_ms":%d,"algorithm":"gcra"}`,
						versions, 10*(1+i%versions), month))
					if err != nil || a.Degraded != "" {
						t.Fatalf("%+v, %v", a, err)
					}
					if a.Allowed {
						allowed++
					}
				}
				if allowed > largest || allowed < 10 {
					t.Errorf("%d bursts: %d of 300 allowed, want 10 to %d", versions, allowed, largest)
				}
			}
		})
	}
}

// A node whose file is changed there and back, with a request in between, goes on
// counting what was used, and nothing else.
func TestToggledFile(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis", "memory"} {
		t.Run(store, func(t *testing.T) {
			url := "memory://"
			if store == "redis" {
				url = testserver.Redis(t, testserver.RedisConfig{}).URL()
			}
			rule := func(limit string) string {
				return "domain: d\ndescriptors:\n- {key: pair0, rate_limit: " + limitText(limit) + "}\n"
			}
			texts := []string{rule("sliding_window 1000"), rule("gcra 100")}
			path := writeRules(t, texts[0])
			n := startNode(t, "--rules", path, "--store", url, "--store-budget", "10s", "--rules-poll", "100ms")
			const toggles = 12
			for i := range toggles {
				if err := replaceFile(path, texts[i%2]); err != nil {
					t.Fatal(err)
				}
				want := []int{1000, 100}[i%2]
				peek := strings.Replace(body(0, "x"), "}]}]}", "}],\"hits\":0}]}", 1)
				if err := n.process.Poll(func() error {
					a, err := n.check(peek)
					if err == nil && a.Limit != want {
						err = fmt.Errorf("the limit is %d, want %d", a.Limit, want)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if a, err := n.check(body(0, "x")); err != nil || !a.Allowed {
					t.Fatalf("request %d: %+v, %v", i+1, a, err)
				}
			}
			// The last limit is the smaller one. A bucket's time is rounded up once when it
			// first becomes hits.
			if allowed := askInOrder(t, []*node{n}, body(0, "x"), 100, func(int) int { return 0 }); allowed < 100-toggles-1 || allowed > 100-toggles+1 {
				t.Errorf("%d more allowed of 100 of which %d were used", allowed, toggles)
			}
		})
	}
}

// replaceFile gives path other contents at one instant.
func replaceFile(path, text string) error {
	fresh := filepath.Join(filepath.Dir(path), "fresh")
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
