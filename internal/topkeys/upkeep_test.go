package topkeys

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/view"
)

// interval returns how many requests a sample stands for.
func (g *gate) interval() uint64 { return always / g.threshold.Load() }

// A node that decides more than is looked at estimates, within its bound: each interval k
// adds k-1 times the count to the variance, at most. Seven standard deviations are exceeded
// once in 10^11 runs.
func TestSampledCounts(t *testing.T) {
	set := load(t, twoRules)
	seen := New(Options{PerRule: 64})
	seen.total.init(2000)
	seen.SetRules(set)
	now := time.Now()
	seen.begin(now)
	a := newAsked(set.Rules()[0])
	random := rand.New(rand.NewPCG(1, 2))
	const decisions = 200_000
	truth := map[string]float64{}
	most := 1.0
	for i := range decisions {
		// A third are of three keys, the rest of a hundred thousand.
		user := strconv.Itoa(random.IntN(100_000))
		if random.IntN(3) == 0 {
			user = "hot" + strconv.Itoa(random.IntN(3))
		}
		a.decided(seen, user, true)
		truth[user]++
		most = max(most, float64(seen.total.interval()))
		if i%50_000 == 49_999 {
			seen.tick(now, time.Second)
		}
	}
	if most < 10 || seen.Stats().Seen > decisions/4 {
		t.Fatalf("one of %v was looked at, %+v", most, seen.Stats())
	}
	list := seen.Top(view.ByTotal, "d.user", 3)
	if len(list) != 3 {
		t.Fatalf("%v", list)
	}
	for _, key := range list {
		real := truth[strings.TrimPrefix(key.Key, "user:")]
		if off := 7 * math.Sqrt(most*real); math.Abs(key.Total-real) > key.Error+off || real < decisions/10 {
			t.Errorf("%+v, but it is %v, give or take %v", key, real, off)
		}
	}
}

// However many are allowed, the one that is denied is seen.
func TestOneDenialIsSeenInAFlood(t *testing.T) {
	set := load(t, twoRules)
	seen := New(Options{})
	seen.SetRules(set)
	a := newAsked(set.Rules()[0])
	for range 200_000 {
		a.decided(seen, "many", true)
	}
	a.decided(seen, "one", false)
	// By chance it is among the samples of all requests too, and stands for others there.
	if list := seen.Top(view.ByDenied, "", 9); len(list) != 1 || list[0].Key != "user:one" || list[0].Denied != 1 {
		t.Errorf("%v", list)
	}
	if k := seen.total.interval(); k < 16 {
		t.Errorf("one of %d is looked at", k)
	}
}

// The gate follows the load up, at once, and down with the next ticks.
func TestGateFollowsTheLoad(t *testing.T) {
	var g gate
	g.init(1000)
	offer := func(n int) (passed, stood uint64) {
		for range n {
			if weight := g.pass(); weight > 0 {
				passed++
				stood += weight
			}
		}
		return passed, stood
	}
	if passed, stood := offer(900); passed != 900 || stood != 900 {
		t.Errorf("%d passed, for %d, of few", passed, stood)
	}
	// A thousand times the budget in the second in which nobody expected it.
	if passed, _ := offer(1_000_000); passed > 20_000 {
		t.Errorf("%d passed of a burst", passed)
	}
	g.tick(time.Second)
	for range 5 {
		// Variances: of what passes a thousand, of what it stands for k times the number.
		passed, stood := offer(1_000_000)
		if math.Abs(float64(passed)-1000) > 7*math.Sqrt(1000)+300 || math.Abs(float64(stood)-1e6) > 7*math.Sqrt(4*1000*1e6) {
			t.Errorf("%d passed, for %d, at %d", passed, stood, g.interval())
		}
		g.tick(time.Second)
	}
	// By chance one of the ten passes, and stands for a thousand. The next ones do not.
	for range 2 {
		offer(10)
		g.tick(time.Second)
	}
	if passed, _ := offer(500); passed != 500 {
		t.Errorf("%d of 500 passed when it was quiet again", passed)
	}
	g.setInterval(math.MaxUint64)
	if g.interval() != maxInterval {
		t.Errorf("interval %d", g.interval())
	}
}

