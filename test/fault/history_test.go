package fault

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/test/history"
)

var histories = flag.Duration("histories", 0, "how long histories are recorded of each kind of servers; 0 means a round of some faults, with -long 30s")

// historySearch bounds the search for an order of one history, which takes milliseconds as a rule.
const historySearch = 10 * time.Second

// upset is a fault under which histories are recorded.
type upset struct {
	name string
	// do makes the fault and repairs it.
	do func()
	// long has it happen in long runs only.
	long bool
	// limits are asked for; nil means rolling().
	limits []*limit.Limit
	// monotone leaves refunds out: nodes bring back what they remember after it, and what was refunded or
	// released since they saw it too (see limit.Merge).
	monotone bool
	// lose, where writes may be lost, is what happens between the first instant at which a write that
	// was answered may be lost, and the last at which one may be.
	lose func()
	// concerns tells by the name of a bucket whether that may be lost; nil says that each may be.
	concerns func(name string) bool
	// restore makes all as it was, when the round is over.
	restore func()
}

// historyRig are servers and nodes whose histories are recorded.
type historyRig struct {
	name   string
	fleet  []bystander
	upsets []upset
	// remembers says that nodes bring back what they remember after a loss.
	remembers bool
	// failovers, if not nil, counts them.
	failovers func() int
}

// rolling are limits of all algorithms, most of which roll over, drain and end while a round lasts.
func rolling() []*limit.Limit {
	return append(told(),
		limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 10, Period: 400 * time.Millisecond}),
		limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 3, Period: 200 * time.Millisecond}),
		limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 4, Period: 300 * time.Millisecond, BanFor: 150 * time.Millisecond}))
}

// told are those of them that can be judged where a batch falls apart. The first two last, and are asked for most: what
// is charged during an outage shows in them when it is over.
func told() []*limit.Limit {
	return made(
		limit.Spec{Quota: 30, Period: limit.MaxPeriod},
		limit.Spec{Algorithm: limit.TokenBucket, Quota: 24, Period: 24 * time.Hour, Burst: 20},
		limit.Spec{Quota: 12, Period: 400 * time.Millisecond},
		limit.Spec{Algorithm: limit.GCRA, Quota: 20, Period: time.Second, Burst: 4},
		limit.Spec{Algorithm: limit.FixedWindow, Quota: 8, Period: 200 * time.Millisecond},
		limit.Spec{Algorithm: limit.SubWindows, Quota: 12, Period: 500 * time.Millisecond, SubWindows: 5},
		limit.Spec{Algorithm: limit.SubWindows, Quota: 12, Period: 300 * time.Millisecond, SubWindows: 3, Strict: true},
		limit.Spec{Algorithm: limit.TokenBucket, Quota: 25, Period: time.Second, Burst: 10},
		limit.Spec{Algorithm: limit.LeakyBucket, Quota: 25, Period: time.Second},
		limit.Spec{Algorithm: limit.LeakyQueue, Quota: 25, Period: time.Second, MaxDelay: 200 * time.Millisecond},
		limit.Spec{Quota: 8, Period: 250 * time.Millisecond, CountDenied: true},
	)
}

// lasting are limits of which nothing ends while a round lasts, so that what a server forgets shows. With brought
// they are those of which nodes remember the buckets.
func lasting(brought bool) []*limit.Limit {
	narrow := made(
		limit.Spec{Quota: 20, Period: limit.MaxPeriod},
		limit.Spec{Algorithm: limit.FixedWindow, Quota: 20, Period: limit.MaxPeriod},
		limit.Spec{Algorithm: limit.GCRA, Quota: 24, Period: 24 * time.Hour, Burst: 20},
	)
	if brought {
		return narrow
	}
	return append(narrow, made(
		limit.Spec{Algorithm: limit.SlidingLog, Quota: 20, Period: limit.MaxPeriod},
		limit.Spec{Algorithm: limit.SubWindows, Quota: 20, Period: limit.MaxPeriod, SubWindows: 4},
	)...)
}

func made(specs ...limit.Spec) []*limit.Limit {
	list := make([]*limit.Limit, len(specs))
	for i, spec := range specs {
		list[i] = limit.Must(spec)
	}
	return list
}

