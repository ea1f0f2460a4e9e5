package topkeys

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const twoRules = `
domain: d
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: route, rate_limit: {unit: hour, requests_per_unit: 10}}
`

func load(t testing.TB, yaml string) *rules.Set {
	t.Helper()
	return testrules.Load(t, yaml)
}

// tracker returns a Tracker that looks at everything.
func tracker(set *rules.Set, perRule int) *Tracker {
	t := New(Options{PerRule: perRule})
	t.total.init(math.MaxInt32)
	t.denied.init(math.MaxInt32)
	t.SetRules(set)
	return t
}

// asked is a request about a user, decided by the first rule of a set.
type asked struct {
	req  headgate.Request
	resp headgate.Response
}

func newAsked(rule *rules.Rule) *asked {
	return &asked{
		headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Hits: 1, Entries: []descriptor.Entry{{Key: "user"}}}}},
		headgate.Response{DomainKnown: true, Verdicts: []headgate.Verdict{{
			Rule: rule, Limit: rule.Limits[0].Limit, Depth: 1, Hits: 1,
		}}},
	}
}

func (a *asked) decided(t *Tracker, user string, allowed bool) {
	a.req.Descriptors[0].Entries[0].Value = user
	a.resp.Allowed, a.resp.Verdicts[0].Decision.Allowed = allowed, allowed
	t.Decided(&a.req, &a.resp, 0)
}

// lines is a list as text, without hashes.
func lines(list []view.TopKey) string {
	var text []string
	for _, k := range list {
		text = append(text, fmt.Sprintf("%s %s %g/%g", k.Rule, k.Key, k.Total, k.Denied))
	}
	return strings.Join(text, "\n")
}

const whatCounts = `
domain: d
match: path
descriptors:
- key: user
  rate_limit: {unit: hour, requests_per_unit: 2}
  descriptors:
  - key: route
    rate_limit: {unit: hour, requests_per_unit: 1}
- {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: free, rate_limit: {unlimited: true}}
- {key: call, concurrency: {limit: 1, hold: id}, rate_limit: {unit: hour, requests_per_unit: 1}}
- key: guess
  rate_limit: {unit: hour, requests_per_unit: 100}
  secondary_limits: [{unit: hour, requests_per_unit: 1}]
`

// Which verdicts count, by a real limiter.
func TestWhatCounts(t *testing.T) {
	set := load(t, whatCounts)
	for _, tt := range []struct {
		name, asks    string
		hits          int64
		op            store.Op
		caller        *limit.Limit
		times         int
		total, denied string
	}{
		{name: "allowed", asks: "user:a", hits: 1, times: 2, total: "d.user user:a 2/0"},
		{name: "denied", asks: "user:a", hits: 1, times: 5, total: "d.user user:a 5/3", denied: "d.user user:a 5/3"},
		{name: "whatever the hits", asks: "user:a", hits: 1000, times: 2, total: "d.user user:a 2/2", denied: "d.user user:a 2/2"},
		{name: "each rule by itself", asks: "user:a,route:r", hits: 1, times: 2,
			total: "d.user user:a 2/0\nd.user.route user:a,route:r 2/1", denied: "d.user.route user:a,route:r 2/1"},
		{name: "shadow", asks: "shadow:a", hits: 1, times: 3, total: "d.shadow shadow:a 3/0"},
		{name: "unlimited", asks: "free:a", hits: 1, times: 3},
		{name: "a secondary limit denies", asks: "guess:a", hits: 1, times: 3, total: "d.guess guess:a 3/2", denied: "d.guess guess:a 3/2"},
		{name: "peek", asks: "user:a", times: 3},
		{name: "refund", asks: "user:a", hits: 1, op: store.Refund, times: 3},
		{name: "charge", asks: "user:a", hits: 1, op: store.Charge, times: 3},
		{name: "release", asks: "id:7,call:a", hits: 1, op: store.Release, times: 3},
		{name: "caller", asks: "user:a", hits: 1, caller: limit.Must(limit.PerHour(1)), times: 3, total: "(caller) user:a 3/2", denied: "(caller) user:a 3/2"},
		{name: "unmatched", asks: "what:ever", hits: 1, times: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			buckets, err := memstore.New(memstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			seen := tracker(set, 8)
			limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Observer: seen})
			if err != nil {
				t.Fatal(err)
			}
			entries, err := descriptor.Parse(tt.asks)
			if err != nil {
				t.Fatal(err)
			}
			requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: tt.hits, Op: tt.op, Limit: tt.caller}}}}
			for range tt.times {
				if err := limiter.Check(t.Context(), requests, make([]headgate.Response, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if got := lines(seen.Top(view.ByTotal, "", 10)); got != tt.total {
				t.Errorf("by total:\n%s\nwant\n%s", got, tt.total)
			}
			if got := lines(seen.Top(view.ByDenied, "", 10)); got != tt.denied {
				t.Errorf("by denied:\n%s\nwant\n%s", got, tt.denied)
			}
		})
	}
}

