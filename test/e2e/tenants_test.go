package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

const (
	tenantRules = `
domain: api
match: path
descriptors:
  - key: tenant
    tenant: true
    rate_limit: {unit: minute, requests_per_unit: 5}
`
	tenantTiers = `
tiers:
  free: {default: {requests_per_unit: 100, unit: minute}}
  pro: {default: {requests_per_unit: 1000, unit: minute}}
`
)

// tenancy is a database of tenants, a Redis, and the files of nodes that use them.
type tenancy struct {
	t            *testing.T
	database     *testserver.PostgresServer
	redis        *testserver.RedisServer
	rules, tiers string
}

func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	dir := t.TempDir()
	y := &tenancy{
		t: t, database: testserver.Postgres(t), redis: testserver.Redis(t, testserver.RedisConfig{}),
		rules: filepath.Join(dir, "rules.yaml"), tiers: filepath.Join(dir, "tiers.yaml"),
	}
	y.write(y.rules, tenantRules)
	y.write(y.tiers, tenantTiers)
	return y
}

func (y *tenancy) write(path, text string) {
	y.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		y.t.Fatal(err)
	}
}

// args are those of a node.
func (y *tenancy) args(more ...string) []string {
	return append([]string{
		"--rules", y.rules, "--tiers", y.tiers, "--tenants", y.database.DSN, "--store", y.redis.URL(),
		"--store-budget", "10s", "--rules-poll", "100ms", "--drain-delay", "0s",
	}, more...)
}

// quota runs `headgate quota` in a process of its own.
func (y *tenancy) quota(args ...string) (string, error) {
	y.t.Helper()
	return y.command(append([]string{"quota"}, args...)...)
}

// command runs a command of headgate in a process of its own.
func (y *tenancy) command(args ...string) (string, error) {
	y.t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		y.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "HEADGATE_TENANTS="+y.database.DSN)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (y *tenancy) set(args ...string) {
	y.t.Helper()
	if out, err := y.quota(append([]string{"set"}, args...)...); err != nil {
		y.t.Fatalf("quota set %q: %v\n%s", args, err, out)
	}
}

// limitOf returns the limit that n counts a tenant by.
func (n *node) limitOf(name string, hits int) (int64, error) {
	body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"tenant","value":%q}],"hits":%d}]}`, name, hits)
	resp, err := n.client.Post("http://headgate/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var a struct {
		Limit    int64  `json:"limit"`
		Degraded string `json:"degraded"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK || a.Degraded != "" {
		return 0, fmt.Errorf("%s: degraded %q", resp.Status, a.Degraded)
	}
	return a.Limit, nil
}

// becomes waits until n counts a tenant by a limit.
func (n *node) becomes(t *testing.T, name string, limit int64) {
	t.Helper()
	n.until(t, func() error {
		got, err := n.limitOf(name, 0)
		if err == nil && got != limit {
			err = fmt.Errorf("the limit of %s is %d, want %d", name, got, limit)
		}
		return err
	})
}

// until asks about n until there is no error.
func (n *node) until(t *testing.T, met func() error) {
	t.Helper()
	if err := n.process.Poll(met); err != nil {
		t.Fatal(err)
	}
}