// run records rounds for as long as was asked for, and demands of each that its histories are possible: without a
// loss, and with one by what may have been lost.
func (g *historyRig) run(t *testing.T) {
	t.Helper()
	length := *histories
	if length == 0 && *long {
		length = 30 * time.Second
	}
	clocks := newClocks(g.fleet[0].Store)
	rows := make([]historyRow, len(g.upsets))
	begin := time.Now()
	for n := 0; !t.Failed() && (n < len(g.upsets) || time.Since(begin) < length); n++ {
		u := &g.upsets[n%len(g.upsets)]
		if u.long && length == 0 {
			continue
		}
		row := &rows[n%len(g.upsets)]
		row.servers, row.fault = g.name, u.name
		g.round(t, u, row, &recording{fleet: g.fleet, limits: u.limits, name: g.name + " " + strconv.Itoa(n), clocks: clocks, given: !u.monotone})
	}
	for _, row := range rows {
		if row.rounds > 0 {
			t.Logf("%+v", row)
			historyRows.add(row)
		}
	}
}

// round records one round and checks it.
func (g *historyRig) round(t *testing.T, u *upset, row *historyRow, r *recording) {
	t.Helper()
	if r.limits == nil {
		r.limits = rolling()
	}
	failovers := 0
	if g.failovers != nil {
		failovers = g.failovers()
	}
	drift := newDrift()
	record(t, r)
	defer r.finish()
	pause(calmFor)
	o := history.Options{Timeout: historySearch}
	if u.lose != nil {
		o.BroughtBack = g.remembers
		begin := time.Since(r.began)
		u.lose()
		o.Losses = append(o.Losses, history.Span{Begin: begin, End: time.Since(r.began)})
		failovers++
	} else {
		u.do()
	}
	pause(calmFor)
	r.finish()
	r.look()
	row.rounds++
	switch {
	case drift.stepped():
		row.notes = append(row.notes, "a round in which the machine's clock was set")
	case g.failovers != nil && g.failovers() > failovers:
		row.notes = append(row.notes, "a round with a failover of a living primary")
	default:
		g.judge(t, r, row, func(key *historyKey) history.Options {
			if u.concerns != nil && !u.concerns(g.fleet[0].Name([]byte(key.name))) {
				return history.Options{Timeout: historySearch}
			}
			return o
		})
	}
	if u.restore != nil {
		u.restore()
	}
}

// judge checks the keys of a round, several at one time.
func (g *historyRig) judge(t *testing.T, r *recording, row *historyRow, options func(*historyKey) history.Options) {
	t.Helper()
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		keys  = make(chan *historyKey)
	)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for key := range keys {
				o := options(key)
				out, err := history.Check(key.operations, o)
				mu.Lock()
				g.note(t, key, o, row, &out, err)
				mu.Unlock()
			}
		})
	}
	for _, key := range r.keys() {
		keys <- key
	}
	close(keys)
	group.Wait()
	if row.keys == 0 {
		t.Errorf("%s, %s: no history was judged", g.name, row.fault)
	}
	row.refused += r.refused.Load()
}

// mostDrawn bounds the histories that a round draws.
const mostDrawn = 3

// note adds what a check has shown, and demands what must hold.
func (g *historyRig) note(t *testing.T, key *historyKey, o history.Options, row *historyRow, out *history.Outcome, err error) {
	t.Helper()
	if errors.Is(err, history.ErrUntimed) {
		row.untimed++
		return
	}
	if err != nil {
		t.Errorf("%s: %v", key.name, err)
		return
	}
	if out.Undecided {
		row.undecided++
		return
	}
	row.count(key.operations)
	bound := int64(0)
	if len(o.Losses) > 0 {
		if bound = key.lostAtMost(o.Losses[0], g.remembers); out.Lost > 0 {
			row.forgetful++
		}
		row.lost, row.bound = row.lost+out.Lost, row.bound+bound
	}
	switch {
	case out.Possible && out.Lost <= bound:
		return
	case out.Possible:
		t.Errorf("%s, %s: %d hits were lost, of at most %d", key.name, key.limit.Algorithm, out.Lost, bound)
	default:
		t.Errorf("%s, %s: the history is not linearizable", key.name, key.limit.Algorithm)
	}
	if row.impossible++; row.impossible > mostDrawn {
		return
	}
	path, err := out.Draw(os.TempDir(), "headgate-history")
	if err != nil {
		t.Error(err)
		return
	}
	t.Logf("%s is drawn in %s", key.name, path)
}

