package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/testserver"
)

// rehearsing is a fleet of two nodes on one Redis that is asked all the time, and an admin
// API at the first of them.
type rehearsing struct {
	t     *testing.T
	nodes []*node
	admin string
	token string // file
	dir   string
}

const drillRules = `
domain: d
match: path
descriptors:
- {key: open, rate_limit: {unit: hour, requests_per_unit: 1000000}}
- {key: local, failure_mode: local, rate_limit: {unit: hour, requests_per_unit: 1000000}}
- {key: closed, failure_mode: closed, rate_limit: {unit: hour, requests_per_unit: 1000000}}
- {key: tight, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: far, regions: leased, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 60000, algorithm: token_bucket}}
`

// newRehearsing starts the fleet with these further arguments; keys are those of the rules
// that are asked for.
func newRehearsing(t *testing.T, store string, keys []string, args ...string) *rehearsing {
	t.Helper()
	f := &rehearsing{t: t, dir: t.TempDir()}
	in := func(name, text string) string {
		t.Helper()
		path := filepath.Join(f.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := drillRules
	if !slices.Contains(args, "--regions") {
		rules = rules[:strings.Index(rules, "- {key: far")]
	}
	rulesFile := in("rules.yaml", rules)
	tokens := filepath.Join(f.dir, "tokens.yaml")
	for _, scope := range []string{"admin", "write"} {
		out, err := headgate(t, "admin", "token", scope, "--scope", scope, "--out", tokens)
		if err != nil {
			t.Fatal(err, out)
		}
		in(scope, out)
	}
	f.token = filepath.Join(f.dir, "admin")
	for i := range 2 {
		f.nodes = append(f.nodes, startNode(t, append([]string{
			"--store", store, "--store-budget", "1s", "--rules", rulesFile, "--node-name", fmt.Sprint("n", i), "--drain-delay", "0s",
			"--admin-addr", "127.0.0.1:0", "--admin-tokens", tokens,
			"--audit-files", "file://" + filepath.Join(f.dir, fmt.Sprint("events", i)) + "?compress=none",
		}, args...)...))
	}
	f.admin = "http://" + f.nodes[0].at(t, "admin")
	asking, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	t.Cleanup(func() { stop(); callers.Wait() })
	for _, n := range f.nodes {
		callers.Go(func() {
			for sleep.For(asking, 10*time.Millisecond) == nil {
				for _, key := range keys {
					_, _ = n.check(`{"domain":"d","descriptors":[{"entries":[{"key":"` + key + `","value":"1"}]}]}`) // the nodes say what came of it
				}
			}
		})
	}
	return f
}

// headgate runs a command of headgate and returns what it prints to its output.
func headgate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, args...).Output()
	return string(out), err
}

// drill runs headgate drill until it ends, and returns what is reported and the exit code.
func (f *rehearsing) drill(args ...string) (w drill.Whole, code int) {
	f.t.Helper()
	out, err := headgate(f.t, append([]string{"drill"}, append(args, "--admin", f.admin, "--admin-token-file", f.token, "--json")...)...)
	return f.read(out, err)
}

func (f *rehearsing) read(out string, err error) (w drill.Whole, code int) {
	f.t.Helper()
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
		f.t.Logf("exit code %d: %s", code, exit.Stderr)
	} else if err != nil {
		f.t.Fatal(err)
	}
	if out != "" {
		if err := json.Unmarshal([]byte(out), &w); err != nil {
			f.t.Fatalf("%v: %s", err, out)
		}
	}
	return w, code
}

