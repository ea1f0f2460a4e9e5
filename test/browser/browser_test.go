package browser

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/testserver"
)

const (
	shopRules = `
domain: shop
match: path
descriptors:
  - key: tenant
    tenant: true
    rate_limit: {unit: hour, requests_per_unit: 3}
    descriptors:
      - {key: endpoint, value: POST /v1/orders, rate_limit: {unit: hour, requests_per_unit: 50}}
      - {key: endpoint, value: GET /v1/search, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: remote_address
    rate_limit: {unit: hour, requests_per_unit: 1}
`
	raisedRules = `
domain: shop
match: path
descriptors:
  - key: tenant
    tenant: true
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: login
    sensitive: true
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: busy
    raise_hot_keys: {by: 50, for: 1h}
    rate_limit: {unit: year, requests_per_unit: 1000000000}
`
	shopTiers = `
tiers:
  free: {default: {requests_per_unit: 3, unit: hour}}
  pro: {default: [{requests_per_unit: 200, unit: minute}, {requests_per_unit: 5000, unit: hour}]}
`
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

// stage is a headgate with a dashboard, and what a script needs to use it.
type stage struct {
	t       *testing.T
	node    string // the program that runs scripts
	args    []string
	process *testserver.Process
	// What a script is told. Tokens are by their scope.
	Base     string            `json:"base"`
	Control  string            `json:"control"`
	Tokens   map[string]string `json:"tokens"`
	Chromium string            `json:"chromium"`
	Firefox  string            `json:"firefox,omitempty"` // in place of Chromium
	Modules  string            `json:"modules"`
	Shots    string            `json:"shots,omitempty"`  // where screenshots go, if anywhere
	Issuer   string            `json:"issuer,omitempty"` // of logins
	File     string            `json:"file,omitempty"`   // a page that is opened as a file

	check string // the address of /v1/check
	ops   string // the address of /metrics
	way   *testserver.Proxy
	store *testserver.RedisServer
	// replica is read in place of the database of tenants, which primary is.
	replica, primary *testserver.PostgresServer
	prometheus       *testserver.PrometheusServer
	// others are further nodes with the same store, by their names.
	others map[string]*stage
}

// newStage starts a headgate with these further arguments.
func newStage(t *testing.T, args ...string) *stage {
	t.Helper()
	s := &stage{t: t, Chromium: testserver.Binary(t, "chromium"), node: testserver.Binary(t, "node"), Tokens: map[string]string{}, Shots: shots(t)}
	s.Modules = modules(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tokens := "tokens:\n"
	for _, scope := range []string{"read", "write", "admin"} {
		out := s.run("admin", "token", scope+"-ann", "--scope", scope)
		token, rest, _ := strings.Cut(out, "\n")
		s.Tokens[scope] = token
		tokens += rest[strings.Index(rest, "  - "):]
	}
	s.args = append([]string{
		"serve", "--rules", write("rules.yaml", shopRules), "--tiers", write("tiers.yaml", shopTiers), "--store", "memory://", "--admin-tokens", write("tokens.yaml", tokens),
		"--dashboard-addr", net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t))),
		"--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--drain-delay", "0s", "--node-name", "gate-1", "--audit-sample", "1", "--accuracy-sample", "1",
	}, args...)
	s.start()
	control := httptest.NewServer(s.control())
	t.Cleanup(control.Close)
	s.Control = control.URL
	return s
}

// shots returns where screenshots go, "" unless somebody wants to see them: to make them takes a third
// of the time.
func shots(t *testing.T) string {
	t.Helper()
	if flag.Lookup("test.artifacts").Value.String() != "true" {
		return ""
	}
	return t.ArtifactDir()
}

// withTenants is the argument for a database of accounts.
func withTenants(t *testing.T) string {
	return "--tenants=sqlite://" + filepath.Join(t.TempDir(), "tenants.db")
}

// modules returns the folder with the modules of the scripts, or skips the test as
// testserver.Binary does.
func modules(t *testing.T) string {
	t.Helper()
	return modulesOf(t, "node", "playwright-core")
}

// modulesOf returns the folder of .tools with a module.
func modulesOf(t *testing.T, folder, module string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../.tools", folder, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, module)); err == nil {
		return path
	}
	testserver.Unavailable(t, module+" is not in .tools/"+folder+"; hint: run `make deps`")
	return ""
}

// run runs a command of headgate and returns what it has printed.
func (s *stage) run(args ...string) string {
	s.t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := exec.Command(path, args...).Output()
	if err != nil {
		s.t.Fatalf("headgate %q: %v", args, err)
	}
	return string(out)
}

