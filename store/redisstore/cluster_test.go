package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore/conn"
	"github.com/headgate/headgate/store/storetest"
)

// clusterOptions are those for one node of a cluster: the others are found.
func clusterOptions(servers *testserver.ClusterServers) Options {
	o := Options{Cluster: servers.Addrs()[:1]}
	if servers.Certificates != nil {
		o.TLS = servers.Certificates.Client()
	}
	return o
}

// clusterKeys returns a key for each tag.
func clusterKeys() (keys [tagCount]string) {
	for i, left := 0, tagCount; left > 0; i++ {
		key := fmt.Sprintf("key %d", i)
		if tag := tagOf(hashOf([]byte(key))); keys[tag] == "" {
			keys[tag] = key
			left--
		}
	}
	return keys
}

// oneTag keeps all buckets of a test in one tag, so that no group falls apart: a
// cluster then is as exact as a single Redis. Groups that do fall apart have
// TestClusterAsOneStore.
type oneTag struct {
	*Store
	tag int
}

// keysOfTags remembers what keyOfTag has found.
var keysOfTags sync.Map // of keyAndTag, []byte

type keyAndTag struct {
	key string
	tag int
}

func (o oneTag) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	moved := slices.Clone(takes)
	for i := range moved {
		moved[i].Key = keyOfTag(moved[i].Key, o.tag)
	}
	o.Store.Take(ctx, moved, results)
}

// keyOfTag lengthens a key until it has the tag.
func keyOfTag(key []byte, tag int) []byte {
	id := keyAndTag{string(key), tag}
	if known, ok := keysOfTags.Load(id); ok {
		return known.([]byte)
	}
	longer := append(slices.Clone(key), '/')
	for i := int64(0); ; i++ {
		longer = strconv.AppendInt(longer[:len(key)+1], i, 10)
		if tagOf(hashOf(longer)) == tag {
			keysOfTags.Store(id, longer)
			return longer
		}
	}
}

//promise:stores
func TestClusterConformance(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	tag := 0
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		tag = (tag + 41) % tagCount
		s := openEmptied(t, servers)
		h := inWorld(t, s)
		h.Store = oneTag{s, tag}
		return h
	})
}

// Groups over several servers answer as in one store, one batch after the other.
func TestClusterAsOneStore(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	for _, coalescing := range []bool{false, true} {
		o := clusterOptions(servers)
		o.NoCoalescing = !coalescing
		s := open(t, o)
		var now limit.Micros
		setWorld(t, s, func() limit.Micros { return now })
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			now = 1_780_315_200_000_000
			one, err := memstore.New(memstore.Options{MaxBytes: 4 << 20, Now: s.clock})
			if err != nil {
				rt.Fatal(err)
			}
			for range rapid.IntRange(1, 8).Draw(rt, "batches") {
				takes := drawHits(rt, fmt.Sprintf("%t %d", coalescing, round))
				for _, takes := range [][]store.Take{dry(takes), takes} {
					got, want := takeAll(s, takes...), make([]store.Result, len(takes))
					one.Take(t.Context(), takes, want)
					for i := range takes {
						if got[i] != want[i] {
							rt.Fatalf("take %d of %+v:\n got %+v\nwant %+v", i, takes, got[i], want[i])
						}
					}
				}
				now += limit.Micros(rapid.IntRange(0, 5_000_000).Draw(rt, "later"))
			}
		})
	}
}

// drawHits draws a batch of hits in groups on a few buckets, each with a limit.
func drawHits(t *rapid.T, name string) []store.Take {
	limits := everyLimit()
	takes := make([]store.Take, rapid.IntRange(1, 12).Draw(t, "takes"))
	group := uint32(0)
	for i := range takes {
		key := rapid.IntRange(0, 11).Draw(t, "key")
		if rapid.Bool().Draw(t, "other group") {
			group = uint32(rapid.IntRange(0, 2).Draw(t, "group"))
		}
		takes[i] = store.Take{
			Key:    fmt.Appendf(nil, "%s %d", name, key),
			Limit:  limits[key%len(limits)],
			Hits:   int64(rapid.IntRange(0, 6).Draw(t, "hits")),
			Shadow: rapid.IntRange(0, 4).Draw(t, "shadow") == 0,
			Group:  group,
		}
	}
	return takes
}

