package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// machineCount is how many machines there are, each with a node and a proxy.
const machineCount = 3

const (
	// slotCount is how many requests may be in flight through all proxies, slotTimeout when the slot of one is free of
	// which nothing was heard.
	slotCount, slotTimeout = 6, 2 * time.Second
	// leasedQuota is of windows that are leased and last longer than the test.
	leasedQuota = 300
	// refillRate and refillBurst are of buckets that are leased: full again two seconds after they were empty.
	refillRate, refillBurst = 60, 120
	// reservedQuota is of the keys that are reserved.
	reservedQuota = 100_000
)

// nodeRules are the rules of nodes; the verb is the quota.
const nodeRules = `
domain: fault
match: path
descriptors:
  - {key: below, failure_mode: closed, consistency: exact, rate_limit: {unit: year, requests_per_unit: %[1]d}}
  - {key: over, failure_mode: closed, consistency: exact, rate_limit: {unit: year, requests_per_unit: %[1]d}}
  - {key: leased, failure_mode: closed, consistency: leased, rate_limit: {unit: year, requests_per_unit: %[2]d, algorithm: fixed_window}}
  - {key: refilled, failure_mode: closed, consistency: leased, rate_limit: {unit: second, requests_per_unit: %[3]d, algorithm: token_bucket, burst: %[4]d}}
  - {key: reserved, failure_mode: closed, consistency: exact, rate_limit: {unit: year, requests_per_unit: %[5]d}}
  - {key: tenant, tenant: true, failure_mode: closed, rate_limit: {unit: year, requests_per_unit: %[1]d}}
`

// proxyRules are the rules of proxies: all requests share the slots.
const proxyRules = `
domain: slots
match: leaf
descriptors:
  - {key: remote_address, failure_mode: closed, concurrency: {limit: %d, timeout: %v}}
`

// machine is a node and a proxy that die together, with a way of their own to Redis.
type machine struct {
	t       *testing.T
	number  int
	way     *testserver.Proxy
	files   machineFiles
	token   string // of who may change quotas
	client  *http.Client
	toAdmin *http.Client
	// life is how often the machine was killed, away whether it is not there now.
	life atomic.Int64
	away atomic.Bool

	node, proxy *testserver.Process
	proxied     string // http://HOST:PORT of the proxy
	nodeArgs    []string
	proxyArgs   []string
}

// machineFiles are the paths of a machine.
type machineFiles struct{ socket, admin, events, state string }

// machineRig is Redis, machines, and the backend of their proxies.
type machineRig struct {
	t        *testing.T
	redis    *testserver.RedisServer
	backend  *backend
	machines []*machine
	database string // URL of the accounts
}

// openMachines starts them.
func openMachines(t *testing.T, budget time.Duration) *machineRig {
	t.Helper()
	// Not t.TempDir: the path of a socket must be short.
	dir, err := os.MkdirTemp("", "hg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token, lines, err := adminapi.NewToken("ann", adminapi.Admin, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	tokens := write("tokens.yaml", "tokens:\n"+lines)
	rules := write("rules.yaml", fmt.Sprintf(nodeRules, quota, leasedQuota, refillRate, refillBurst, reservedQuota))
	slots := write("slots.yaml", fmt.Sprintf(proxyRules, slotCount, slotTimeout))
	r := &machineRig{t: t, redis: testserver.Redis(t, testserver.RedisConfig{}), backend: newBackend(t), database: "sqlite://" + filepath.Join(dir, "accounts.db")}
	for i := range machineCount {
		n := strconv.Itoa(i)
		m := &machine{t: t, number: i, token: token, way: testserver.NewProxy(t, r.redis.Addr), files: machineFiles{
			socket: filepath.Join(dir, "http"+n), admin: filepath.Join(dir, "admin"+n), events: filepath.Join(dir, "events"+n), state: filepath.Join(dir, "state"+n),
		}}
		m.client, m.toAdmin = overSocket(t, m.files.socket), overSocket(t, m.files.admin)
		store := []string{"--store", "redis://" + m.way.Addr, "--store-budget", budget.String(), "--nodes", strconv.Itoa(machineCount)}
		m.nodeArgs = append([]string{"serve", "--http-addr", "unix://" + m.files.socket, "--grpc-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0",
			"--rules", rules, "--tenants", r.database, "--admin-addr", "unix://" + m.files.admin, "--admin-tokens", tokens, "--state-dir", m.files.state,
			"--audit-files", "file://" + m.files.events + "?compress=none", "--audit-sample", "1", "--audit-keys", "plain",
			"--node-name", "n" + n, "--drain-delay", "0s", "--check-id-time", "10m"}, store...)
		m.proxyArgs = append([]string{"proxy", "--to", r.backend.url, "--rules", slots, "--http-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0",
			"--node-name", "p" + n, "--drain-delay", "0s"}, store...)
		t.Cleanup(func() { m.end() })
		m.start()
		r.machines = append(r.machines, m)
	}
	return r
}

// overSocket returns a client of whoever listens on a unix socket.
func overSocket(t *testing.T, path string) *http.Client {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

var proxyReady = regexp.MustCompile(`headgate ready http=(\S+)`)

// start runs both processes, and returns when they serve.
func (m *machine) start() {
	m.t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		m.t.Fatal(err)
	}
	if m.node, err = testserver.StartProcess(exec.Command(path, m.nodeArgs...)); err != nil {
		m.t.Fatal(err)
	}
	if m.proxy, err = testserver.StartProcess(exec.Command(path, m.proxyArgs...)); err != nil {
		m.t.Fatal(err)
	}
	if err := m.node.Poll(func() error { return m.healthy() }); err != nil {
		m.t.Fatalf("start a node: %v", err)
	}
	if err := m.proxy.Poll(func() error {
		found := proxyReady.FindStringSubmatch(m.proxy.Output())
		if found == nil {
			return errors.New("not ready")
		}
		m.proxied = "http://" + found[1]
		return nil
	}); err != nil {
		m.t.Fatalf("start a proxy: %v", err)
	}
	m.away.Store(false)
}

func (m *machine) healthy() error {
	resp, err := m.client.Get("http://headgate/healthcheck")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthcheck: %s, %w", resp.Status, err)
	}
	return nil
}