// listening finds the addresses in what headgate says when it is ready.
var listening = regexp.MustCompile(`headgate ready .*http=(\S+) .*dashboard=(\S+)(?: .*ops=(\S+))?`)

func (s *stage) start() {
	s.t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.process, err = testserver.StartProcess(exec.Command(path, s.args...)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.process.Terminate)
	if err := s.process.Poll(func() error {
		found := listening.FindStringSubmatch(s.process.Output())
		if found == nil {
			return errors.New("it does not say that it is ready")
		}
		s.check, s.Base = "http://"+found[1]+"/v1/check", "http://"+found[2]
		s.ops = "http://" + found[3]
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

// control is what a script asks for of what happens outside of the browser.
func (s *stage) control() http.Handler {
	mux := http.NewServeMux()
	// check sends one request, and says whether it was allowed.
	mux.HandleFunc("POST /check", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		resp, err := http.Post(s.named(r).check, "application/json", bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(w, resp.Body)
	})
	mux.HandleFunc("POST /kill", func(_ http.ResponseWriter, r *http.Request) { s.named(r).process.Kill() })
	// metrics are those of a node.
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		resp, err := http.Get(s.named(r).ops + "/metrics")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(w, resp.Body)
	})
	mux.HandleFunc("POST /store/kill", func(http.ResponseWriter, *http.Request) { s.store.Kill() })
	mux.HandleFunc("POST /prometheus/kill", func(http.ResponseWriter, *http.Request) { s.prometheus.Kill() })
	// lag has the replica replay no more, and something to replay.
	mux.HandleFunc("POST /replica/lag", func(http.ResponseWriter, *http.Request) {
		s.replica.PauseReplay()
		s.run("quota", "set", "tenant:acme", "--quota", "default=7/minute", "--tenants", s.primary.DSN)
	})
	mux.HandleFunc("POST /replica/kill", func(http.ResponseWriter, *http.Request) { s.replica.Kill() })
	mux.HandleFunc("POST /start", func(http.ResponseWriter, *http.Request) { s.start() })
	// cut and heal are for the way to the home of regions.
	mux.HandleFunc("POST /cut", func(http.ResponseWriter, *http.Request) {
		s.way.Set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
	})
	mux.HandleFunc("POST /heal", func(http.ResponseWriter, *http.Request) {
		s.way.Heal()
		s.way.Reset()
	})
	return mux
}

// named is the node that a request of a script names, this one where it names none.
func (s *stage) named(r *http.Request) *stage {
	if other := s.others[r.URL.Query().Get("node")]; other != nil {
		return other
	}
	return s
}

// join starts a further node with these further arguments.
func (s *stage) join(name string, args ...string) {
	s.t.Helper()
	other := &stage{t: s.t, args: append(append(slices.Clone(s.args), "--node-name", name, "--dashboard-addr", net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(s.t)))), args...)}
	other.start()
	if s.others == nil {
		s.others = map[string]*stage{}
	}
	s.others[name] = other
}

// play runs a script. It fails the test when the script does.
func (s *stage) play(script string) {
	s.t.Helper()
	told, err := json.Marshal(s)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), s.node, script)
	cmd.Env = append(os.Environ(), "STAGE="+string(told))
	out, err := cmd.CombinedOutput()
	s.t.Logf("%s:\n%s", script, out)
	if err != nil {
		s.t.Fatalf("%s: %v; hint: with -artifacts there are screenshots", script, err)
	}
}

// An operator logs in, sees a denial as it happens, finds whose it is, has it explained,
// raises the quota and switches a rule into shadow mode, and both are in force.
func TestStory(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("story.mjs")
}

// Every page, in both themes and at three widths, while requests are denied, has no fault that
// axe-core finds, does not scroll sideways, and asks no other host for anything.
//
//promise:observability
func TestPages(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("pages.mjs")
}

// The same holds of a node that nobody has asked anything,
func TestQuietPages(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("quiet.mjs")
}

// of one whose store is away,
func TestPagesWithoutTheStore(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	s := newStage(t, "--store", redis.URL(), "--store-budget", "5s", withTenants(t))
	s.store = redis
	s.play("down.mjs")
}

// and in Firefox, where all can be done with the keyboard too.
func TestFirefox(t *testing.T) {
	t.Parallel()
	s := newStage(t, withTenants(t))
	s.Firefox = testserver.Binary(t, "firefox-esr")
	s.play("keyboard.mjs")
	s.play("pages.mjs")
}

// All of it can be done with the keyboard alone.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("keyboard.mjs")
}

// The Back button leads to what was left, and no dialog outlives its page.
func TestBack(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("back.mjs")
}

// Who types into a page and leaves it at once comes to where they go.
func TestLeaving(t *testing.T) {
	t.Parallel()
	newStage(t).play("leaving.mjs")
}

// What requests have brought in keys is text on every page.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("hostile.mjs")
}

// Who may only read sees hashes and no way to change anything.
func TestReaders(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("readers.mjs")
}

// An operator raises the limit of one customer for a time, and sees what rules raise by
// themselves.
func TestRaise(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(raisedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	newStage(t, "--rules", rules, "--store", testserver.Redis(t, testserver.RedisConfig{}).URL(), "--store-budget", "5s").play("raise.mjs")
}

// Every page says that a drill lasts, and an admin ends it there.
func TestN6DrillIsOnEveryPage(t *testing.T) {
	t.Parallel()
	newStage(t, "--store", testserver.Redis(t, testserver.RedisConfig{}).URL(), "--store-budget", "5s").play("drill.mjs")
}

// An admin writes rules, is told what is wrong and where, reviews what they would change, saves them,
// and goes back; two do not overwrite one another.
func TestEditor(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("editor.mjs")
}

// Without a database the dashboard works, and says what it cannot do and why.
func TestWithoutDatabase(t *testing.T) {
	t.Parallel()
	newStage(t).play("nodatabase.mjs")
}

// What a dual run has found is shown: the verdict, and each planted difference by its cause.
func TestDualRun(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	old := testserver.FreePort(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(`
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: plan
    rate_limit: {unit: year, requests_per_unit: 5}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	theirs := net.JoinHostPort("127.0.0.1", strconv.Itoa(old))
	service, err := testserver.StartProcess(exec.CommandContext(ctx, path, "serve", "--compat", "envoy", "--rules", rules, "--http-addr", "", "--grpc-addr", theirs, "--ops-addr", "", "--drain-delay", "0s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Terminate)
	ours := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(ours, []byte(`
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: plan
    rate_limit: {unit: year, requests_per_unit: 4}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, "--rules", ours, "--compat", "envoy", "--dual-run", "grpc://"+theirs)
	grpcAddr := regexp.MustCompile(`headgate ready .*grpc=(\S+)`).FindStringSubmatch(s.process.Output())[1]
	conn, err := grpc.NewClient(grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := rlsv3.NewRateLimitServiceClient(conn)
	for _, key := range []string{"tenant", "tenant", "plan", "plan"} {
		if _, err := client.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: "shop", Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: "acme"}}},
		}}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	s.play("dualrun.mjs")
}

// Rules over regions are shown with their homes, and greyed while a home is cut off.
func TestRegions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	home := testserver.Redis(t, testserver.RedisConfig{Password: "not-a-real-secret"})
	way := testserver.NewProxy(t, home.Addr)
	s := newStage(t, "--rules", write("rules.yaml", `
domain: shop
descriptors:
  - {key: account, regions: leased, failure_mode: closed, rate_limit: {window: 10s, requests_per_unit: 2000, algorithm: token_bucket, burst: 2000}}
`), "--store", testserver.Redis(t, testserver.RedisConfig{}).URL(), "--store-budget", "5s",
		"--stores", write("stores.yaml", "stores: {home: {url: 'redis://:not-a-real-secret@"+way.Addr+"', budget: 1s}}"),
		"--regions", write("regions.yaml", "home: home\nregions: {frankfurt: {}, virginia: {}}"), "--region", "virginia")
	s.way = way
	s.run("store", "epoch", "--vouch", "--store", "redis://:not-a-real-secret@"+home.Addr)
	s.play("regions.mjs")
}

// A node that goes away is shown as stale, and one that comes back asks for a login.
func TestNodeGoesAway(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("away.mjs")
}

const truthRules = `
domain: shop
match: path
descriptors:
  - key: tenant
    tenant: true
    name: by_tenant
    rate_limit: {unit: hour, requests_per_unit: 3}
    descriptors:
      - {key: endpoint, value: POST /v1/orders, rate_limit: {name: orders, unit: hour, requests_per_unit: 50}}
  - key: login
    rate_limit: {unit: hour, requests_per_unit: 1}
    ban: {after: 1, within: 1h, for: 1h}
  - key: guarded
    rate_limit: {unit: hour, requests_per_unit: 100}
    secondary_limits: [{name: spikes, unit: hour, requests_per_unit: 1}]
  - key: plan
    rate_limit: {unit: hour, requests_per_unit: 100}
    soft_limit: {at: 80%, action: warn}
    schedule: [{cron: "0 22 * * *", for: 8h, time_zone: Europe/Berlin, factor: 3}]
    candidate: {rate_limit: {unit: hour, requests_per_unit: 90}}
  - key: calls
    concurrency: {limit: 1, timeout: 1h, hold: call_id}
`