// Every primary gets its part of the buckets, and one batch may be about all.
func TestClusterSpread(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys := clusterKeys()
	takes := make([]store.Take, len(keys))
	for i, key := range keys {
		takes[i] = store.Take{Key: []byte(key), Limit: tenPerHour, Hits: 3}
	}
	for round := int64(1); round <= 3; round++ {
		for i, r := range takeAll(s, takes...) {
			if r.Err != nil || !r.Allowed || r.Remaining != 10-3*round {
				t.Fatalf("round %d, key %d: %+v", round, i, r)
			}
		}
	}
	for i, key := range keys {
		b, err := s.Lookup(t.Context(), []byte(key))
		if err != nil || !b.Found || b.Name != s.Name([]byte(key)) {
			t.Fatalf("lookup of key %d: %+v, %v", i, b, err)
		}
	}
	stats := s.Stats()
	if len(stats.Shards) != 3 {
		t.Fatalf("%d shards", len(stats.Shards))
	}
	for _, sh := range stats.Shards {
		if !sh.Connected || sh.Calls == 0 || sh.Failures != 0 || sh.Redirected != 0 || sh.InFlight != 0 {
			t.Errorf("shard: %+v", sh)
		}
	}
	for _, node := range servers.Nodes {
		if n, ok := node.MustDo("DBSIZE").(int64); !ok || n < 40 || n > 46 {
			t.Errorf("%s has %v of 128 buckets", node.Addr, node.MustDo("DBSIZE"))
		}
	}
}

// The user of a cluster may do what the documentation asks for, and nothing
// else; everything over TLS.
func TestClusterUserOverTLS(t *testing.T) {
	t.Parallel()
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true, TLS: true})
	for _, node := range servers.Nodes {
		node.MustDo("ACL", "SETUSER", "app", "on", ">secret", "~hg:*",
			"+evalsha", "+eval", "+time", "+get", "+set", "+incrby", "+del", "+strlen", "+getrange", "+append", "+pexpire", "+cluster|slots", "+asking")
	}
	o := clusterOptions(servers)
	o.Username, o.Password = "app", "secret"
	s := open(t, o)
	for i, key := range clusterKeys() {
		if r := takeOne(s, key, tenPerHour, 1); r.Err != nil || !r.Allowed {
			t.Fatalf("key %d: %+v", i, r)
		}
	}
	o.Password = "wrong secret"
	wantReason(t, open(t, o), store.Denied, "user")
	o.TLS = nil
	wantReason(t, open(t, o), store.Unavailable, "TLS")
}

func TestWrongKindOfServer(t *testing.T) {
	t.Parallel()
	plain := testserver.Redis(t, testserver.RedisConfig{})
	nodes := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	watched := testserver.Sentinel(t, testserver.SentinelConfig{})
	sentinel := watched.Addrs()[0]
	cases := map[string]struct {
		o      Options
		reason store.Reason
		words  string
	}{
		"cluster as single":   {Options{Addr: nodes.Addrs()[0]}, store.Misconfigured, "redis+cluster://"},
		"single as cluster":   {Options{Cluster: []string{plain.Addr}}, store.Misconfigured, "this Redis is no cluster"},
		"sentinel as single":  {Options{Addr: sentinel}, store.Misconfigured, "redis+sentinel://"},
		"sentinel as cluster": {Options{Cluster: []string{sentinel}}, store.Misconfigured, "redis+sentinel://"},
		"single as sentinel":  {Options{Sentinel: &Sentinel{Addrs: []string{plain.Addr}, Master: "headgate"}}, store.Misconfigured, "no sentinel"},
		"cluster as sentinel": {Options{Sentinel: &Sentinel{Addrs: nodes.Addrs()[:1], Master: "headgate"}}, store.Misconfigured, "no sentinel"},
		"no such name":        {Options{Sentinel: &Sentinel{Addrs: watched.Addrs(), Master: "other"}}, store.Misconfigured, `no primary of this name: "other"`},
		"no sentinel there":   {Options{Sentinel: &Sentinel{Addrs: []string{closedAddr(t)}, Master: "headgate"}}, store.Unavailable, "is a sentinel running there"},
		"no node there":       {Options{Cluster: []string{closedAddr(t)}}, store.Unavailable, "is Redis running there"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, c.o)
			wantReason(t, s, c.reason, c.words, "hint: ")
			if err := s.Ping(t.Context()); store.ReasonOf(err) != c.reason {
				t.Errorf("ping says %v", err)
			}
		})
	}
}

