package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/eventually"
)

var randomKeys = flag.Int("keys", 200_000, "how many random keys TestCardinality sends")

// cardinalityRules have a rule of each kind that random keys may fall to.
const cardinalityRules = `
domain: api
match: path
descriptors:
- key: user
  rate_limit: {unit: hour, requests_per_unit: 5}
- key: remote_address
  descriptors:
  - key: path
    rate_limit: {name: per-path, unit: minute, requests_per_unit: 10, algorithm: gcra}
- key: log
  shadow_mode: true
  rate_limit: {unit: day, requests_per_unit: 3, algorithm: sliding_log}
- key: hot
  rate_limit: {unit: hour, requests_per_unit: 1}
`

// storeBytes is small, so that the store is full long before the last key.
const storeBytes = 16 << 20

// Bounds of what operators are shown and of what a process remembers, whatever clients
// send. A process that kept so much as 100 bytes of each key would be far beyond
// mostGrowth in the second half of a million keys.
const (
	mostSeries = 3000
	mostShown  = 1 << 20  // bytes of one answer
	mostGrowth = 24 << 20 // bytes of live memory
)

// crowd asks a node about keys, domains and limits that nobody has asked about before.
type crowd struct {
	node *node
	keys int // of one call
}

// One of the strange values that clients may send beside random ones.
var strange = []string{"\x00", "\n# HELP", `"} 1`, "é", "{a=\"b\"}", "<script>", "\u202e", strings.Repeat("long", 50)}

// checks returns the body of one call: a check of each kind in turn, all of other keys.
func (c *crowd) checks(random *rand.Rand) ([]byte, error) {
	type entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	word := func() string { return strconv.FormatUint(random.Uint64(), 36) + strange[random.IntN(len(strange))] }
	rule := func(domain string, entries ...entry) map[string]any {
		return map[string]any{"domain": domain, "descriptors": []any{map[string]any{"entries": entries}}}
	}
	checks := make([]map[string]any, c.keys)
	for i := range checks {
		switch i % 10 {
		case 0:
			checks[i] = rule("api", entry{word(), word()})
		case 1:
			checks[i] = rule(word(), entry{"user", word()})
		case 2:
			checks[i] = map[string]any{"key": word(), "limit": random.IntN(10), "window_ms": 1 + random.IntN(1e9)}
		case 3, 4:
			checks[i] = rule("api", entry{"remote_address", address(random).String()}, entry{"path", word()})
		case 5:
			checks[i] = rule("api", entry{"log", word()})
		case 6:
			checks[i] = rule("api", entry{"hot", strconv.Itoa(random.IntN(10))})
		default:
			checks[i] = rule("api", entry{"user", word()})
		}
		checks[i]["client_ip"], checks[i]["user_agent"] = address(random), word()
	}
	return json.Marshal(map[string]any{"checks": checks})
}

func address(random *rand.Rand) netip.Addr {
	n := random.Uint32()
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// sends asks about n random keys, in several calls at a time.
func (c *crowd) sends(t *testing.T, n int) {
	t.Helper()
	var callers errgroup.Group
	callers.SetLimit(4)
	for call := range n / c.keys {
		callers.Go(func() error { return c.call(rand.New(rand.NewPCG(uint64(n), uint64(call)))) })
	}
	if err := callers.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, c.node.process.Output())
	}
}

func (c *crowd) call(random *rand.Rand) error {
	body, err := c.checks(random)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, "http://headgate/v1/check", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Traceparent", fmt.Sprintf("00-%016x%016x-%016x-01", random.Uint64(), random.Uint64(), random.Uint64()|1))
	resp, err := c.node.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if results := bytes.Count(answer, []byte(`"allowed":`)); resp.StatusCode != http.StatusOK || results != c.keys {
		return fmt.Errorf("%s with %d results: %.500s", resp.Status, results, answer)
	}
	return nil
}

// seen is what an operator sees of a node.
type seen struct {
	series   []string
	live     float64 // bytes that the process had in use after the last collection of garbage
	resident float64
}

func (n *node) seen(t *testing.T) seen {
	t.Helper()
	var s seen
	for line := range strings.Lines(n.scrape(t)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if value == "" {
			series, value, _ = strings.Cut(series, " ")
		}
		s.series = append(s.series, series)
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("series %q: %v", line, err)
		}
		switch series {
		case "go_memstats_next_gc_bytes":
			s.live = number / 2 // garbage is collected when as much has been added
		case "process_resident_memory_bytes":
			s.resident = number
		}
	}
	slices.Sort(s.series)
	return s
}

// TestCardinality: whatever keys, values, domains, limits, addresses, user agents and
// traces clients invent, no series, no list and no memory grows with them.
func TestCardinality(t *testing.T) {
	token, lines, err := adminapi.NewToken("ann", adminapi.Admin, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("tokens:\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, "--rules", writeRules(t, cardinalityRules), "--store", fmt.Sprintf("memory://?max_bytes=%d", storeBytes),
		"--admin-addr", "127.0.0.1:0", "--admin-tokens", tokens, "--dashboard-addr", "127.0.0.1:0")
	c := &crowd{n, 1000}
	c.sends(t, *randomKeys/2)
	// Keys that come again are denied here and there: then the series of denials are there.
	if err := c.call(rand.New(rand.NewPCG(uint64(*randomKeys/2), 0))); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the number of keys of a rule is shown, which is counted in the background", func() bool {
		return strings.Contains(n.scrape(t), `headgate_rule_keys{rule="api.user"}`)
	})
	half := n.seen(t)
	c.sends(t, *randomKeys-*randomKeys/2)
	full := n.seen(t)

	if len(half.series) > mostSeries {
		t.Errorf("%d series after %d keys, want at most %d", len(half.series), *randomKeys/2, mostSeries)
	}
	for _, series := range full.series {
		if _, there := slices.BinarySearch(half.series, series); !there {
			t.Errorf("series %s came with more keys", series)
		}
	}
	if grown := full.live - half.live; grown > mostGrowth {
		t.Errorf("%.1f MiB more in use after the second half of the keys", grown/(1<<20))
	}
	t.Logf("%d keys: %d series, then %d; in use %.1f MiB, then %.1f; resident %.1f MiB, then %.1f", *randomKeys,
		len(half.series), len(full.series), half.live/(1<<20), full.live/(1<<20), half.resident/(1<<20), full.resident/(1<<20))
	for _, path := range []string{"overview", "keys?by=total", "keys?by=denied", "keys?by=total&rule=api.user", "accuracy", "fleet", "events", "events?limit=1000"} {
		answer := n.shown(t, n.at(t, "admin"), adminapi.Prefix+path, token)
		if len(answer) > mostShown || !json.Valid([]byte(answer)) {
			t.Errorf("%s: %d bytes, want at most %d: %.200s", path, len(answer), mostShown, answer)
		}
		t.Logf("%s: %d bytes", path, len(answer))
	}
}