// Three processes, one PostgreSQL and one Redis: what a fourth process changes is in
// force on all of them; the distribution is printed. An override that ends gives the
// tier back, and tiers change with their file.
//
//promise:multi-tenant
func TestI2FleetHearsOfQuotas(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	fleet := []*node{startNode(t, y.args()...), startNode(t, y.args()...), startNode(t, y.args()...)}
	for _, n := range fleet {
		n.becomes(t, "acme", 100)
	}
	y.set("tenant:later", "--tier", "pro")
	y.set("tenant:later", "--quota", "default=7/minute", "--from", "now", "--until", "20s")
	for _, n := range fleet {
		n.becomes(t, "later", 7)
	}

	var took []time.Duration
	for i := range 20 {
		quota := int64(1000 + i)
		y.set("tenant:acme", "--quota", fmt.Sprintf("default=%d/minute", quota))
		written := time.Now()
		for _, n := range fleet {
			n.becomes(t, "acme", quota)
		}
		took = append(took, time.Since(written))
	}
	slices.Sort(took)
	t.Logf("in force on 3 nodes after `quota set` has returned: median %v, 18 of 20 within %v, most %v", took[10], took[17], took[19])

	for _, n := range fleet {
		n.becomes(t, "later", 1000)
	}
	y.write(y.tiers, strings.Replace(tenantTiers, "1000", "2000", 1))
	for _, n := range fleet {
		n.becomes(t, "later", 2000)
	}
	y.write(y.tiers, "tiers: {pro: {}}")
	if out, err := y.quota("delete", "tenant:acme"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, n := range fleet {
		n.becomes(t, "acme", 100)
		n.becomes(t, "later", 2000)
	}
}

// While PostgreSQL is away decisions are as before and changes are refused; when it
// is back so are changes. A process that starts meanwhile decides by what was kept,
// and one that has kept nothing gets no traffic until it knows.
func TestE7TenantsWithoutTheirDatabase(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	kept := filepath.Join(t.TempDir(), "accounts.jsonl")
	y.set("tenant:acme", "--quota", "default=700000/minute")
	n := startNode(t, y.args("--tenants-file", kept)...)
	n.becomes(t, "acme", 700000)
	n.until(t, func() error { _, err := os.Stat(kept); return err })

	load := under(n, "acme", 700000)
	y.database.Kill()
	load.more(t, 300)
	out, err := y.quota("set", "tenant:acme", "--quota", "default=8/minute")
	if err == nil || !strings.Contains(out, "tenants in postgres://127.0.0.1:") || strings.Contains(out, "not-a-real-secret") {
		t.Errorf("quota set without the database: %v: %s", err, out)
	}
	started := startNode(t, y.args("--tenants-file", kept)...)
	started.becomes(t, "acme", 700000)
	blind := launch(t, y.args()...)
	blind.until(t, func() error { return blind.health(http.StatusInternalServerError) })

	y.database.Restart()
	load.more(t, 300)
	load.stop(t)
	blind.until(t, func() error { return blind.health(http.StatusOK) })
	blind.becomes(t, "acme", 700000)
	y.set("tenant:acme", "--quota", "default=800000/minute")
	for _, n := range []*node{n, started, blind} {
		n.becomes(t, "acme", 800000)
	}
	for _, n := range []*node{n, started, blind} {
		if strings.Contains(n.process.Output(), "not-a-real-secret") {
			t.Errorf("the log has the password of the database:\n%s", n.process.Output())
		}
	}
}

// callers ask a node without a pause.
type callers struct {
	asked, wrong atomic.Int64
	problem      atomic.Pointer[string]
	done         chan struct{}
	ending       sync.WaitGroup
}

// under begins to ask n for one hit of a tenant at a time, which must be counted by
// a limit.
func under(n *node, name string, limit int64) *callers {
	c := &callers{done: make(chan struct{})}
	for range 4 {
		c.ending.Go(func() {
			for {
				select {
				case <-c.done:
					return
				default:
				}
				if got, err := n.limitOf(name, 1); err != nil || got != limit {
					text := fmt.Sprintf("limit %d, %v", got, err)
					c.wrong.Add(1)
					c.problem.Store(&text)
				}
				c.asked.Add(1)
			}
		})
	}
	return c
}

// more waits for so many further answers.
func (c *callers) more(t *testing.T, answers int64) {
	t.Helper()
	want := c.asked.Load() + answers
	eventually.True(t, fmt.Sprintf("%d more answers", answers), func() bool { return c.asked.Load() >= want })
}

func (c *callers) stop(t *testing.T) {
	t.Helper()
	close(c.done)
	c.ending.Wait()
	if n := c.wrong.Load(); n > 0 {
		t.Errorf("%d of %d answers were wrong, the last: %s", n, c.asked.Load(), *c.problem.Load())
	}
	t.Logf("%d answers while the database went and came back", c.asked.Load())
}