// load takes hits of many keys from several goroutines until it is ended, and
// counts what passed.
type load struct {
	group   sync.WaitGroup
	ended   atomic.Bool
	passed  []atomic.Int64 // by key
	unknown []atomic.Int64 // calls without an answer, by key
	reasons sync.Map       // store.Reason -> true
}

// startLoad takes from as many goroutines as workers; batches of several keys
// hold a group now and then.
func startLoad(s *Store, keys []string, l *limit.Limit, workers int) *load {
	d := &load{passed: make([]atomic.Int64, len(keys)), unknown: make([]atomic.Int64, len(keys))}
	for w := range workers {
		d.group.Go(func() {
			for n := w; !d.ended.Load(); n++ {
				size := 1 + n%4
				takes, at := make([]store.Take, size), make([]int, size)
				for i := range takes {
					at[i] = (n*7 + i) % len(keys)
					takes[i] = store.Take{Key: []byte(keys[at[i]]), Limit: l, Hits: 1, Group: uint32(n % 2)}
				}
				for i, r := range takeAll(s, takes...) {
					switch {
					case r.Err != nil:
						d.unknown[at[i]].Add(1)
						d.reasons.Store(store.ReasonOf(r.Err), r.Err)
					case r.Allowed:
						d.passed[at[i]].Add(1)
					}
				}
			}
		})
	}
	return d
}

func (d *load) end() {
	d.ended.Store(true)
	d.group.Wait()
}

// A slot is moved, key by key, while it is in use: every hit that passes is
// counted, once, and none fails.
func TestSlotMoves(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	s := open(t, clusterOptions(servers))
	roomy := limit.Must(limit.PerDay(1_000_000_000))
	// Forty keys of one tag, so that calls carry several.
	var keys []string
	for i := 0; len(keys) < 40; i++ {
		if key := fmt.Sprintf("key %d", i); tagOf(hashOf([]byte(key))) == 5 {
			keys = append(keys, key)
		}
	}
	d := startLoad(s, keys, roomy, 8)
	counted := func() (n int64) {
		for i := range keys {
			n += d.passed[i].Load()
		}
		return n
	}
	eventually.True(t, "work", func() bool { return counted() > 500 })
	for range 3 {
		move := moveAway(servers, 5)
		move.Begin()
		for {
			// Calls meet keys on both sides.
			before := counted()
			eventually.True(t, "work in the midst of the move", func() bool { return counted() > before+50 })
			if move.MoveKeys(7) == 0 {
				break
			}
		}
		move.Finish()
		before := counted()
		eventually.True(t, "work after the move", func() bool { return counted() > before+200 })
	}
	d.end()
	d.reasons.Range(func(reason, err any) bool {
		t.Errorf("calls failed: %v", err)
		return true
	})
	for i, key := range keys {
		r := takeOne(s, key, roomy, 0)
		if used := roomy.Quota - r.Remaining; r.Err != nil || used != d.passed[i].Load() {
			t.Errorf("key %d: %d passed, %d counted, %v", i, d.passed[i].Load(), used, r.Err)
		}
	}
	wantRedirected(t, s)
}

// moveAway returns the move of the slot of a tag to a node that has not got it.
func moveAway(servers *testserver.ClusterServers, tag int) *testserver.SlotMove {
	slot := int(tags[tag].hashSlot)
	from, to := servers.SlotOwner(slot), servers.Nodes[0]
	if to == from {
		to = servers.Nodes[1]
	}
	return servers.MoveSlot(slot, from, to)
}

func wantRedirected(t *testing.T, s *Store) {
	t.Helper()
	redirected := uint64(0)
	for _, sh := range s.Stats().Shards {
		redirected += sh.Redirected
	}
	if redirected == 0 {
		t.Error("no call was redirected")
	}
}

// A primary dies. Its buckets fail until its replica has taken over, all others
// go on, and nothing has to be restarted.
func TestClusterFailover(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{})
	s := open(t, clusterOptions(servers))
	keys := clusterKeys()
	for _, key := range keys {
		if r := takeOne(s, key, tenPerHour, 1); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	slot := servers.FirstSlot(1)
	dead := servers.KillPrimary(1)
	others := 0
	eventually.True(t, "the dead primary's buckets work again", func() bool {
		healed := true
		for tag, key := range keys {
			mine := int(tags[tag].hashSlot) >= slot && int(tags[tag].hashSlot) < servers.FirstSlot(2)
			switch r := takeOne(s, key, tenPerHour, 0); {
			case mine:
				healed = healed && r.Err == nil
			case r.Err != nil:
				t.Fatalf("a bucket of another server: %v", r.Err)
			default:
				others++
			}
		}
		return healed
	})
	if others == 0 {
		t.Error("no other bucket was asked for")
	}
	for _, sh := range s.Stats().Shards {
		if sh.Addr == dead.Addr {
			eventually.True(t, "the dead server is forgotten", func() bool { return len(s.Stats().Shards) == 3 })
		}
	}
}