// What is not the word of a limit is no denial of a key.
func TestVerdictsThatDoNotCount(t *testing.T) {
	set := load(t, twoRules)
	for name, change := range map[string]func(*headgate.Verdict){
		"on trial": func(v *headgate.Verdict) { v.Effect = verdict.Trial },
		"replaced": func(v *headgate.Verdict) { v.By = verdict.ByReplacement },
		"skipped":  func(v *headgate.Verdict) { v.By = verdict.BySkipping },
		"guessed":  func(v *headgate.Verdict) { v.By, v.Degraded = verdict.ByFailureMode, store.Timeout },
		"panicked": func(v *headgate.Verdict) { v.Descriptor = 1 },
	} {
		seen, a := tracker(set, 8), newAsked(set.Rules()[0])
		change(&a.resp.Verdicts[0])
		a.decided(seen, "a", false)
		want := map[string]int{"guessed": 1}[name]
		if total, denied := seen.Top(view.ByTotal, "", 9), seen.Top(view.ByDenied, "", 9); len(total) != want || len(denied) != 0 {
			t.Errorf("%s: %v, %v", name, total, denied)
		}
	}
	seen := tracker(set, 8)
	seen.Decided(nil, &headgate.Response{Verdicts: make([]headgate.Verdict, 1)}, 0) // of a decision that panicked
	if list := seen.Top(view.ByTotal, "", 9); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

// Top agrees with an exact count, in both orders and whatever n is.
func TestTopAgainstExactCounts(t *testing.T) {
	set := load(t, twoRules)
	rapid.Check(t, func(t *rapid.T) {
		perRule := rapid.IntRange(1, 20).Draw(t, "per rule")
		seen := tracker(set, perRule)
		users := []*asked{newAsked(set.Rules()[0]), newAsked(set.Rules()[1])}
		type count struct{ total, denied float64 }
		truth, sum := map[string]count{}, map[string]count{}
		for range rapid.IntRange(0, 500).Draw(t, "decisions") {
			of := users[rapid.IntRange(0, 1).Draw(t, "rule")]
			key := strconv.Itoa(rapid.IntRange(0, rapid.IntRange(0, 60).Draw(t, "most")).Draw(t, "user"))
			allowed := rapid.Bool().Draw(t, "allowed")
			of.decided(seen, key, allowed)
			rule := of.resp.Verdicts[0].Rule.ID
			c, s := truth[rule+" user:"+key], sum[rule]
			c.total, s.total = c.total+1, s.total+1
			if !allowed {
				c.denied, s.denied = c.denied+1, s.denied+1
			}
			truth[rule+" user:"+key], sum[rule] = c, s
		}
		n := rapid.IntRange(0, 50).Draw(t, "n")
		for _, by := range []string{view.ByTotal, view.ByDenied} {
			list := seen.Top(by, "", n)
			if len(list) > n {
				t.Fatalf("%d keys, asked for %d", len(list), n)
			}
			listed := map[string]bool{}
			unlisted := math.Inf(1) // of rules without a key in the list
			for i := range list {
				key := &list[i]
				real := truth[key.Rule+" "+key.Key]
				got, want := key.Total, real.total
				if by == view.ByDenied {
					got, want = key.Denied, real.denied
				}
				if math.Abs(got-want) > key.Error {
					t.Fatalf("by %s: %+v, but it is %+v", by, key, real)
				}
				if i > 0 && compare(by, &list[i-1], key) >= 0 {
					t.Fatalf("by %s: %+v is before %+v", by, list[i-1], key)
				}
				if key.Denied > key.Total {
					t.Fatalf("by %s: %+v", by, key)
				}
				listed[key.Rule+" "+key.Key] = true
				unlisted = min(unlisted, key.Unlisted)
			}
			for name, real := range truth {
				rule, _, _ := strings.Cut(name, " ")
				c, all := real.total, sum[rule].total
				if by == view.ByDenied {
					c, all = real.denied, sum[rule].denied
				}
				if !listed[name] && len(list) < n && c > all/float64(perRule) {
					t.Fatalf("by %s: %s is missing with %v of %v", by, name, c, all)
				}
				if !listed[name] && len(list) > 0 && c > unlistedIn(list, rule, unlisted) {
					t.Fatalf("by %s: %s is missing with %v, and the list says %v", by, name, c, unlistedIn(list, rule, unlisted))
				}
			}
		}
	})
}

func unlistedIn(list []view.TopKey, rule string, other float64) float64 {
	for i := range list {
		if list[i].Rule == rule {
			return list[i].Unlisted
		}
	}
	return other
}

// Merged lists agree with an exact count over all nodes.
func TestMergeAgainstExactCounts(t *testing.T) {
	set := load(t, twoRules)
	hasher := keyname.Random()
	rapid.Check(t, func(t *rapid.T) {
		by := rapid.SampledFrom([]string{view.ByTotal, view.ByDenied}).Draw(t, "by")
		truth, names := map[string]float64{}, map[string]string{}
		var lists [][]view.TopKey
		for range rapid.IntRange(0, 4).Draw(t, "nodes") {
			seen := tracker(set, rapid.IntRange(1, 12).Draw(t, "per rule"))
			seen.hasher = hasher
			for range rapid.IntRange(0, 100).Draw(t, "decisions") {
				rule := set.Rules()[rapid.IntRange(0, 1).Draw(t, "rule")]
				user := strconv.Itoa(rapid.IntRange(0, rapid.IntRange(0, 30).Draw(t, "most")).Draw(t, "user"))
				newAsked(rule).decided(seen, user, by == view.ByTotal)
				id := rule.ID + " " + hasher.Hash("d", "user:"+user)
				truth[id]++
				names[id] = user
			}
			lists = append(lists, seen.Top(by, "", rapid.IntRange(0, 12).Draw(t, "listed")))
		}
		lists = lists[:len(lists):len(lists)]
		n := rapid.IntRange(0, 30).Draw(t, "n")
		merged := Merge(by, n, lists...)
		if len(merged) > n {
			t.Fatalf("%d keys, asked for %d", len(merged), n)
		}
		empty := false // a list of none says nothing
		for _, list := range lists {
			empty = empty || len(list) == 0
		}
		for i := range merged {
			key := &merged[i]
			id := key.Rule + " " + key.Hash
			if real := truth[id]; !empty && math.Abs(countOf(by, key)-real) > key.Error+slack {
				t.Fatalf("%+v, but it is %v", key, real)
			}
			if key.Key != "user:"+names[id] || i > 0 && compare(by, &merged[i-1], key) >= 0 {
				t.Fatalf("%+v", merged)
			}
			delete(truth, id)
		}
		for id, real := range truth {
			rule, _, _ := strings.Cut(id, " ")
			if unlisted := unlistedOf(merged); !empty && len(merged) > 0 && real > unlisted.of(rule)+slack {
				t.Fatalf("%s is missing with %v, and the list says %v", id, real, unlisted.of(rule))
			}
		}
	})
}

func TestMergeOfAFewKeysIsExact(t *testing.T) {
	a := []view.TopKey{{Rule: "r", Hash: "1", Key: "user:a", Total: 10, Denied: 1}, {Rule: "r", Hash: "2", Total: 3}}
	b := []view.TopKey{{Rule: "s", Hash: "1", Total: 7}, {Rule: "r", Hash: "1", Total: 5, Denied: 2}}
	got := Merge(view.ByTotal, 10, a, b, nil)
	if text := fmt.Sprint(got); text != "[{r 1 user:a 15 3 0 0} {s 1  7 0 0 0} {r 2  3 0 0 0}]" {
		t.Error(text)
	}
	if got := Merge(view.ByDenied, 1, a, b); len(got) != 1 || got[0].Denied != 3 {
		t.Error(got)
	}
	if got, err := json.Marshal(Merge(view.ByTotal, -1, a)); err != nil || string(got) != "[]" {
		t.Error(string(got), err)
	}
}

// What a request brings cannot harm who reads the list, and is copied.
func TestHostileKeys(t *testing.T) {
	set := load(t, twoRules)
	seen, a := tracker(set, 8), newAsked(set.Rules()[0])
	for _, user := range []string{"a\nb\x1b[2J\x00", "</script><script>alert(1)</script>", "\xff\xfe\u202e\u2028\u0085", strings.Repeat("é", 40_000)} {
		a.decided(seen, user, false)
	}
	for _, key := range seen.Top(view.ByDenied, "", 9) {
		if len(key.Key) > keyname.MaxText || !utf8.ValidString(key.Key) || strings.ContainsAny(key.Key, "\x00\n\x1b\u202e\u2028\u0085") {
			t.Errorf("%.80q", key.Key)
		}
	}
	memory := []byte("first")
	a.decided(seen, unsafe.String(&memory[0], len(memory)), false)
	copy(memory, "other")
	if got := lines(seen.Top(view.ByDenied, "", 9)); !strings.Contains(got, "user:first") || strings.Contains(got, "other") {
		t.Errorf("%.200s", got)
	}
}

// Hashes of keys are those of the node's Hasher, and of two domains not the same.
func TestHashes(t *testing.T) {
	hasher := keyname.Random()
	seen := New(Options{Hasher: hasher})
	for _, domain := range []string{"d", "e"} {
		req := headgate.Request{Domain: domain, Descriptors: []headgate.Descriptor{{Hits: 1, Entries: []descriptor.Entry{{Key: "k", Value: "v"}}}}}
		seen.Decided(&req, &headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{Limit: limit.Must(limit.PerHour(1)), Hits: 1, Decision: limit.Decision{Allowed: true}}}}, 0)
	}
	got := map[string]bool{}
	for _, key := range seen.Top(view.ByTotal, callerRule, 9) {
		got[key.Hash] = true
	}
	if len(got) != 2 || !got[hasher.Hash("d", "k:v")] || !got[hasher.Hash("e", "k:v")] {
		t.Errorf("%v", got)
	}
}