// What a node has answered is drawn over an hour and over a week, looked at closer, and leads to
// the events of a time.
func TestHistory(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("history.mjs")
}

// The 30 and the 90 days of a real Prometheus are drawn, of all nodes and of the one that is picked; while
// it is away the page says so, and goes on telling what nodes remember themselves.
func TestHistoryOfPrometheus(t *testing.T) {
	t.Parallel()
	ops := net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	prometheus := testserver.Prometheus(t, `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: headgate
    static_configs: [{targets: ["`+ops+`"], labels: {instance: gate-1}}]
`)
	s := newStage(t, "--ops-addr", ops, "--prometheus-url", "http://"+prometheus.Addr, "--store", testserver.Redis(t, testserver.RedisConfig{}).URL(), "--store-budget", "5s")
	s.prometheus = prometheus
	s.join("gate-2", "--ops-addr", "127.0.0.1:0")
	s.play("prometheus.mjs")
}

// What is switched stands on every page with who and until when; bans, secondary limits and
// limits on requests in flight are named as what they are; traffic of unknown domains is a series
// of its own under a warning; an address of no page says so; rules stand in the tree by their path.
func TestPagesSayWhatIs(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(truthRules), 0o600); err != nil {
		t.Fatal(err)
	}
	newStage(t, "--rules", rules, withTenants(t)).play("truth.mjs")
}

// The settings in force stand on a page, with where each comes from and without passwords.
func TestSettings(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{Password: "not-a-real-secret"})
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("store-budget: 7s\nlog-level: error\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HEADGATE_LOG_LEVEL", "warn")
	newStage(t, "--config", file, "--store", "redis://:not-a-real-secret@"+redis.Addr).play("settings.mjs")
}

const copiedRules = `
domain: shop
match: path
descriptors:
  - key: tenant
    tenant: true
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: plan
    rate_limit: {unit: hour, requests_per_unit: 5}
    candidate: {rate_limit: {unit: hour, requests_per_unit: 4}}
`

// What people copy is copied: by the clipboard of the browser, and as by hand where a page has
// none.
func TestCopies(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(copiedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	newStage(t, "--rules", rules, withTenants(t)).play("copy.mjs")
}

// Tables are saved as CSV, with the filter of the page, and without formulas.
func TestExports(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("export.mjs")
}

// While the store is away Explain says that the answer is unknown, and nothing is green.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	s := newStage(t, "--store", redis.URL(), "--store-budget", "5s")
	s.store = redis
	s.play("storeaway.mjs")
}

// The replica that tenants are read of stands on the pages with its lag, and that it is away.
func TestReplicaOfTenants(t *testing.T) {
	t.Parallel()
	primary := testserver.Postgres(t)
	replica := primary.Replica()
	s := newStage(t, "--tenants", primary.DSN, "--tenants-replica", replica.DSN)
	s.replica, s.primary = replica, primary
	s.play("replica.mjs")
}

// Three nodes are summed up, their history and their keys too, one can be picked, what they differ in is marked, and one that dies is
// grey and then gone, and in no sum.
func TestFleet(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte(strings.Replace(shopRules, "requests_per_unit: 50", "requests_per_unit: 60", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "hash.key")
	if err := os.WriteFile(key, []byte("not-a-real-secret-of-32-bytes-at-least"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, "--store", redis.URL(), "--store-budget", "5s", "--audit-hash-key", key)
	s.join("gate-2")
	s.join("gate-3", "--rules", other)
	s.play("fleet.mjs")
}

// With several nodes, switches with long reasons, and long names of tenants and rules, no page is wider than the
// screen, and nothing in its head stands over anything else.
func TestLongNames(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(shopRules+"  - {key: "+strings.Repeat("long", 20)+", rate_limit: {unit: hour, requests_per_unit: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, "--rules", rules, "--store", testserver.Redis(t, testserver.RedisConfig{}).URL(), "--store-budget", "5s", withTenants(t))
	s.join("gate-2")
	s.play("long.mjs")
}

// A browser whose clock is an hour off shows what a right one does.
func TestClockOfTheBrowser(t *testing.T) {
	t.Parallel()
	newStage(t, withTenants(t)).play("clock.mjs")
}

// After random requests the sums of the pages are those of /metrics.
func TestSumsAreThoseOfMetrics(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(truthRules), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := testserver.Redis(t, testserver.RedisConfig{})
	s := newStage(t, "--rules", rules, "--store", redis.URL(), "--store-budget", "5s")
	s.join("gate-2")
	s.play("sums.mjs")
}