// A replica takes over from its living primary, which then sends callers to it:
// nothing is lost, nothing counted twice, and no call fails.
func TestClusterHandover(t *testing.T) {
	for range 5 {
		down := handOver(t)
		if down == nil {
			return
		}
		t.Logf("the servers had no time for each other, and the cluster fell apart by itself: %v", down)
	}
	t.Fatal("no cluster was up for as long as a handover takes")
}

// handOver lets a replica take over under load. It returns an error where the cluster
// itself said that it was down meanwhile, which says nothing of a handover: on a busy
// machine its servers take each other for dead.
func handOver(t *testing.T) (down error) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{})
	s := open(t, clusterOptions(servers))
	roomy := limit.Must(limit.PerDay(1_000_000_000))
	all := clusterKeys()
	keys := all[:]
	d := startLoad(s, keys, roomy, 4)
	counted := func() (n int64) {
		for i := range keys {
			n += d.passed[i].Load()
		}
		return n
	}
	eventually.True(t, "work", func() bool { return counted() > 500 })
	slot := servers.FirstSlot(0)
	old := servers.SlotOwner(slot)
	eventually.True(t, "the replica may take over", func() bool {
		_, err := servers.Nodes[3].Do("CLUSTER", "FAILOVER")
		return err == nil
	})
	servers.WaitForPrimary(slot, old)
	before := counted()
	eventually.True(t, "work after the handover", func() bool { return counted() > before+500 })
	d.end()
	var failed []error
	d.reasons.Range(func(_, err any) bool {
		failed = append(failed, err.(error))
		return true
	})
	for _, err := range failed {
		if strings.Contains(err.Error(), "CLUSTERDOWN") {
			return err
		}
	}
	for _, err := range failed {
		t.Errorf("calls failed: %v", err)
	}
	for i, key := range keys {
		r := takeOne(s, key, roomy, 0)
		if r.Err != nil && strings.Contains(r.Err.Error(), "CLUSTERDOWN") {
			return r.Err
		}
		if used := roomy.Quota - r.Remaining; r.Err != nil || used != d.passed[i].Load() {
			t.Errorf("key %d: %d passed, %d counted, %v", i, d.passed[i].Load(), used, r.Err)
		}
	}
	return nil
}

// A server that a call was redirected to stays connected for a while, though it has no slot. It
// has all calls of the tag from then on only if the slot has moved: while a slot is being moved,
// its old server still has the keys that have not moved.
func TestRedirect(t *testing.T) {
	shardAt := func(addr string) *shard { return &shard{Server: &conn.Server{Options: &Options{Addr: addr}}} }
	from, target := shardAt("a:1"), shardAt("b:2")
	r := &router{
		shards: map[string]*shard{"a:1": from, "b:2": target},
		spares: map[string]time.Time{},
		hurry:  sleep.NewNudge(),
	}
	const tag = 5
	before := new(table)
	for i := range before {
		before[i] = from
	}
	r.table.Store(before)

	if got := r.redirect(tag, from, redirection{addr: "b:2", ask: true}); got != target {
		t.Fatalf("the call goes to %p, want %p", got, target)
	}
	if got := r.table.Load()[tag]; got != from {
		t.Error("the next calls of the tag go to the server that is to get the slot")
	}
	if r.spares["b:2"].IsZero() {
		t.Fatal("the server that is to get the slot is not spared")
	}
	r.retire(r.table.Load())
	if r.shards["b:2"] != target {
		t.Error("the server that is to get the slot was retired")
	}
	if got := r.serving(); !slices.Equal(got, []*shard{from}) {
		t.Errorf("%d servers serve while b:2 has no slot, want a:1 alone", len(got))
	}

	r.redirect(tag, from, redirection{addr: "b:2"})
	for i, sh := range r.table.Load() {
		if (sh == target) != (i == tag) {
			t.Errorf("tag %d goes to %s after the slot of tag %d has moved to b:2", i, sh.Options.Addr, tag)
		}
	}
	if got := r.serving(); !slices.Equal(got, []*shard{from, target}) {
		t.Errorf("%d servers serve after the slot has moved to b:2, want both", len(got))
	}
	select {
	case <-r.hurry:
	default:
		t.Error("nobody looks up the servers after a redirection")
	}
}