// Any number of keys that nobody has seen before take no more memory than some thousands.
func TestMemoryIsBounded(t *testing.T) {
	set := load(t, twoRules)
	seen, a := tracker(set, defaultPerRule), newAsked(set.Rules()[0])
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			a.decided(seen, strconv.FormatUint(hashOf(i), 36), i%2 == 0)
		}
	}
	const keys = 300_000
	ask(0, 20_000)
	before := heap()
	ask(20_000, keys)
	grown := heap() - before
	if s := seen.Stats(); s.Tracked != 2*defaultPerRule || s.Evicted < keys {
		t.Errorf("%+v", s)
	}
	if grown > 64<<10 {
		t.Errorf("%d bytes more for %d keys", grown, keys)
	}
	if n := seen.NewKeys()["d.user"]; math.Abs(n-keys) > 5*0.063*keys {
		t.Errorf("%d keys, estimated %v", keys, n)
	}
	runtime.KeepAlive(seen)
}

func TestDecidedDoesNotAllocate(t *testing.T) {
	set := load(t, twoRules)
	seen, a := tracker(set, 16), newAsked(set.Rules()[0])
	users := make([]string, 4096)
	for i := range users {
		users[i] = fmt.Sprintf("user-%06d", i)
	}
	i := 0
	ask := func() { a.decided(seen, users[i%len(users)], i%3 > 0); i++ }
	for range 2 * len(users) {
		ask() // until texts and sketches have their room
	}
	if n := alloctest.PerRun(10_000, ask); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestManyAtOnce(t *testing.T) {
	set := load(t, twoRules)
	seen := New(Options{PerRule: 8})
	seen.SetRules(set)
	seen.begin(time.Now())
	const workers, each = 8, 5_000
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			a := newAsked(set.Rules()[worker%2])
			for i := range each {
				a.decided(seen, strconv.Itoa(i%20), i%2 == 0)
			}
		})
	}
	all.Go(func() {
		for i := range 50 {
			seen.tick(time.Now().Add(time.Duration(i)*fadeEvery), time.Second)
			seen.SetRules(set)
			seen.NewKeys()
			seen.Stats()
			seen.Top(view.ByDenied, "", 5)
		}
	})
	all.Wait()
	if s := seen.Stats(); s.Seen == 0 || s.Tracked > s.Capacity {
		t.Errorf("%+v", s)
	}
}

