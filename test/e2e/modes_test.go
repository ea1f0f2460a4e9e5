package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

const modeRules = `
domain: d
match: path
descriptors:
- {key: leased, consistency: leased, rate_limit: {window: 365d, requests_per_unit: 6000, algorithm: fixed_window}}
- {key: own, consistency: local, rate_limit: {window: 365d, requests_per_unit: 90, algorithm: fixed_window}}
- {key: few, rate_limit: {window: 365d, requests_per_unit: 10, algorithm: fixed_window}}
- {key: falls, failure_mode: local, rate_limit: {window: 365d, requests_per_unit: 90, algorithm: fixed_window}}
`

func writeRules(t *testing.T, text string) string {
	t.Helper()
	return writeFile(t, "rules.yaml", text)
}

// writeFile returns the path of a new file of that name.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startFleet starts three nodes on one Redis and waits until each knows of the
// others: by --nodes, which is 0 for the heartbeat.
func startFleet(t *testing.T, redis *testserver.RedisServer, nodes int) [3]*node {
	t.Helper()
	args := []string{"--rules", writeRules(t, modeRules), "--store", redis.URL(), "--store-budget", "10s", "--nodes", strconv.Itoa(nodes)}
	var fleet [3]*node
	for i := range fleet {
		fleet[i] = startNode(t, args...)
	}
	for _, n := range fleet {
		if err := n.process.Poll(func() error {
			if live := n.metric(t, "headgate_nodes_live"); live != float64(len(fleet)) {
				return fmt.Errorf("%v nodes live", live)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return fleet
}

// metric returns the value of one series of the node; 0 if there is none.
func (n *node) metric(t *testing.T, series string) float64 {
	t.Helper()
	for line := range strings.Lines(n.scrape(t)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	return 0
}

var scriptCalls = regexp.MustCompile(`cmdstat_(?:evalsha|eval|fcall):calls=(\d+)`)

// calls returns how many scripts Redis has run.
func calls(t *testing.T, redis *testserver.RedisServer) int {
	t.Helper()
	total := 0
	for _, found := range scriptCalls.FindAllStringSubmatch(redis.MustDo("INFO", "commandstats").(string), -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

// load asks each node that often about one key, by several callers at a time,
// and returns how many passed and how many answers were not what they should be.
func load(fleet []*node, key string, callers, asks int) (admitted, wrong int64) {
	body := `{"domain":"d","descriptors":[{"entries":[{"key":"` + key + `","value":"1"}]}]}`
	var passed, bad atomic.Int64
	var wg sync.WaitGroup
	for _, n := range fleet {
		for range callers {
			wg.Go(func() {
				for range asks {
					a, err := n.check(body)
					switch {
					case err != nil || a.Degraded != "" || a.Allowed != (a.Status == http.StatusOK):
						bad.Add(1)
					case a.Allowed:
						passed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return passed.Load(), bad.Load()
}

// Three processes lease from one Redis: nothing over the limit, and far fewer
// calls than decisions.
func TestD2LeasedFleet(t *testing.T) {
	t.Parallel()
	const quota, callers, asks = 6000, 8, 400
	redis := testserver.Redis(t, testserver.RedisConfig{})
	fleet := startFleet(t, redis, 3)
	before := calls(t, redis)
	admitted, wrong := load(fleet[:], "leased", callers, asks)
	made := calls(t, redis) - before
	decisions := len(fleet) * callers * asks
	t.Logf("%d decisions, %d admitted of %d, %d script calls, %.4f for each decision", decisions, admitted, quota, made, float64(made)/float64(decisions))
	if admitted > quota || wrong != 0 {
		t.Errorf("%d admitted, %d degraded or failed; want at most %d, 0", admitted, wrong, quota)
	}
	// How little is lost is measured in virtual time (package lease); here a busy
	// machine may let leases end unused, which is told.
	unused := 0.0
	for _, n := range fleet {
		unused += n.metric(t, "headgate_lease_hits_expired_total") + n.metric(t, "headgate_lease_hits_held")
	}
	if float64(admitted)+unused < quota*9/10 {
		t.Errorf("%d admitted of %d, %v leased and not used: more than a tenth is missing", admitted, quota, unused)
	}
	if made*10 > decisions {
		t.Errorf("%d calls for %d decisions, want less than a tenth", made, decisions)
	}
}

// What a node has leased and not used is there for the others when it ends.
func TestE6DrainReturnsLeases(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	// A busy machine may let leases end before they are given back. Not each time.
	const rounds = 5
	for range rounds {
		if drainReturns(t, redis) {
			return
		}
		redis.MustDo("FLUSHALL")
	}
	t.Errorf("what was leased did not come back in any of %d rounds", rounds)
}

// drainReturns reports whether all that two nodes had leased and not used when they
// ended was there for a third one.
func drainReturns(t *testing.T, redis *testserver.RedisServer) bool {
	t.Helper()
	const quota, first = 6000, 500
	fleet := startFleet(t, redis, 3)
	used, wrong := load(fleet[:2], "leased", 1, first)
	if used != 2*first || wrong != 0 {
		t.Fatalf("%d of %d admitted, %d degraded or failed", used, 2*first, wrong)
	}
	held := fleet[0].metric(t, "headgate_lease_hits_held") + fleet[1].metric(t, "headgate_lease_hits_held")
	for _, n := range fleet[:2] {
		n.process.Terminate()
	}
	rest, wrong := load(fleet[2:], "leased", 8, quota/8)
	unused := fleet[2].metric(t, "headgate_lease_hits_expired_total") + fleet[2].metric(t, "headgate_lease_hits_held")
	fleet[2].process.Terminate()
	if used+rest > quota || wrong != 0 {
		t.Fatalf("%d and %d of %d admitted, %d degraded or failed", used, rest, quota, wrong)
	}
	t.Logf("%d and %d of %d admitted; %v were held, %v not used at last", used, rest, quota, held, unused)
	return held > 0 && float64(used+rest)+unused == quota
}

// Nodes that decide alone have a third of the limit each, and ask nobody.
//
//promise:local
func TestD4LocalShares(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	fleet := startFleet(t, redis, 0)
	before := calls(t, redis)
	if admitted, wrong := load(fleet[:], "own", 1, 60); admitted != 90 || wrong != 0 {
		t.Errorf("%d admitted, %d degraded or failed; want 90, 0", admitted, wrong)
	}
	// Heartbeats and probes go on; each of the 90 would have been a call.
	if made := calls(t, redis) - before; made >= 90 {
		t.Errorf("%d calls for a rule that asks nobody", made)
	}
}

// A denial is remembered: who knocks on costs the store nothing.
func TestD5DenialsCostNoCalls(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	n := startNode(t, "--rules", writeRules(t, modeRules), "--store", redis.URL(), "--store-budget", "10s")
	load([]*node{n}, "few", 1, 20)
	before := calls(t, redis)
	if admitted, wrong := load([]*node{n}, "few", 4, 250); admitted != 0 || wrong != 0 {
		t.Errorf("%d admitted, %d degraded or failed", admitted, wrong)
	}
	if made := calls(t, redis) - before; made > 50 {
		t.Errorf("%d calls for 1000 denials", made)
	}
	if answered := n.metric(t, "headgate_denials_answered_total"); answered < 900 {
		t.Errorf("%v denials answered from memory, want nearly 1000", answered)
	}
}

// With Redis gone, each node goes on with its share of the limit, and says so.
//
//promise:away-local
func TestE1FallbackSharesTheLimit(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	fleet := startFleet(t, redis, 3)
	redis.Kill()
	body := `{"domain":"d","descriptors":[{"entries":[{"key":"falls","value":"1"}]}]}`
	admitted := 0
	for _, n := range fleet {
		for range 60 {
			a, err := n.check(body)
			if err != nil || a.Degraded == "" || a.Allowed != (a.Status == http.StatusOK) || !a.Allowed && a.Status != http.StatusTooManyRequests {
				t.Fatalf("%+v, %v", a, err)
			}
			if a.Allowed {
				admitted++
			}
		}
	}
	if admitted != 90 {
		t.Errorf("%d admitted without the store, want 90", admitted)
	}
}