// whole holds that both nodes have taken part to the end, that something was decided
// meanwhile, and that all is back.
func (f *rehearsing) whole(w drill.Whole, why drill.Why) {
	f.t.Helper()
	if w.Order == nil || w.UnderWay || w.Order.Ended == nil || w.Order.Ended.Why != why || len(w.Nodes) != 2 {
		f.t.Fatalf("want a drill of two nodes that has ended: %s\n%+v", why, w)
	}
	var sum uint64
	for i := range w.Nodes {
		n := &w.Nodes[i]
		sum += n.Decided
		if n.Node != fmt.Sprint("n", i) || n.State != drill.Done || n.Decided == 0 || n.Decided != n.Store+n.Reserve+n.Local+n.Open+n.Passed+n.Failed {
			f.t.Errorf("%+v", n)
		}
		for _, a := range n.Away {
			if a.Still {
				f.t.Errorf("%s is not back: %+v", n.Node, a)
			}
		}
	}
	if w.Sum.Decided != sum {
		f.t.Errorf("the sum is %+v of %d", w.Sum, sum)
	}
	for _, n := range f.nodes {
		if got := n.scrape(f.t); !strings.Contains(got, "headgate_drill_here 0\n") || !strings.Contains(got, "headgate_drill_under_way 0\n") {
			f.t.Errorf("metrics say that the drill lasts")
		}
	}
}

// away returns what was away on a node, by the beginning of its name.
func away(t *testing.T, r *drill.Report, name string) drill.Away {
	t.Helper()
	for _, a := range r.Away {
		if strings.HasPrefix(a.Name, name) {
			return a
		}
	}
	t.Errorf("%s: %s was not away: %+v", r.Node, name, r.Away)
	return drill.Away{}
}

// shows waits until the fault is on all nodes, as metrics tell, and then holds that all
// places for operators tell of it.
func (f *rehearsing) shows(fault string) {
	f.t.Helper()
	for _, n := range f.nodes {
		n.until(f.t, func() error {
			if !strings.Contains(n.scrape(f.t), "headgate_drill_here 1\n") {
				return fmt.Errorf("the drill is not here")
			}
			return nil
		})
		if got := n.shown(f.t, n.at(f.t, "ops"), "/readyz", ""); !strings.Contains(got, `"fault": "`+fault+`"`) || !strings.Contains(got, `"ready": true`) {
			f.t.Errorf("/readyz: %s", got)
		}
	}
	out, err := headgate(f.t, "top", "--once", "--admin", f.admin, "--admin-token-file", f.token)
	if err != nil || !strings.Contains(out, "DRILL "+fault) {
		f.t.Errorf("top: %v\n%s", err, out)
	}
}

// events waits until the events of a node tell that a drill has begun and ended.
func (f *rehearsing) events(i int, begun, ended string) {
	f.t.Helper()
	f.nodes[i].until(f.t, func() error {
		files, err := filepath.Glob(filepath.Join(f.dir, fmt.Sprint("events", i), "*"))
		if err != nil {
			return err
		}
		var text []byte
		for _, file := range files {
			more, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			text = append(text, more...)
		}
		for outcome, want := range map[string]string{"drill": begun, "drill_ended": ended} {
			if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
				return strings.Contains(line, `"outcome":"`+outcome+`"`) && strings.Contains(line, want)
			}) {
				return fmt.Errorf("no event %s with %s", outcome, want)
			}
		}
		return nil
	})
}

// A store that is down for a drill: failure modes answer on both nodes, the report says how,
// all places tell of it, it ends by itself, and both nodes decide by the store again.
func TestN6DrillStoreDown(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	f := newRehearsing(t, redis.URL(), []string{"open", "local", "tight"})
	type result struct {
		out string
		err error
	}
	ended := make(chan result, 1)
	go func() {
		out, err := headgate(t, "drill", "store-down", "--admin", f.admin, "--admin-token-file", f.token, "--for", "8s", "--reason", "rehearsal of May", "--json")
		ended <- result{out, err}
	}()
	f.shows("store-down")
	if _, code := f.drill("store-down", "--for", "1s"); code != 2 {
		t.Errorf("a second drill: exit code %d", code)
	}
	r := <-ended
	w, code := f.read(r.out, r.err)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	f.whole(w, drill.Expired)
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if n.Closed == 0 || n.Open == 0 || n.Local == 0 || n.Failed != 0 || n.Unchecked == 0 || n.Unchecked > n.Open+n.Local || n.Latency.P50 == 0 || n.LastedMS < 5000 || n.LastedMS > 60_000 {
			t.Errorf("%+v", n)
		}
		if a := away(t, n, "store store "+redis.Addr); a.ForMS < 4000 || a.Times < 1 {
			t.Errorf("%+v", a)
		}
		f.events(i, `store-down of all stores: rehearsal of May`, `expired`)
	}
	for _, n := range f.nodes {
		n.until(t, func() error {
			if a, err := n.check(`{"domain":"d","descriptors":[{"entries":[{"key":"closed","value":"1"}]}]}`); err != nil || a.Status != http.StatusOK {
				return fmt.Errorf("%+v, %v", a, err)
			}
			return nil
		})
	}
}

