package local_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/memstore"
)

var whole = &store.Mode{Whole: true}

//promise:outage-goes-on
func TestFallbackBeginsWhereTheStoreEnded(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket, limit.GCRA} {
		l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: 100, Period: time.Hour})
		told, _ := limit.Decide(l, limit.State{}, noon, 40)
		for name, c := range map[string]struct {
			mode *store.Mode
			want int64
		}{"whole": {whole, 60}, "share": {nil, 15}} {
			f := open(t, func() int { return 4 }, func() limit.Micros { return noon }).Fallback(func(*store.Take, limit.Micros) (limit.State, bool) { return told, true })
			if got := admitted(t, f, store.Take{Key: []byte("k"), Limit: l, Hits: 1, Mode: c.mode}, 200); got != c.want {
				t.Errorf("%v, %s: %d pass, want %d", algorithm, name, got, c.want)
			}
		}
	}
}

// Where nodes are asked in turn, none of them denies what fits into the limit, however
// often the store answers between, and though the answer that a node has heard last may
// tell of hits that came after its own.
//
//promise:outage-shares
func TestEvenTrafficFitsIntoItsShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		quota := int64(nodes * rapid.IntRange(1, 12).Draw(t, "share"))
		l := limit.Must(limit.Spec{Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow}).Draw(t, "algorithm"), Quota: quota, Period: 1000 * time.Hour})
		clock := func() limit.Micros { return noon }
		told := make([]int64, nodes)
		fallbacks := make([]store.Store, nodes)
		for i := range fallbacks {
			own, err := local.New(local.Options{Nodes: func() int { return nodes }, MaxBytes: memstore.MinMaxBytes, Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			fallbacks[i] = own.Fallback(func(*store.Take, limit.Micros) (limit.State, bool) {
				state, _ := limit.Charge(l, limit.State{}, noon, told[i])
				return state, told[i] > 0
			})
		}
		ask := func(i int) bool {
			var results [1]store.Result
			fallbacks[i].Take(context.Background(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1}}, results[:])
			return results[0].Allowed
		}
		counted := int64(0)
		for n := range int(quota) {
			i := n % nodes
			if rapid.Bool().Draw(t, "answers") {
				counted++
				late := int64(rapid.IntRange(0, nodes-1).Draw(t, "late")) // hits of others that overtook it
				told[i] = min(counted+late, int64(n+nodes), quota-1)
				continue
			}
			if !ask(i) {
				t.Fatalf("hit %d of %d, by node %d of %d that was told of %d, is denied", n+1, quota, i, nodes, told[i])
			}
		}
	})
}

// A node that knows that a limit is used up lets nothing pass, whatever its share is.
func TestNothingIsLeftToShare(t *testing.T) {
	for quota := int64(1); quota < 10; quota++ {
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: quota, Period: time.Hour})
		told, _ := limit.Charge(l, limit.State{}, noon, quota)
		f := open(t, func() int { return 4 }, func() limit.Micros { return noon }).Fallback(func(*store.Take, limit.Micros) (limit.State, bool) { return told, true })
		if got := admitted(t, f, store.Take{Key: []byte("k"), Limit: l, Hits: 1}, 3); got != 0 {
			t.Errorf("%d of a limit of %d that is used up", got, quota)
		}
	}
}

func TestFallbackKnowsWhoIsBanned(t *testing.T) {
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 2, Period: time.Minute, BanFor: time.Hour})
	told, _ := limit.Charge(l, limit.State{}, noon, 2)
	f := open(t, nil, func() limit.Micros { return noon }).Fallback(func(t *store.Take, _ limit.Micros) (limit.State, bool) {
		return told, string(t.Key) == "bad"
	})
	for key, want := range map[string]int64{"bad": 0, "good": 3} {
		if got := admitted(t, f, store.Take{Key: []byte(key), Limit: l, Hits: 1, Mode: whole}, 3); got != want {
			t.Errorf("%s: %d pass, want %d", key, got, want)
		}
	}
}

// Single answers that fail between good ones do not open the limit: what a node lets
// pass by itself is what was left by the last count that it heard of, for any order of
// answers of the store to this node and to others.
//
//promise:outage-goes-on
func TestNoiseGivesNoNewLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const quota, nodes = 20, 3
		l := limit.Must(limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket, limit.GCRA}).Draw(t, "algorithm"),
			Quota:     quota, Period: 1000 * time.Hour,
		})
		shared, err := memstore.New(memstore.Options{MaxBytes: memstore.MinMaxBytes, Now: func() limit.Micros { return noon }})
		if err != nil {
			t.Fatal(err)
		}
		var told [nodes]limit.State
		var known [nodes]int64 // hits that node i heard of, or let pass itself since
		var fallbacks [nodes]store.Store
		for i := range fallbacks {
			own, err := local.New(local.Options{MaxBytes: memstore.MinMaxBytes, Now: func() limit.Micros { return noon }})
			if err != nil {
				t.Fatal(err)
			}
			fallbacks[i] = own.Fallback(func(*store.Take, limit.Micros) (limit.State, bool) { return told[i], told[i].Kind != 0 })
		}
		var results [1]store.Result
		var counted int64
		for range rapid.IntRange(1, 120).Draw(t, "asks") {
			i := rapid.IntRange(0, nodes-1).Draw(t, "node")
			if rapid.Bool().Draw(t, "answers") {
				if shared.TakeOne("k", l, 1).Allowed {
					counted++
				}
				told[i], _ = limit.Charge(l, limit.State{}, noon, counted)
				known[i] = max(known[i], counted)
				continue
			}
			fallbacks[i].Take(context.Background(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1, Mode: whole}}, results[:])
			if want := known[i] < quota; results[0].Allowed != want {
				t.Fatalf("node %d, which knows of %d of %d: allowed is %v", i, known[i], quota, results[0].Allowed)
			} else if want {
				known[i]++
			}
		}
	})
}