// lostAtMost is the bound of docs/guarantees.md on what a loss may forget of a key: of a bucket that nodes bring
// back, the hits that the node which knows least may not have seen; of another, all hits up to the limit.
func (k *historyKey) lostAtMost(loss history.Span, remembers bool) int64 {
	most := k.chargedWithin(0, loss.End)
	if remembers {
		most = 0
		for node := range historyNodes {
			most = max(most, k.chargedWithin(k.knows(node, loss.Begin), loss.End))
		}
	}
	if k.limit.Burst > 0 {
		return min(most, k.limit.Burst)
	}
	return min(most, k.limit.Quota)
}

// chargedWithin counts the hits that may have been charged between two instants.
func (k *historyKey) chargedWithin(after, before time.Duration) (n int64) {
	for i := range k.operations {
		o := &k.operations[i]
		end := o.Return
		if o.Unknown {
			end = o.Call + historyDeadline + clockRates
		}
		if (o.Unknown || o.Decision.Allowed) && end > after && o.Call < before {
			n += o.Take.Hits
		}
	}
	return n
}

// knows returns the instant up to which a node surely knows of all hits that were answered: the earliest call of
// those that may have been its last before the loss.
func (k *historyKey) knows(node int, begin time.Duration) time.Duration {
	var last time.Duration
	for i := range k.operations {
		if o := &k.operations[i]; o.Node == node && !o.Unknown && o.Return < begin {
			last = max(last, o.Call)
		}
	}
	knows := last
	for i := range k.operations {
		if o := &k.operations[i]; o.Node == node && !o.Unknown && o.Return < begin && o.Return >= last {
			knows = min(knows, o.Call)
		}
	}
	return knows
}

// drift notices when the machine's clock is set: operations are dated by it, and so are those of the servers.
type drift struct{ begin time.Time }

func newDrift() drift { return drift{time.Now()} }

// clockSet is by how much the clock may differ from one that nobody sets.
const clockSet = time.Millisecond

func (d drift) stepped() bool {
	now := time.Now()
	return (now.Round(0).Sub(d.begin.Round(0)) - now.Sub(d.begin)).Abs() > clockSet
}

// freeze stops a server for less time than it takes to be replaced.
func freeze(server func() *testserver.RedisServer) func() {
	return func() {
		s := server()
		s.Stop()
		pause(2 * begun.length)
		s.Continue()
	}
}

// several does something some times, with a pause after each.
func several(do func()) func() {
	return func() {
		for range 5 {
			do()
			pause(begun.length / 5)
		}
	}
}

// hangUp has a server end the connections of its clients.
func hangUp(server *testserver.RedisServer) { server.MustDo("CLIENT", "KILL", "TYPE", "normal") }

// Nodes on one Redis, each with a way of its own to it.
//
//promise:exact late-calls-charge-nothing repeated-only-where-proven
func TestHistories(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	var proxies []*testserver.Proxy
	var options []redisstore.Options
	for range historyNodes {
		proxy := testserver.NewProxy(t, server.Addr)
		proxies, options = append(proxies, proxy), append(options, redisstore.Options{Addr: proxy.Addr})
	}
	one := func() *testserver.RedisServer { return server }
	g := &historyRig{name: "one Redis", fleet: openFleet(t, options...)}
	g.upsets = []upset{
		{name: "none", long: true, do: func() { pause(begun.length) }},
		{name: "SIGSTOP", do: freeze(one)},
		{name: "SCRIPT FLUSH, five times", do: several(func() { server.MustDo("SCRIPT", "FLUSH") })},
		{name: "all connections are reset, five times", do: several(func() {
			for _, proxy := range proxies {
				proxy.Reset()
			}
		})},
		{name: "answers are cut", do: func() {
			for _, proxy := range proxies {
				proxy.Set(testserver.Toxics{Down: testserver.Toxic{CutAfter: 3000}})
			}
			pause(begun.length)
			for _, proxy := range proxies {
				proxy.Heal()
			}
		}},
		{name: "answers to one node stall", long: true, do: func() {
			proxies[0].Set(testserver.Toxics{Down: testserver.Toxic{Stall: true}})
			pause(begun.length)
			proxies[0].Heal()
		}},
		{name: "kill -9 and restart from its file", monotone: true, do: func() {
			server.Kill()
			pause(begun.length)
			server.Restart()
		}},
		{name: "SIGSTOP, resets and SCRIPT FLUSH at once", long: true, do: func() {
			several(func() {
				server.Stop()
				proxies[1].Reset()
				pause(begun.length / 5)
				server.Continue()
				server.MustDo("SCRIPT", "FLUSH")
			})()
		}},
	}
	g.run(t)
}