// A drill by which requests fail ends on all nodes before its time, and the command says no.
func TestN6DrillAbortsOnDamage(t *testing.T) {
	t.Parallel()
	f := newRehearsing(t, testserver.Redis(t, testserver.RedisConfig{}).URL(), []string{"closed", "open"})
	w, code := f.drill("store-down", "--for", "10m")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	// One node may see the damage before the other one has heard of the drill.
	e := w.Order.Ended
	if w.UnderWay || e == nil || e.Why != drill.Aborted || !strings.Contains(e.Detail, "requests were errors") || w.Sum.Failed == 0 || len(w.Nodes) == 0 {
		t.Errorf("%+v, %+v", w, e)
	}
	for i := range f.nodes {
		if slices.ContainsFunc(w.Nodes, func(r drill.Report) bool { return r.Node == fmt.Sprint("n", i) }) {
			f.events(i, `"actor":"admin"`, `aborted`)
		}
	}
}

// A drill in which no node takes part does not look like one that went well, and is not waited
// for; where nobody could, it is not begun.
func TestN6DrillOfNothing(t *testing.T) {
	t.Parallel()
	f := newRehearsing(t, testserver.Redis(t, testserver.RedisConfig{}).URL(), []string{"open"})
	w, code := f.drill("store-down", "--of-store", "misspelt", "--for", "1h")
	if code != 1 || w.UnderWay || w.TookPart != 0 || len(w.Nodes) != 2 || w.Nodes[0].State != drill.Apart || !strings.Contains(w.Nodes[1].Detail, "no store of that name") {
		t.Errorf("exit code %d, %+v", code, w)
	}
	out, err := headgate(t, "drill", "show", "--admin", f.admin, "--admin-token-file", f.token)
	if err != nil || !strings.HasPrefix(out, "drill store-down  nobody took part\n") {
		t.Errorf("%v\n%s", err, out)
	}
	alone := newRehearsing(t, "memory://", []string{"open"})
	for _, args := range [][]string{{"store-down"}, {"store-down", "--of-store", "misspelt"}, {"region-cut"}, {"database-down"}, {"broker-down"}} {
		if _, code := alone.drill(append(args, "--for", "1s")...); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

// A store that forgets everything in a drill: the nodes end it, the command that waits says what
// happened, and what the nodes have seen is still there.
func TestN6DrillWhoseOrderIsLost(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	f := newRehearsing(t, redis.URL(), []string{"open"})
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	var out, said strings.Builder
	c := exec.Command(path, "drill", "store-down", "--for", "10m", "--admin", f.admin, "--admin-token-file", f.token, "--json")
	c.Stdout, c.Stderr = &out, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	f.shows("store-down")
	redis.MustDo("FLUSHALL")
	err = c.Wait()
	w, code := f.read(out.String(), err)
	if code != 1 || !strings.Contains(said.String(), "the store has lost the order") {
		t.Errorf("exit code %d: %s", code, &said)
	}
	f.whole(w, drill.Lost)
	shown, err := headgate(t, "drill", "show", "--admin", f.admin, "--admin-token-file", f.token)
	if err != nil || !strings.HasPrefix(shown, "drill store-down  lost, n") || !strings.Contains(shown, "the order is gone from the store") {
		t.Errorf("%v\n%s", err, shown)
	}
	for i := range f.nodes {
		f.events(i, "store-down of all stores", "lost, the order is gone from the store")
	}
}

// An operator who ends a drill, and one who interrupts the command, has it end everywhere; one
// without the scope cannot begin it.
func TestN6DrillIsStopped(t *testing.T) {
	t.Parallel()
	f := newRehearsing(t, testserver.Redis(t, testserver.RedisConfig{}).URL(), []string{"open"})
	admin := f.token
	f.token = filepath.Join(f.dir, "write")
	if _, code := f.drill("store-down"); code != 2 {
		t.Errorf("with the scope write: exit code %d", code)
	}
	f.token = admin
	if out, err := headgate(t, "drill", "stop", "--admin", f.admin, "--admin-token-file", f.token); err == nil {
		t.Errorf("no drill is stopped: %s", out)
	}
	if w, code := f.drill("store-down", "--for", "10m", "--detach"); code != 0 || !w.UnderWay {
		t.Errorf("exit code %d: %+v", code, w)
	}
	f.shows("store-down")
	if out, err := headgate(t, "drill", "stop", "--admin", f.admin, "--admin-token-file", f.token); err != nil {
		t.Fatal(err, out)
	}
	var w drill.Whole
	f.nodes[0].until(t, func() error {
		var code int
		if w, code = f.drill("show"); code != 0 || len(w.Nodes) != 2 || w.Nodes[0].State != drill.Done || w.Nodes[1].State != drill.Done {
			return fmt.Errorf("not done: %+v", w)
		}
		return nil
	})
	f.whole(w, drill.Stopped)

	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := exec.Command(path, "drill", "store-down", "--for", "10m", "--admin", f.admin, "--admin-token-file", f.token, "--json")
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	f.shows("store-down")
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = c.Wait()
	w, code := f.read(out.String(), err)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	f.whole(w, drill.Stopped)
}

// A store that is slower by more than it has time for: nodes decide without it; one that is
// slower by less is waited for.
func TestN6DrillStoreSlow(t *testing.T) {
	t.Parallel()
	f := newRehearsing(t, testserver.Redis(t, testserver.RedisConfig{}).URL(), []string{"open"})
	w, code := f.drill("store-slow", "--delay", "50ms", "--for", "4s")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	f.whole(w, drill.Expired)
	if w.Sum.Store == 0 || w.Latency.Max < 50_000 || w.Nodes[0].Closed != 0 {
		t.Errorf("%+v, %+v", w.Sum, w.Latency)
	}
	w, code = f.drill("store-slow", "--delay", "5s", "--for", "6s")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	f.whole(w, drill.Expired)
	if w.Sum.Open == 0 || w.Sum.Unchecked == 0 {
		t.Errorf("%+v", w.Sum)
	}
}

// One shard of a cluster is down: its keys are decided by failure mode, and no other server
// is away.
func TestN6DrillShardDown(t *testing.T) {
	t.Parallel()
	cluster := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	keys := []string{"open", "local"}
	f := newRehearsing(t, "redis+cluster://"+cluster.Nodes[0].Addr, keys)
	shard := cluster.Nodes[0].Addr
	stop := make(chan struct{})
	var more sync.WaitGroup
	for _, n := range f.nodes {
		more.Go(func() { // keys of all shards
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					_, _ = n.check(fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":"open","value":"k%d"}]}]}`, i%100))
				}
			}
		})
	}
	defer func() { close(stop); more.Wait() }()
	if w, code := f.drill("shard-down", "127.0.0.1:1", "--for", "3s"); code != 1 || len(w.Nodes) != 2 || w.Nodes[0].State != drill.Apart || w.TookPart != 0 {
		t.Errorf("a server that there is not: exit code %d, %+v", code, w)
	}
	w, code := f.drill("shard-down", shard, "--for", "6s")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	f.whole(w, drill.Expired)
	for i := range w.Nodes {
		away(t, &w.Nodes[i], "store store "+shard)
		if n := &w.Nodes[i]; len(n.Away) != 1 || n.Store == 0 || n.Open == 0 {
			t.Errorf("%+v", n)
		}
	}
}

// The database is down for a drill: decisions go on by the store, and it is back afterwards.
func TestN6DrillDatabaseDown(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	f := newRehearsing(t, y.redis.URL(), []string{"open"}, "--tenants", y.database.DSN)
	w, code := f.drill("database-down", "--for", "8s", "--reason", "rehearsal")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	f.whole(w, drill.Expired)
	for i := range w.Nodes {
		n := &w.Nodes[i]
		away(t, n, "database")
		if n.Closed == 0 || n.Store != n.Decided {
			t.Errorf("%+v", n)
		}
	}
	if out, err := y.command("quota", "log"); err != nil || !strings.Contains(out, "begin drill") {
		t.Errorf("the log of changes: %v\n%s", err, out)
	}
	f.nodes[0].until(t, func() error {
		if out, err := y.command("quota", "log", "--verify"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// Brokers are down for a drill: events wait, and none is lost.
func TestN6DrillBrokerDown(t *testing.T) {
	t.Parallel()
	kafka := testserver.Kafka(t)
	kafka.CreateTopic("events", 1)
	f := newRehearsing(t, testserver.Redis(t, testserver.RedisConfig{}).URL(), []string{"open"}, "--audit-kafka", "kafka://"+kafka.Addr+"/events", "--audit-sample", "1")
	w, code := f.drill("broker-down", "--for", "8s")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	f.whole(w, drill.Expired)
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if n.Closed == 0 || n.Store != n.Decided {
			t.Errorf("%+v", n)
		}
	}
	for _, n := range f.nodes {
		if got := n.scrape(t); !strings.Contains(got, `headgate_audit_sink_failed_total{sink="kafka://`+kafka.Addr+`/events"} 0`+"\n") {
			t.Error("events were lost")
		}
	}
}

// One node whose wall clock is an hour ahead: a switch that ends before that counts for nothing
// there, its clock stands out beside that of the store, and limits hold. The other node is as ever,
// and so are both when the drill is over.
func TestN6DrillClockSkew(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	f := newRehearsing(t, redis.URL(), []string{"open"})
	if out, err := headgate(t, "switch", "set", "rule:d.tight", "off", "--until", "20m", "--reason", "rehearsal", "--store", redis.URL()); err != nil {
		t.Fatal(err, out)
	}
	passes := func(n *node, want bool) func() error {
		return func() error {
			for range 3 { // the limit is one an hour
				a, err := n.check(`{"domain":"d","descriptors":[{"entries":[{"key":"tight","value":"1"}]}]}`)
				if err != nil || a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests {
					return fmt.Errorf("%+v, %v", a, err)
				}
				if passed := a.Status == http.StatusOK; passed != want {
					return fmt.Errorf("passed: %v, want %v", passed, want)
				}
			}
			return nil
		}
	}
	for _, n := range f.nodes {
		n.until(t, passes(n, true))
	}
	type result struct {
		out string
		err error
	}
	ended := make(chan result, 1)
	go func() {
		out, err := headgate(t, "drill", "clock-skew", "--by", "1h", "--of-node", "n1", "--for", "10m", "--admin", f.admin, "--admin-token-file", f.token, "--json")
		ended <- result{out, err}
	}()
	ahead := f.nodes[1]
	ahead.until(t, passes(ahead, false))
	if err := passes(f.nodes[0], true)(); err != nil {
		t.Error("the other node:", err)
	}
	offset := regexp.MustCompile(`headgate_store_clock_offset_seconds\{[^}]*\} (\S+)\n`)
	for i, n := range f.nodes {
		n.until(t, func() error {
			told := offset.FindStringSubmatch(n.scrape(t))
			if told == nil {
				return errors.New("nothing is told of the clock of the store")
			}
			apart, err := strconv.ParseFloat(told[1], 64)
			if err != nil || (apart < -3000) != (i == 1) {
				return fmt.Errorf("node %d: the clock of the store is %s s ahead", i, told[1])
			}
			return nil
		})
	}
	ahead.until(t, func() error {
		if w, _ := f.drill("show"); len(w.Nodes) != 2 { // the other one hears of it when it looks the next time
			return fmt.Errorf("%d nodes have told of the drill", len(w.Nodes))
		}
		return nil
	})
	if out, err := headgate(t, "drill", "stop", "--admin", f.admin, "--admin-token-file", f.token); err != nil {
		t.Error(err, out)
	}
	r := <-ended
	w, code := f.read(r.out, r.err)
	if code != 0 || w.TookPart != 1 || len(w.Nodes) != 2 || w.Nodes[0].State != drill.Apart || w.Nodes[1].State != drill.Done {
		t.Fatalf("exit code %d, %+v", code, w)
	}
	n := &w.Nodes[1]
	if a := away(t, n, "clock, beside store store "+redis.Addr); a.Times != 1 || a.Still || len(n.Away) != 1 || n.Failed != 0 || n.Unchecked != 0 {
		t.Errorf("%+v", n)
	}
	f.events(1, `clock-skew of the clock of n1, 1h0m0s ahead`, `stopped`)
	if parted := regexp.MustCompile(`headgate_lease_clock_partings_total (\d+)`).FindStringSubmatch(ahead.scrape(t)); parted == nil || parted[1] == "0" || parted[1] == "1" {
		t.Errorf("leases are dropped at the beginning and at the end: %v", parted)
	}
	ahead.until(t, passes(ahead, true))
}

// A region is cut from the home of its leased rules: it goes on by its reserve, and its own
// store is not away.
func TestN6DrillRegionCut(t *testing.T) {
	t.Parallel()
	f := newRehearsing(t, testserver.Redis(t, testserver.RedisConfig{}).URL(), []string{"far", "open"}, inFrankfurt(t, "30%")...)
	w, code := f.drill("region-cut", "--for", "6s")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	f.whole(w, drill.Expired)
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if a := away(t, n, "store home "); len(n.Away) != 1 || a.ForMS == 0 || n.Closed == 0 || n.Failed != 0 || n.Reserve != 0 {
			t.Errorf("%+v", n)
		}
	}
}

// inFrankfurt returns the arguments of a process in a region that has a home and this reserve.
func inFrankfurt(t *testing.T, reserve string) []string {
	t.Helper()
	home := testserver.Redis(t, testserver.RedisConfig{})
	dir := t.TempDir()
	stores, regions := filepath.Join(dir, "stores.yaml"), filepath.Join(dir, "regions.yaml")
	for path, text := range map[string]string{
		stores: "stores: {home: {url: '" + home.URL() + "', budget: 1s}}\n", regions: "home: home\nreserve: " + reserve + "\nregions: {frankfurt: {}, virginia: {}}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--stores", stores, "--regions", regions, "--region", "frankfurt"}
}

// What a region denies because it is cut off and has used its reserve is damage: the drill ends
// by it, and the report tells it from what the store has decided.
func TestN6DrillRegionCutAbortsOnAUsedReserve(t *testing.T) {
	t.Parallel()
	f := newRehearsing(t, testserver.Redis(t, testserver.RedisConfig{}).URL(), []string{"far"}, inFrankfurt(t, "0.1%")...)
	w, code := f.drill("region-cut", "--for", "10m")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	e := w.Order.Ended
	if w.UnderWay || e == nil || e.Why != drill.Aborted || w.Sum.Reserve == 0 || w.Sum.Failed != 0 || w.Sum.Denied < w.Sum.Reserve || w.Sum.Decided != w.Sum.Store+w.Sum.Reserve {
		t.Errorf("%+v, %+v", w, e)
	}
}