// A server that a call was redirected to, and that has no slot any more, may go away: all
// buckets are elsewhere, so the store decides, and says so.
func TestClusterSpareAway(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{})
	s := open(t, clusterOptions(servers))
	from, fault := s.shard(0)
	if fault != nil {
		t.Fatal(fault)
	}
	away := servers.Nodes[3]
	away.Kill()
	if s.router.redirect(0, from, redirection{addr: away.Addr, ask: true}) == nil {
		t.Fatal("the call goes nowhere")
	}
	for _, sh := range s.Stats().Shards {
		if sh.Addr == away.Addr {
			t.Error("a server without slots is among the primaries")
		}
	}
	eventually.True(t, "the store decides", func() bool { return s.Ping(t.Context()) == nil })
}

// An address in a redirection or a view may lack the host.
func TestRedirectionOf(t *testing.T) {
	for text, want := range map[string]redirection{
		"MOVED 3999 127.0.0.1:6381": {"127.0.0.1:6381", false},
		"ASK 3999 127.0.0.1:6381":   {"127.0.0.1:6381", true},
		"MOVED 3999 :6381":          {":6381", false},
		"MOVED 3999":                {},
		"MOVED 3999 a:1 b:2":        {},
		"MOVE 3999 127.0.0.1:6381":  {},
		"TRYAGAIN":                  {},
	} {
		got, ok := redirectionOf(&resp.Error{Text: text})
		if got != want || ok != (want != redirection{}) {
			t.Errorf("%q: %+v, %v, want %+v", text, got, ok, want)
		}
	}
	if _, ok := redirectionOf(errors.New("MOVED 3999 127.0.0.1:6381")); ok {
		t.Error("what no server has said is a redirection")
	}
}

func TestResolve(t *testing.T) {
	cases := []struct{ given, want string }{
		{"10.0.0.1:6379", "10.0.0.1:6379"},
		{":6380", "seed:6380"},
		{"?:6380", "seed:6380"},
		{"fe80::1:6379", "[fe80::1]:6379"},
		{"[fe80::1]:6379", "[fe80::1]:6379"},
		{"redis-0.internal:6379", "redis-0.internal:6379"},
		{"nonsense", ""}, {"host:0", ""}, {"host:x", ""}, {"", ""},
	}
	for _, c := range cases {
		got, ok := resolve(c.given, "seed:6379")
		if got != c.want || ok != (c.want != "") {
			t.Errorf("resolve(%q) = %q, %t; want %q", c.given, got, ok, c.want)
		}
	}
}

// Nodes that announce names, or nothing, are reached by them, or by the address
// that was asked.
func TestAnnouncedNames(t *testing.T) {
	t.Parallel()
	for kind, host := range map[string]string{"hostname": "localhost", "unknown-endpoint": "127.0.0.1", "ip": "127.0.0.1"} {
		t.Run(kind, func(t *testing.T) {
			servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true, Args: []string{
				"--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", kind,
			}})
			s := open(t, clusterOptions(servers))
			for i, key := range clusterKeys() {
				if r := takeOne(s, key, tenPerHour, 1); r.Err != nil {
					t.Fatalf("key %d: %v", i, r.Err)
				}
			}
			for _, sh := range s.Stats().Shards {
				if !strings.HasPrefix(sh.Addr, host+":") {
					t.Errorf("a shard is at %s", sh.Addr)
				}
			}
		})
	}
}

// Close ends calls under way within the budget.
func TestClusterClose(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	o := clusterOptions(servers)
	o.Budget = 100 * time.Millisecond
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	keys := clusterKeys()
	d := startLoad(s, keys[:], tenPerHour, 8)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.end()
	results := make([]store.Result, 1)
	s.Take(context.Background(), []store.Take{{Key: []byte("key"), Limit: tenPerHour, Hits: 1}}, results)
	if store.ReasonOf(results[0].Err) != store.Unavailable {
		t.Errorf("after close: %+v", results[0])
	}
}