// That a history is refused when it should be: of what a real Redis has answered, one denial is made the admission of
// a hit that was given already.
func TestHistoriesCanBeRefused(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	o := redisstore.Options{Addr: server.Addr}
	fleet := openFleet(t, o, o, o)
	clocks := newClocks(fleet[0].Store)
	// A key of which all was heard: else the hit may be that of an operation of which nothing was.
	var key *historyKey
	denied := -1
	for n, end := 0, time.Now().Add(patience); denied < 0; n++ {
		r := &recording{fleet: fleet, limits: lasting(false), name: fmt.Sprint("planted ", n), clocks: clocks}
		record(t, r)
		pause(calmFor)
		r.finish()
		for _, key = range r.lanes[0].keys {
			if denied = key.denied(); denied >= 0 {
				break
			}
		}
		if denied < 0 && time.Now().After(end) {
			t.Fatal("no key of which all was heard has denied a hit")
		}
	}
	if out, err := history.Check(key.operations, history.Options{}); err != nil || !out.Possible {
		t.Fatalf("what Redis has answered is not possible: %+v, %v", out, err)
	}
	d := &key.operations[denied].Decision
	d.Allowed, d.RetryAfter = true, 0
	out, err := history.Check(key.operations, history.Options{})
	if err != nil || out.Possible {
		t.Fatalf("a hit that was given twice is possible: %+v, %v", out, err)
	}
	path, err := out.Draw(t.TempDir(), "planted")
	if err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile(path); err != nil || !strings.Contains(string(page), key.operations[denied].Decision.ResetAfter.String()) {
		t.Errorf("the drawing in %s does not show the answer: %v", path, err)
	}
}

// denied returns the first operation by which one hit was denied, if all operations were heard of; else -1.
func (k *historyKey) denied() int {
	if slices.ContainsFunc(k.operations, func(o history.Operation) bool { return o.Unknown }) {
		return -1
	}
	return slices.IndexFunc(k.operations, func(o history.Operation) bool {
		return o.Take.Op == store.Hit && o.Take.Hits == 1 && !o.Decision.Allowed
	})
}

// The primary of sentinels, which nobody replaces.
//
//promise:exact
func TestHistoriesSentinel(t *testing.T) {
	servers := testserver.Sentinel(t, testserver.SentinelConfig{DownAfter: never})
	o := redisstore.Options{Sentinel: &redisstore.Sentinel{Addrs: servers.Addrs(), Master: servers.Name}}
	primary := func() *testserver.RedisServer { return servers.WaitForPrimary(nil) }
	g := &historyRig{name: "Sentinel", fleet: openFleet(t, o, o, o), failovers: servers.Failovers}
	g.upsets = []upset{
		{name: "SIGSTOP of the primary", do: freeze(primary)},
		{name: "SIGSTOP of the replica", long: true, do: freeze(func() *testserver.RedisServer { return servers.Nodes[1] })},
		{name: "SCRIPT FLUSH, five times", long: true, do: several(func() { primary().MustDo("SCRIPT", "FLUSH") })},
		{name: "CLIENT KILL, five times", do: several(func() { hangUp(primary()) })},
	}
	g.run(t)
}