// While there is no room for another bucket, those with one are held to their limit;
// newcomers pass where the rule is open, and share a bucket where it fails locally.
//
//promise:outage-memory-full
func TestFallbackThatIsFull(t *testing.T) {
	s, err := local.New(local.Options{MaxBytes: memstore.MinMaxBytes, Now: func() limit.Micros { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	f := s.Fallback(nil)
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 3, Period: time.Hour})
	ask := func(key string, mode *store.Mode) int64 {
		return admitted(t, f, store.Take{Key: []byte(key), Limit: l, Hits: 1, Mode: mode}, 5)
	}
	if got := ask("early", whole); got != 3 {
		t.Fatalf("%d of the first pass, want 3", got)
	}
	for i := 0; s.Stats().Overflowed == 0; i++ {
		ask(fmt.Sprint("flood ", i), nil)
	}
	if got := ask("early", whole); got != 0 {
		t.Errorf("who was over the limit passes %d times", got)
	}
	ask("stranger by share", nil)
	if got := ask("stranger by share", nil); got != 0 {
		t.Errorf("%d pass by the bucket that newcomers share", got)
	}
	if got := ask("stranger", whole); got != 5 {
		t.Errorf("%d of 5 pass of a newcomer whose rule is open", got)
	}
	d := store.Take{Key: []byte("stranger"), Limit: l, Hits: 4, Mode: whole}
	if got := admitted(t, f, d, 1); got != 0 {
		t.Error("a newcomer passes with more hits than the limit ever admits")
	}
}

func TestFallbackAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 100, Period: time.Hour})
	told, _ := limit.Decide(l, limit.State{}, noon, 40)
	f := open(t, func() int { return 3 }, func() limit.Micros { return noon }).Fallback(func(*store.Take, limit.Micros) (limit.State, bool) { return told, true })
	takes := []store.Take{{Key: []byte("k"), Limit: l, Hits: 1, Mode: whole}, {Key: []byte("l"), Limit: l, Hits: 1}}
	results := make([]store.Result, len(takes))
	ctx := t.Context()
	f.Take(ctx, takes, results)
	if n := testing.AllocsPerRun(100, func() { f.Take(ctx, takes, results) }); n > 0 {
		t.Errorf("Take allocates %v times", n)
	}
}

// An outage of a bucket that is asked all the time, and what a time that holds it admits:
// the burst and the rate of the store, and of the fallback the rate alone where the node
// knows that the bucket is empty, its burst too where it does not.
//
//promise:outage-buckets
func TestBucketsOverAnOutage(t *testing.T) {
	const burst, perPeriod, window, step = 50, 50, 5_000_000, 10_000
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: perPeriod, Period: window * time.Microsecond, Burst: burst})
	for name, c := range map[string]struct {
		knows bool
		most  int
	}{"known": {true, 130}, "unknown": {false, 180}} {
		now := noon
		clock := func() limit.Micros { return now }
		shared, err := memstore.New(memstore.Options{MaxBytes: memstore.MinMaxBytes, Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		var told limit.State
		f := open(t, nil, clock).Fallback(func(*store.Take, limit.Micros) (limit.State, bool) { return told, c.knows })
		var passed []limit.Micros
		var results [1]store.Result
		for ; now < noon+20_000_000; now += step {
			allowed := false
			if since := now - noon; since >= 1_000_000 && since < 4_000_000 {
				f.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1, Mode: whole}}, results[:])
				allowed = results[0].Allowed
			} else {
				allowed = shared.TakeOne("k", l, 1).Allowed
				told, _ = limit.Decide(l, told, now, 1)
			}
			if allowed {
				passed = append(passed, now)
			}
		}
		most, first := 0, 0
		for last := range passed {
			for passed[last]-passed[first] >= window {
				first++
			}
			most = max(most, last-first+1)
		}
		if most > c.most || most <= burst+perPeriod {
			t.Errorf("%s: %d in 5 s, want at most %d, and more than without an outage", name, most, c.most)
		}
		t.Logf("%s: %d in 5 s", name, most)
	}
}
