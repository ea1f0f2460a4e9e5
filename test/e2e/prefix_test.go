package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// prefixRules use every kind of key that nodes have in a store.
const prefixRules = `domain: d
match: path
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 4}}
- {key: log, rate_limit: {unit: hour, requests_per_unit: 4, algorithm: sliding_log}}
- {key: leased, consistency: leased, rate_limit: {unit: hour, requests_per_unit: 1000000}}
- {key: synced, consistency: synced, rate_limit: {unit: hour, requests_per_unit: 1000000}}
- {key: spread, sub_buckets: 4, rate_limit: {unit: hour, requests_per_unit: 1000000}}
- {key: slots, concurrency: 10}
`

// Two fleets of two nodes share one Redis and do not meet: each has its counts, its nodes
// and its switches under its own prefix. Their users of Redis may touch nothing else, so
// that whatever did would not be decided.
func TestTwoFleetsShareARedis(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{Users: []string{
		"user default on nopass ~* &* +@all", "user a on >secret ~shop-a:* +@all", "user b on >secret ~shop-b:* +@all",
	}})
	rules := writeRules(t, prefixRules)
	names := []string{"a", "b"}
	url := func(name string) string {
		return "redis://" + name + ":secret@" + redis.Addr + "/0?prefix=shop-" + name + ":"
	}
	fleets := map[string][2]*node{}
	for _, name := range names {
		args := []string{"--rules", rules, "--store", url(name), "--store-budget", "10s", "--drain-delay", "0s"}
		fleets[name] = [2]*node{startNode(t, args...), startNode(t, args...)}
	}
	for _, name := range names {
		fleet := fleets[name]
		for _, key := range []string{"user", "log"} {
			for i := range 6 {
				ask(t, fleet[i%2], key, i < 4)
			}
		}
		for _, key := range []string{"leased", "synced", "spread", "slots"} {
			for i := range 4 {
				ask(t, fleet[i%2], key, true)
			}
		}
		for _, n := range fleet {
			n.until(t, func() error {
				if live := n.metric(t, "headgate_nodes_live"); live != 2 {
					return fmt.Errorf("%v nodes live", live)
				}
				return nil
			})
		}
	}
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "switch", "set", "all", "off", "--reason", "test", "--store", url("a")).CombinedOutput(); err != nil {
		t.Fatalf("headgate switch: %v\n%s", err, out)
	}
	for _, n := range fleets["a"] {
		n.until(t, func() error {
			a, err := n.check(question("user"))
			if err == nil && !a.Allowed {
				err = fmt.Errorf("not switched off: %+v", a)
			}
			return err
		})
	}
	for _, n := range fleets["b"] {
		ask(t, n, "user", false)
	}
	out, err := exec.Command(path, "store", "key", "--store", url("b"), "--rules", rules, "--domain", "d", "user:x").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `key    "shop-b:`) || !strings.Contains(string(out), "0 of 4 remaining") {
		t.Errorf("headgate store key: %v\n%s", err, out)
	}
	count := func(pattern string) int {
		list, _ := redis.MustDo("KEYS", pattern).([]any)
		return len(list)
	}
	a, b, all := count("shop-a:*"), count("shop-b:*"), count("*")
	if a == 0 || b == 0 || a+b != all {
		t.Errorf("%d keys of one fleet, %d of the other, %d in all", a, b, all)
	}
}

func question(key string) string {
	return `{"domain":"d","descriptors":[{"entries":[{"key":"` + key + `","value":"x"}]}]}`
}

// ask checks how a node decides.
func ask(t *testing.T, n *node, key string, allowed bool) {
	t.Helper()
	a, err := n.check(question(key))
	want := http.StatusOK
	if !allowed {
		want = http.StatusTooManyRequests
	}
	if err != nil || a.Status != want || a.Degraded != "" {
		t.Errorf("%s: %+v, %v, want %d", key, a, err, want)
	}
}