// kill ends both processes as the end of a machine does, and returns when they are gone.
func (m *machine) kill() {
	var both sync.WaitGroup
	for _, process := range []*testserver.Process{m.node, m.proxy} {
		both.Go(process.Kill)
	}
	both.Wait()
	m.life.Add(1)
	m.away.Store(true)
}

// end ends both processes gently. It may be called more than once.
func (m *machine) end() {
	for _, process := range []*testserver.Process{m.node, m.proxy} {
		if process != nil {
			process.Terminate()
		}
	}
}

// said is what a node answers to a check, a reservation or its settlement.
type said struct {
	Status      int    `json:"-"`
	Allowed     bool   `json:"allowed"`
	Remaining   int64  `json:"remaining"`
	Degraded    string `json:"degraded"`
	Reservation string `json:"reservation"`
	Outcome     string `json:"outcome"`
}

// ask posts a body to a path of the node. An error says that there was no answer, or none that says how it was decided.
// trace is a header traceparent, "" for none.
func (m *machine) ask(path, body, trace string) (a said, err error) {
	err = m.post(path, body, trace, &a)
	return a, err
}

// post is ask into any answer; of a *said it sets the status.
func (m *machine) post(path, body, trace string, into any) error {
	r, err := http.NewRequest(http.MethodPost, "http://headgate"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if trace != "" {
		r.Header.Set("Traceparent", trace)
	}
	resp, err := m.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		return fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %s: %s: %w", path, resp.Status, text, err)
	}
	if a, ok := into.(*said); ok {
		a.Status = resp.StatusCode
	}
	return nil
}

// take takes hits of a key, again until the store itself has answered; degraded is how often it had not.
func (m *machine) take(t *testing.T, key, value string, hits int64) (a said, degraded int64) {
	t.Helper()
	body := fmt.Sprintf(`{"domain":"fault","descriptors":[{"entries":[{"key":%q,"value":%q}],"hits":%d}]}`, key, value, hits)
	eventually.Nil(t, "a node decides", func() error {
		var err error
		if a, err = m.ask("/v1/check", body, ""); err == nil && a.Degraded != "" {
			degraded++
			err = fmt.Errorf("degraded: %s", a.Degraded)
		}
		return err
	})
	return a, degraded
}

// held is how many hits the leases of the node hold.
func (m *machine) held(t *testing.T) int64 {
	t.Helper()
	once := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := once.Get("http://" + m.ops(t) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := heldSeries.FindSubmatch(text)
	if found == nil {
		t.Fatalf("the node does not tell what its leases hold:\n%.2000s", text)
	}
	held, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(held)
}

var (
	heldSeries = regexp.MustCompile(`(?m)^headgate_lease_hits_held(?:\{[^}]*\})? (\S+)$`)
	nodeOps    = regexp.MustCompile(`headgate ready .*\bops=(\S+)`)
)

// ops is where the node tells of itself.
func (m *machine) ops(t *testing.T) string {
	t.Helper()
	var found []string
	if err := m.node.Poll(func() error {
		if found = nodeOps.FindStringSubmatch(m.node.Output()); found == nil {
			return errors.New("no address of ops")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found[1]
}

// change sets the quota of an account; nil says that the node has done so.
func (m *machine) change(account string) error {
	r, err := http.NewRequest(http.MethodPut, "http://headgate/admin/v1/quotas/"+account,
		bytes.NewReader([]byte(`{"overrides":[{"descriptor":"default","requests_per_unit":10,"unit":"minute"}]}`)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+m.token)
	resp, err := m.toAdmin.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		err = refusal(fmt.Sprintf("%s: %s", resp.Status, text))
	}
	return err
}

// refusal is the error of a change that a node has answered, and not made.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }
