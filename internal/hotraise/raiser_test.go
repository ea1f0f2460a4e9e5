package hotraise

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/redisstore"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const policy = `
domain: d
descriptors:
  - {key: user, raise_hot_keys: {by: 20, for: 10m, pause: 1h}, rate_limit: {unit: minute, requests_per_unit: 1000}}
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 1000}}
`

// node is one that shares raises.
type node struct {
	*Raiser
	t    *testing.T
	now  time.Time
	set  *rules.Set
	log  strings.Builder
	told []Raise
	keys []string
	full int
}

func nodes(t *testing.T, n int) ([]*node, *testserver.RedisServer) {
	t.Helper()
	server := testserver.Redis(t, testserver.RedisConfig{})
	var list []*node
	for range n {
		list = append(list, join(t, server))
	}
	return list, server
}

func join(t *testing.T, server *testserver.RedisServer) *node {
	t.Helper()
	redis, err := redisstore.New(redisstore.Options{Addr: server.Addr, Budget: eventually.Patience, DialTimeout: eventually.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Close() })
	one := &node{t: t, now: noon, set: parse(t, policy)}
	one.Raiser = New(Options{
		Register: redis, Rules: func() *rules.Set { return one.set }, Node: "n1", Now: func() time.Time { return one.now },
		OnRaise: func(r Raise, key []byte) { one.told, one.keys = append(one.told, r), append(one.keys, string(key)) },
		OnFull:  func(string) { one.full++ },
		Logger:  slog.New(slog.NewTextHandler(&one.log, nil)),
	})
	return one
}

func parse(t *testing.T, yaml string) *rules.Set {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte(yaml)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// sync looks until the store has answered.
func (n *node) sync() {
	n.t.Helper()
	eventually.True(n.t, "the store answers", func() bool {
		n.look(n.t.Context())
		return !n.failing
	})
}

// raiseOf is what a decision is told of a key.
func (n *node) raiseOf(rule, key string) int {
	return n.RaiseOf(rule, []byte(key), limit.MicrosOf(n.now))
}

// A key that is hot on any of three nodes is raised once, on all of them, and ends by
// itself; after its pause, and not before, it may be raised again.
func TestD6OneRaiseOfAKeyAndPause(t *testing.T) {
	list, _ := nodes(t, 3)
	at := func(now time.Time) {
		for _, n := range list {
			n.now = now
		}
	}
	hot := func() (told int) {
		for _, n := range list {
			n.Hot("d.user", []byte("ann"))
		}
		for range 2 { // the second time all have heard of what the others did
			for _, n := range list {
				n.sync()
			}
		}
		for _, n := range list {
			told += len(n.told)
		}
		return told
	}
	raised := func(what string, want int) {
		t.Helper()
		for i, n := range list {
			if got := n.raiseOf("d.user", "ann"); got != want {
				t.Errorf("%s: raised by %d on node %d, want %d", what, got, i, want)
			}
			if in := len(n.List()) == 1; in != (want > 0) {
				t.Errorf("%s: %d in the list of node %d", what, len(n.List()), i)
			}
		}
	}
	raised("at first", 0)
	if told := hot(); told != 1 {
		t.Fatalf("three nodes raised it %d times", told)
	}
	raised("hot", 20)
	for i, n := range list {
		if n.raiseOf("d.user", "bob") != 0 || n.raiseOf("d.plain", "ann") != 0 {
			t.Errorf("node %d raises another key, or another rule", i)
		}
	}
	if one := list[0].told; len(one) != 1 || list[0].keys[0] != "ann" ||
		one[0] != (Raise{KeyOf([]byte("ann")), "d.user", 20, noon, noon.Add(10 * time.Minute), noon.Add(70 * time.Minute), "n1"}) {
		t.Errorf("told %+v of %q", one, list[0].keys)
	}
	for _, step := range []struct {
		after time.Duration
		told  int
		by    int
	}{
		{10*time.Minute - time.Millisecond, 1, 20},
		{10 * time.Minute, 1, 0},
		{70*time.Minute - time.Millisecond, 1, 0},
		{70 * time.Minute, 2, 20},
		{80 * time.Minute, 2, 0},
	} {
		at(noon.Add(step.after))
		if told := hot(); told != step.told {
			t.Errorf("after %v: raised %d times so far, want %d", step.after, told, step.told)
		}
		raised(fmt.Sprint("after ", step.after), step.by)
	}
}

// A rule that says nothing raises nothing, a sensitive one neither, and who takes the words
// out of a rule asks the store no more.
func TestD6OnlyWhereTheRuleSaysSo(t *testing.T) {
	list, _ := nodes(t, 1)
	n := list[0]
	n.Hot("d.plain", []byte("p"))
	n.Hot("d.gone", []byte("g"))
	n.sync()
	guarded := parse(t, policy)
	n.set = guarded
	for _, r := range guarded.Rules() {
		r.Sensitive = true // no file can say so beside raise_hot_keys
	}
	n.Hot("d.user", []byte("s"))
	n.sync()
	n.set = parse(t, policy)
	n.Hot("d.user", []byte("late"))
	n.set = parse(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 9}}]")
	n.sync()
	n.set = parse(t, policy)
	n.set.Rules()[0].HotRaise = rules.HotRaise{} // of the rule that waits alone
	n.sync()
	if len(n.told) != 0 || n.known.Load() != nil {
		t.Errorf("%+v", n.told)
	}
}

// A Redis that has lost everything gets back what a living node knows, so that no key is
// raised again before its pause is over.
func TestD6LostRaisesArePutBack(t *testing.T) {
	list, server := nodes(t, 2)
	list[0].Hot("d.user", []byte("ann"))
	list[0].sync()
	server.MustDo("FLUSHALL")
	list[1].now = noon.Add(time.Second)
	list[1].Hot("d.user", []byte("bob")) // it has never heard of ann
	list[1].sync()
	list[0].sync()
	late := join(t, server)
	late.now = noon.Add(2 * time.Second)
	late.sync()
	late.Hot("d.user", []byte("ann"))
	late.sync()
	if len(late.told) != 0 || late.raiseOf("d.user", "ann") != 20 || late.raiseOf("d.user", "bob") != 20 {
		t.Errorf("raised again %+v, knows %+v", late.told, late.List())
	}
}

// No more than MaxKeys are raised or pause; one more is when the first pause is over.
func TestD6RaisesAreBounded(t *testing.T) {
	list, server := nodes(t, 1)
	n := list[0]
	for i := range MaxKeys + 3 {
		n.Hot("d.user", fmt.Append(nil, i))
		n.sync()
	}
	if len(n.told) != MaxKeys || n.full != 3 || len(n.List()) != MaxKeys {
		t.Errorf("%d raised, %d not, %d in the list", len(n.told), n.full, len(n.List()))
	}
	other := join(t, server)
	other.sync()
	if len(other.List()) != MaxKeys {
		t.Errorf("%d on another node", len(other.List()))
	}
	n.now = noon.Add(70 * time.Minute)
	n.Hot("d.user", []byte("later"))
	n.sync()
	if len(n.told) != MaxKeys+1 || len(n.List()) != 1 {
		t.Errorf("%d raised, %d in the list", len(n.told), len(n.List()))
	}
	for i := range 2 * maxWaiting {
		n.Hot("d.user", fmt.Append(nil, "wait", i))
	}
	if len(n.waiting) != maxWaiting {
		t.Errorf("%d wait, want %d", len(n.waiting), maxWaiting)
	}
}

// Garbage in the store changes nothing, raises nothing, and is not written over.
func TestD6GarbageInTheStore(t *testing.T) {
	list, _ := nodes(t, 1)
	n := list[0]
	n.Hot("d.user", []byte("ann"))
	n.sync()
	good := n.told[0]
	entry := func(change string) string {
		text := fmt.Sprintf(`{"format":1,"raises":[{"key":"%x","rule":"d.user","by":20,"from_ms":%d,"until_ms":%d,"again_ms":%d,"node":"n"}]}`,
			good.Key, good.From.UnixMilli(), good.Until.UnixMilli(), good.Again.UnixMilli())
		old, changed, _ := strings.Cut(change, "=>")
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %s", text, old)
		}
		return strings.Replace(text, old, changed, 1)
	}
	if all, err := decode([]byte(entry("d.user=>d.user")), noon); err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if all, err := decode([]byte(entry("d.user=>d.user")), noon.Add(-maxAhead)); err != nil || len(all) != 0 {
		t.Errorf("a raise that begins in an hour: %v, %v", all, err)
	}
	var bad []string
	for _, change := range []string{
		`"format":1=>"format":2`, `"by":20=>"by":0`, `"by":20=>"by":101`, `"rule":"d.user"=>"rule":""`, `"key":"=>"key":"00`, `"key":"=>"key":"x`,
		fmt.Sprintf(`"until_ms":%d=>"until_ms":%d`, good.Until.UnixMilli(), good.From.UnixMilli()),
		fmt.Sprintf(`"until_ms":%d=>"until_ms":%d`, good.Until.UnixMilli(), good.From.Add(25*time.Hour).UnixMilli()),
		fmt.Sprintf(`"again_ms":%d=>"again_ms":%d`, good.Again.UnixMilli(), good.Until.UnixMilli()),
		fmt.Sprintf(`"again_ms":%d=>"again_ms":%d`, good.Again.UnixMilli(), int64(1)<<62),
		`"rule":"d.user"=>"rule":"` + strings.Repeat("r", maxRule+1) + `"`, `"node":"n"=>"node":"n","more":1`, `{"format"=>"format"`,
	} {
		bad = append(bad, entry(change))
	}
	for i, text := range bad {
		if done, err := n.o.Register.ReplaceRegister(t.Context(), register, n.at+int64(i), n.at+int64(i)+1, []byte(text)); err != nil || !done {
			t.Fatal(done, err)
		}
		n.Hot("d.user", []byte("bob"))
		n.look(t.Context())
		if !n.failing || len(n.told) != 1 || n.raiseOf("d.user", "ann") != 20 {
			t.Errorf("%s: failing %v, told %d", text, n.failing, len(n.told))
		}
	}
	if lines := strings.Count(n.log.String(), "cannot be read"); lines != 1 {
		t.Errorf("%d lines in the log, want 1: %s", lines, n.log.String())
	}
}

// What a decision asks allocates nothing.
func TestD6RaiseOfDoesNotAllocate(t *testing.T) {
	list, _ := nodes(t, 1)
	n := list[0]
	n.Hot("d.user", []byte("ann"))
	n.sync()
	key, at := []byte("ann"), limit.MicrosOf(noon)
	if n.RaiseOf("d.user", key, at) != 20 {
		t.Fatal("not raised")
	}
	if allocs := testing.AllocsPerRun(100, func() { n.RaiseOf("d.user", key, at) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