// TestGateCountsKeys: where each sample has three keys, a third as many samples pass.
func TestGateCountsKeys(t *testing.T) {
	var g gate
	g.init(3000)
	offer := func(n int) (passed int) {
		for range n {
			if g.pass() > 0 {
				passed++
				g.has(3)
			}
		}
		return passed
	}
	// 6,000 keys are left, which are 2,000 samples; then it closes by 4, and again with every 500.
	if passed := offer(1_000_000); passed < 2_000 || passed > 8_000 {
		t.Errorf("%d passed of a burst", passed)
	}
	g.tick(time.Second)
	if passed := offer(1_000_000); math.Abs(float64(passed)-1000) > 7*math.Sqrt(1000)+300 {
		t.Errorf("%d passed, of three keys each, of a budget of 3,000", passed)
	}
	g.tick(time.Second)
	g.has(0) // of what no rule counts
	if left := g.left.Load(); left != reserve*3000 {
		t.Errorf("%d left", left)
	}
}

// TestSamplesAreCountedByTheirKeys: a Tracker tells its gates how many keys it has looked at, and
// those that were denied.
func TestSamplesAreCountedByTheirKeys(t *testing.T) {
	set := load(t, twoRules)
	seen := New(Options{})
	seen.SetRules(set)
	a := newAsked(set.Rules()[0])
	one := a.resp.Verdicts[0]
	other := one
	other.Rule = set.Rules()[1]
	a.resp.Verdicts = []headgate.Verdict{one, other}
	a.decided(seen, "u", true)
	if total, denied := seen.total.more.Load(), seen.denied.more.Load(); total != 1 || denied != 0 {
		t.Errorf("beyond the first: %d keys, %d denied", total, denied)
	}
	a.resp.Allowed = false
	for i := range a.resp.Verdicts {
		a.resp.Verdicts[i].Decision.Allowed = false
	}
	seen.Decided(&a.req, &a.resp, 0)
	if total, denied := seen.total.more.Load(), seen.denied.more.Load(); total != 2 || denied != 1 {
		t.Errorf("after a denial, beyond the first: %d keys, %d denied", total, denied)
	}
}

// TestLongKeysAreToldApart, as short ones are.
func TestLongKeysAreToldApart(t *testing.T) {
	seen := New(Options{})
	long := strings.Repeat("x", usualKey)
	hashes := map[uint64]string{}
	for name, entries := range map[string][]descriptor.Entry{
		"short":         {{Key: "k", Value: "v"}},
		"parted":        {{Key: "kv", Value: ""}},
		"long":          {{Key: "k", Value: long}},
		"longer":        {{Key: "k", Value: long + "x"}},
		"parted longer": {{Key: "kx", Value: long}},
		"two":           {{Key: "k", Value: "v"}, {Key: "k", Value: long}},
	} {
		h := seen.hash("d", entries)
		if other, taken := hashes[h]; taken {
			t.Errorf("%s has the hash of %s", name, other)
		}
		if hashes[h] = name; h != seen.hash("d", entries) {
			t.Errorf("%s has two hashes", name)
		}
	}
}

