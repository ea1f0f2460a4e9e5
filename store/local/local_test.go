package local_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/storetest"
	"pgregory.net/rapid"
)

const noon = limit.Micros(1_780_315_200_000_000)

func open(tb testing.TB, nodes func() int, now func() limit.Micros) *local.Store {
	tb.Helper()
	s, err := local.New(local.Options{Nodes: nodes, MaxBytes: 8 << 20, Now: now})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// admitted asks for hits one by one and counts those that pass.
func admitted(tb testing.TB, s store.Store, take store.Take, asks int) (passed int64) {
	tb.Helper()
	var results [1]store.Result
	for range asks {
		s.Take(tb.Context(), []store.Take{take}, results[:])
		if results[0].Err != nil {
			tb.Fatal(results[0].Err)
		}
		if results[0].Allowed {
			passed++
		}
	}
	return passed
}

func TestConformanceOfOneNode(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var now atomic.Int64
		s := open(t, nil, func() limit.Micros { return limit.Micros(now.Load()) })
		return storetest.Harness{Store: s, SetNow: func(m limit.Micros) { now.Store(int64(m)) }}
	})
}

// TestSumOfShares holds the bound of the package comment for every algorithm.
//
//promise:known-bounds local
func TestSumOfShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 12).Draw(t, "nodes")
		spec := limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.SlidingWindow, limit.FixedWindow, limit.SubWindows, limit.SlidingLog, limit.TokenBucket, limit.GCRA}).Draw(t, "algorithm"),
			Quota:     rapid.Int64Range(0, 60).Draw(t, "quota"),
			Period:    time.Minute,
		}
		if spec.Algorithm.IsBucket() {
			spec.Burst = rapid.Int64Range(0, 60).Draw(t, "burst")
		}
		l := limit.Must(spec)
		whole := l.Quota
		if l.Algorithm.IsBucket() {
			whole = l.Burst
		}
		var sum int64
		for range nodes {
			s, err := local.New(local.Options{Nodes: func() int { return nodes }, MaxBytes: 1 << 20, Now: func() limit.Micros { return noon }})
			if err != nil {
				t.Fatal(err)
			}
			var results [1]store.Result
			for range 70 {
				s.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1}}, results[:])
				if results[0].Allowed {
					sum++
				}
			}
		}
		bound := whole
		if whole > 0 && whole < int64(nodes) {
			bound = whole + int64(nodes) - 1
		}
		if sum > bound || sum < whole-int64(nodes)+1 {
			t.Fatalf("%d nodes let %d hits pass of a limit of %d, want at most %d and at least %d", nodes, sum, whole, bound, whole-int64(nodes)+1)
		}
	})
}

// TestNodesThatJoin: where some nodes do not know of others yet, each lets its share of the
// number that it knows of pass, and the newcomers add theirs to the whole limit.
//
//promise:fleet-joins
func TestNodesThatJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, joined := rapid.Int64Range(1, 6).Draw(t, "before"), rapid.Int64Range(1, 6).Draw(t, "joined")
		quota := rapid.Int64Range(1, 60).Draw(t, "quota")
		sum, want := int64(0), int64(0)
		for i := range before + joined {
			known := before
			if i >= before {
				known += joined
			}
			s, err := local.New(local.Options{Nodes: func() int { return int(known) }, MaxBytes: 1 << 20, Now: func() limit.Micros { return noon }})
			if err != nil {
				t.Fatal(err)
			}
			var results [1]store.Result
			for range quota + 1 {
				s.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: quota, Period: time.Hour}), Hits: 1}}, results[:])
				if results[0].Allowed {
					sum++
				}
			}
			want += max(quota/known, 1)
		}
		most := max(quota, before) + max(joined*quota/(before+joined), joined)
		if sum != want || sum > most {
			t.Fatalf("%d nodes and %d that joined let %d hits pass of a limit of %d, want %d and at most %d", before, joined, sum, quota, want, most)
		}
	})
}

//promise:local-whole
func TestWhole(t *testing.T) {
	s := open(t, func() int { return 4 }, func() limit.Micros { return noon })
	l := limit.Must(limit.PerMinute(20))
	for _, test := range []struct {
		mode *store.Mode
		want int64
	}{
		{nil, 5},
		{&store.Mode{Consistency: store.Local}, 5},
		{&store.Mode{Consistency: store.Local, Whole: true}, 20},
	} {
		key := fmt.Appendf(nil, "%v", test.mode)
		if got := admitted(t, s, store.Take{Key: key, Limit: l, Hits: 1, Mode: test.mode}, 30); got != test.want {
			t.Errorf("mode %+v lets %d pass, want %d", test.mode, got, test.want)
		}
	}
}

// TestLeakyAlgorithms: what has no burst of its own is divided without one.
func TestLeakyAlgorithms(t *testing.T) {
	now := noon
	s := open(t, func() int { return 5 }, func() limit.Micros { return now })
	bucket := limit.Must(limit.Spec{Algorithm: limit.LeakyBucket, Quota: 60, Period: time.Minute})
	take := store.Take{Key: []byte("bucket"), Limit: bucket, Hits: 1}
	if got := admitted(t, s, take, 3); got != 1 {
		t.Errorf("a leaky bucket lets %d pass at once, want 1", got)
	}
	now += limit.Micros(4_999_999)
	if got := admitted(t, s, take, 3); got != 0 {
		t.Errorf("a fifth of one a second lets %d pass before 5 s are over", got)
	}
	now++
	if got := admitted(t, s, take, 3); got != 1 {
		t.Errorf("a fifth of one a second lets %d pass after 5 s, want 1", got)
	}
	queue := limit.Must(limit.Spec{Algorithm: limit.LeakyQueue, Quota: 600, Period: time.Minute, MaxQueue: 10})
	if got := admitted(t, s, store.Take{Key: []byte("queue"), Limit: queue, Hits: 1}, 20); got != 3 {
		t.Errorf("a queue of 10 in 5 parts takes %d, want 2 that wait and one that goes", got)
	}
}