// BenchmarkDecided asks about a hundred thousand users; seeds has each goroutine ask about
// them in an order of its own.
func BenchmarkDecided(b *testing.B) {
	set := load(b, twoRules)
	var seeds atomic.Int64
	users := make([]string, 100_000)
	for i := range users {
		users[i] = fmt.Sprintf("user-%06d", i)
	}
	for _, bench := range []struct {
		name    string
		allowed bool
		all     bool // sampled
	}{{"allowed", true, false}, {"denied", false, false}, {"allowed/all_sampled", true, true}, {"denied/all_sampled", false, true}} {
		b.Run(bench.name, func(b *testing.B) {
			seen := tracker(set, 64)
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			if !bench.all {
				seen.total.init(budget)
				seen.denied.init(budget)
				running.Go(func() { seen.Run(ctx) })
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				a := newAsked(set.Rules()[0])
				for i := seeds.Add(1) * 7919; pb.Next(); i++ {
					a.decided(seen, users[hashOf(int(i))%uint64(len(users))], bench.allowed)
				}
			})
			cancel()
			running.Wait()
		})
	}
}

func BenchmarkTop(b *testing.B) {
	set := load(b, twoRules)
	seen, a := tracker(set, 1024), newAsked(set.Rules()[0])
	for i := range 10_000 {
		a.decided(seen, strconv.Itoa(i), true)
	}
	b.ReportAllocs()
	for b.Loop() {
		seen.Top(view.ByTotal, "", 50)
	}
}