func TestCountsFade(t *testing.T) {
	set := load(t, twoRules)
	seen, a := tracker(set, 8), newAsked(set.Rules()[0])
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen.begin(now)
	for range 64 {
		a.decided(seen, "a", false)
	}
	pass := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); {
			now = now.Add(time.Second)
			seen.tick(now, time.Second)
		}
	}
	pass(halfLife)
	if list := seen.Top(view.ByDenied, "", 9); len(list) != 1 || math.Abs(list[0].Denied-32) > 0.01 || math.Abs(list[0].Total-32) > 0.01 {
		t.Fatalf("%v", list)
	}
	pass(9 * halfLife)
	if list := seen.Top(view.ByDenied, "", 9); len(list) != 0 || seen.Stats().Tracked != 0 {
		t.Errorf("%v, %+v", list, seen.Stats())
	}
	if n := seen.counted.Load(); n != 0 {
		t.Errorf("%d rules have summaries, with nothing in them", n)
	}
	seen.tick(now, -time.Hour) // a clock that steps back
	a.decided(seen, "a", false)
	if list := seen.Top(view.ByTotal, "", 9); len(list) != 1 || list[0].Total != 1 {
		t.Errorf("%v", list)
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := load(t, twoRules)
		seen, a := tracker(set, 8), newAsked(set.Rules()[0])
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); seen.Run(ctx) }()
		synctest.Wait()
		for i := range 100 {
			a.decided(seen, strconv.Itoa(i%10), true)
		}
		if n := seen.NewKeys()["d.user"]; n != 10 {
			t.Errorf("%v keys in the minute under way", n)
		}
		time.Sleep(90 * time.Second)
		if n := seen.NewKeys()["d.user"]; n != 10 {
			t.Errorf("%v keys in the minute before", n)
		}
		time.Sleep(time.Minute)
		if n := seen.NewKeys()["d.user"]; n != 0 {
			t.Errorf("%v keys of long ago", n)
		}
		cancel()
		<-ended
	})
}

func TestRulesThatStayKeepTheirCounts(t *testing.T) {
	set := load(t, twoRules)
	seen := tracker(set, 8)
	for _, rule := range set.Rules() {
		newAsked(rule).decided(seen, "a", true)
	}
	next := load(t, `
domain: d
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 99}}
- {key: new, rate_limit: {unit: minute, requests_per_unit: 99}}
`)
	seen.SetRules(next)
	newAsked(set.Rules()[0]).decided(seen, "a", true) // of a request that was under way
	newAsked(set.Rules()[1]).decided(seen, "a", true)
	for _, rule := range next.Rules() {
		newAsked(rule).decided(seen, "a", true)
	}
	if got := lines(seen.Top(view.ByTotal, "", 9)); got != "d.user user:a 3/0\nd.new user:a 1/0" {
		t.Error(got)
	}
	if got := lines(seen.Top(view.ByTotal, "d.new", 9)); got != "d.new user:a 1/0" {
		t.Error(got)
	}
	if got := seen.Top(view.ByTotal, "d.route", 9); len(got) != 0 {
		t.Error(got)
	}
	seen.SetRules(nil)
	if n := seen.counted.Load(); n != 0 || len(seen.Top(view.ByTotal, "", 9)) != 0 {
		t.Errorf("%d rules have summaries, and there are none", n)
	}
}

// Where there is no room for all rules the busy ones have it.
func TestQuietRulesGiveWay(t *testing.T) {
	var yaml strings.Builder
	yaml.WriteString("domain: d\ndescriptors:\n")
	const all, room = 6, 2
	for i := range all {
		fmt.Fprintf(&yaml, "- {key: k%d, rate_limit: {unit: hour, requests_per_unit: 1}}\n", i)
	}
	set := load(t, yaml.String())
	seen := tracker(set, 8)
	seen.maxRules = room
	now := time.Now()
	seen.begin(now)
	for range 3 {
		for i, rule := range set.Rules() {
			for range i*i + 1 {
				newAsked(rule).decided(seen, "a", true)
			}
		}
		now = now.Add(fadeEvery)
		seen.tick(now, fadeEvery)
		if n := seen.counted.Load(); n > room {
			t.Fatalf("%d rules have summaries", n)
		}
	}
	if keys := seen.NewKeys(); len(keys) != room || seen.Top(view.ByTotal, "d.k5", 1) == nil {
		t.Errorf("%v", keys)
	} else if _, ok := keys["d.k5"]; !ok {
		t.Errorf("the busiest rule has no summary: %v", keys)
	}
	if list := seen.Top(view.ByTotal, "d.k4", 1); len(list) != 1 {
		t.Errorf("%v", list)
	}
}