// TestSlotsOfANode: a node has its part of the slots, at least one, and frees and
// renews what it has given whatever its part has become.
func TestSlotsOfANode(t *testing.T) {
	var nodes atomic.Int64
	s := open(t, func() int { return int(nodes.Load()) }, func() limit.Micros { return noon })
	l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 6, Period: time.Minute})
	by := func(hold limit.Hold, op store.Op) limit.Decision {
		var results [1]store.Result
		s.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1, Hold: hold, Op: op}}, results[:])
		return results[0].Decision
	}
	for _, step := range []struct {
		nodes     int64
		hold      limit.Hold
		op        store.Op
		allowed   bool
		remaining int64
	}{
		{3, 1, store.Hit, true, 1},
		{3, 2, store.Hit, true, 0},
		{3, 3, store.Hit, false, 0},
		{2, 3, store.Hit, true, 0},
		{20, 4, store.Hit, false, 0},
		{20, 3, store.Renew, true, 0},
		{20, 1, store.Release, true, 0},
		{20, 2, store.Release, true, 0},
		{20, 4, store.Hit, false, 0},
		{20, 3, store.Release, true, 1},
		{20, 4, store.Hit, true, 0},
		{20, 9, store.Release, true, 0}, // is held elsewhere
		{20, 9, store.Renew, true, 0},   // and is at work all the same
		{1, 5, store.Hit, true, 3},
	} {
		nodes.Store(step.nodes)
		if d := by(step.hold, step.op); d.Allowed != step.allowed || d.Remaining != step.remaining {
			t.Fatalf("%d nodes, hold %d op %d: %+v, want allowed=%t remaining=%d", step.nodes, step.hold, step.op, d, step.allowed, step.remaining)
		}
	}
}

// TestBanOfANode: its part of the denials bans, for the whole time.
func TestBanOfANode(t *testing.T) {
	s := open(t, func() int { return 4 }, func() limit.Micros { return noon })
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 20, Period: time.Minute, BanFor: time.Hour})
	var results [1]store.Result
	for denials := range 5 {
		s.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1}}, results[:])
		if !results[0].Allowed {
			t.Fatalf("banned after %d denials: %+v", denials, results[0])
		}
		s.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1, Op: store.Charge}}, results[:])
	}
	s.Take(t.Context(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 1}}, results[:])
	if results[0].Allowed || results[0].RetryAfter != time.Hour {
		t.Errorf("after a quarter of the denials: %+v", results[0])
	}
}

// TestNodesChange: a bucket keeps what it has counted.
func TestNodesChange(t *testing.T) {
	var nodes atomic.Int64
	nodes.Store(10)
	s := open(t, func() int { return int(nodes.Load()) }, func() limit.Micros { return noon })
	take := store.Take{Key: []byte("k"), Limit: limit.Must(limit.PerMinute(100)), Hits: 1}
	for _, step := range []struct{ nodes, more int64 }{{10, 10}, {5, 10}, {20, 0}, {0, 80}} {
		nodes.Store(step.nodes)
		if got := admitted(t, s, take, 200); got != step.more {
			t.Fatalf("with %d nodes %d more pass, want %d", step.nodes, got, step.more)
		}
	}
}

// TestReloads: new limits without end do not grow the store.
func TestReloads(t *testing.T) {
	s := open(t, func() int { return 2 }, func() limit.Micros { return noon })
	var passed int64
	for range 20_000 {
		l := limit.Must(limit.PerMinute(100))
		passed += admitted(t, s, store.Take{Key: []byte("k"), Limit: l, Hits: 1}, 1)
	}
	if passed != 50 {
		t.Errorf("%d passed, want half of 100", passed)
	}
	if n := s.Scaled(); n > local.MaxScaled {
		t.Errorf("%d divided limits are kept, want at most %d", n, local.MaxScaled)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	s := open(t, func() int { return 3 }, nil)
	takes := []store.Take{{Key: []byte("k"), Limit: limit.Must(limit.PerMinute(100)), Hits: 1}}
	results := make([]store.Result, 1)
	ctx := t.Context()
	if n := alloctest.PerRun(100, func() { s.Take(ctx, takes, results) }); n > 0 {
		t.Errorf("Take allocates %v times", n)
	}
}

func TestBadOptions(t *testing.T) {
	if _, err := local.New(local.Options{MaxBytes: 1}); err == nil {
		t.Error("a store of one byte was made")
	}
}

// TestSlowestShare: the longest drain there is, divided, is still a limit.
func TestSlowestShare(t *testing.T) {
	s := open(t, func() int { return 2 }, func() limit.Micros { return noon })
	slow := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 3, Period: limit.MaxPeriod, Burst: 100})
	if got := admitted(t, s, store.Take{Key: []byte("k"), Limit: slow, Hits: 1}, 200); got < 1 || got > 50 {
		t.Errorf("half of a burst of 100 lets %d pass", got)
	}
}