// A cluster of which no primary is replaced.
//
//promise:exact repeated-only-where-proven
func TestHistoriesCluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NodeTimeout: never})
	c := &clusterRig{ClusterServers: servers}
	o := redisstore.Options{Cluster: servers.Addrs()[:2]}
	primaries := servers.Primaries()
	g := &historyRig{name: "Cluster", fleet: openFleet(t, o, o, o), failovers: servers.Failovers}
	g.upsets = []upset{
		{name: "slots are moved, there and back", limits: told(), do: func() {
			for _, slot := range busySlots(primaries[0], 3) {
				c.move(slot, primaries[0], primaries[2], begun.length/6)
				c.move(slot, primaries[2], primaries[0], begun.length/6)
			}
		}},
		{name: "SIGSTOP of a primary", do: freeze(func() *testserver.RedisServer { return primaries[1] })},
		{name: "SCRIPT FLUSH, five times", long: true, do: several(func() {
			for _, primary := range primaries {
				primary.MustDo("SCRIPT", "FLUSH")
			}
		})},
		{name: "CLIENT KILL, five times", long: true, do: several(func() {
			for _, primary := range primaries {
				hangUp(primary)
			}
		})},
	}
	g.run(t)
}

// remembering are the two kinds of nodes.
var remembering = []struct {
	name       string
	remembered int
}{{"", 0}, {", nothing is remembered", -1}}

// A Redis that is killed and starts empty.
//
//promise:restart-loses brought-back
func TestHistoriesLost(t *testing.T) {
	for _, kind := range remembering {
		server := testserver.Redis(t, testserver.RedisConfig{})
		o := redisstore.Options{Addr: server.Addr, Remembered: kind.remembered}
		g := &historyRig{name: "one Redis" + kind.name, fleet: openFleet(t, o, o, o), remembers: kind.remembered == 0}
		g.upsets = []upset{{name: "kill -9 and restart, empty", limits: lasting(kind.remembered == 0), monotone: true, lose: func() {
			server.Kill()
			pause(begun.length)
			server.Restart()
		}}}
		g.run(t)
	}
}

// A primary of sentinels that dies, and whose replica takes over. It was cut off for a moment.
//
//promise:failover-loses brought-back
func TestHistoriesLostSentinel(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	for _, kind := range remembering {
		servers, o := openSentinel(t)
		o.Remembered = kind.remembered
		g := &historyRig{name: "Sentinel" + kind.name, fleet: openFleet(t, o, o, o), remembers: kind.remembered == 0, failovers: servers.Failovers}
		var killed *testserver.RedisServer
		g.upsets = []upset{{name: "kill -9 of a primary whose replica lags", limits: lasting(kind.remembered == 0), monotone: true, lose: func() {
			servers.WaitForPrimary(nil).CutReplicas()
			pause(calmFor / 4)
			killed = servers.KillPrimary()
			servers.WaitForPrimary(killed)
		}, restore: func() { servers.Restart(killed) }}}
		g.run(t)
	}
}

// A primary of a cluster that dies, and whose replica takes over. It was cut off for a moment. The buckets of
// other shards lose nothing.
//
//promise:failover-loses brought-back
func TestHistoriesLostCluster(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	for _, kind := range remembering {
		servers := testserver.Cluster(t, testserver.ClusterConfig{NodeTimeout: soon()})
		o := redisstore.Options{Cluster: servers.Addrs()[:2], Remembered: kind.remembered}
		g := &historyRig{name: "Cluster" + kind.name, fleet: openFleet(t, o, o, o), remembers: kind.remembered == 0, failovers: servers.Failovers}
		const shard = 1
		var killed *testserver.RedisServer
		g.upsets = []upset{{name: "kill -9 of a primary whose replica lags", limits: lasting(kind.remembered == 0), monotone: true, lose: func() {
			servers.SlotOwner(servers.FirstSlot(shard)).CutReplicas()
			pause(calmFor / 4)
			killed = servers.KillPrimary(shard)
			servers.WaitForPrimary(servers.FirstSlot(shard), killed)
		}, concerns: func(name string) bool {
			slot := testserver.KeySlot(name)
			return servers.FirstSlot(shard) <= slot && slot < servers.FirstSlot(shard+1)
		}, restore: func() { servers.Restart(killed) }}}
		g.run(t)
	}
}
