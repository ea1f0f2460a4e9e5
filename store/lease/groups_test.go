package lease_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/memstore"
	"pgregory.net/rapid"
)

// TestMixedGroups holds for random batches of groups and single takes in all
// modes that what is charged in the end is what passed: nothing of a denied group,
// all of the others.
func TestMixedGroups(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		quotas := rapid.SliceOfN(rapid.Int64Range(1, 300), 8, 8).Draw(rt, "quotas")
		batches := rapid.SliceOfN(rapid.Custom(drawBatch), 5, 60).Draw(rt, "batches")
		var problem string
		synctest.Test(t, func(t *testing.T) { problem = playBatches(t, quotas, batches) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// planned is a take before it has its limit.
type planned struct {
	key    int
	group  uint32
	hits   int64
	shadow bool
}

type batch struct {
	takes []planned
	times int
	wait  time.Duration
}

func drawBatch(t *rapid.T) batch {
	return batch{
		takes: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) planned {
			return planned{
				key:    rapid.IntRange(0, 7).Draw(t, "key"),
				group:  rapid.Uint32Range(0, 2).Draw(t, "group"),
				hits:   rapid.Int64Range(0, 4).Draw(t, "hits"),
				shadow: rapid.IntRange(0, 5).Draw(t, "shadow") == 0,
			}
		}), 1, 6).Draw(t, "takes"),
		times: rapid.IntRange(1, 30).Draw(t, "times"),
		wait:  time.Duration(rapid.IntRange(0, 20).Draw(t, "ms")) * time.Millisecond,
	}
}

// modeOf says how the bucket of key is decided.
func modeOf(key int) *store.Mode {
	return []*store.Mode{nil, leasedMode, leasedMode, leasedMode, syncedMode, syncedMode, localMode, nil}[key]
}

func playBatches(t *testing.T, quotas []int64, batches []batch) string {
	now := func() limit.Micros { return limit.MicrosOf(time.Now()) }
	shared, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	here, err := local.New(local.Options{MaxBytes: 1 << 20, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	s := lease.New(lease.Options{Store: shared, Local: here})
	defer s.Close()
	limits := make([]*limit.Limit, len(quotas))
	for i, q := range quotas {
		limits[i] = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: q, Period: limit.MaxPeriod})
	}
	charged := make([]int64, len(quotas))
	for _, b := range batches {
		takes := make([]store.Take, len(b.takes))
		for i, p := range b.takes {
			takes[i] = store.Take{Key: fmt.Append(nil, p.key), Limit: limits[p.key], Hits: p.hits, Group: p.group, Shadow: p.shadow, Mode: modeOf(p.key)}
		}
		results := make([]store.Result, len(takes))
		for range b.times {
			s.Take(context.Background(), takes, results)
			count(takes, results, b.takes, charged)
			time.Sleep(b.wait)
		}
	}
	if err := s.Drain(context.Background()); err != nil {
		return err.Error()
	}
	lostHits := s.Stats().Expired
	for key, want := range charged {
		var results [1]store.Result
		from := store.Store(shared)
		if modeOf(key) == localMode {
			from = here
		}
		from.Take(context.Background(), []store.Take{{Key: fmt.Append(nil, key), Limit: limits[key]}}, results[:])
		got := quotas[key] - results[0].Remaining
		if modeOf(key) == leasedMode && got > want {
			// What is put back after its lease was replaced is lost.
			lostHits -= got - want
			want = got
		}
		if got != want {
			return fmt.Sprintf("key %d (mode %+v): %d hits are charged, but %d passed; %+v", key, modeOf(key), got, want, s.Stats())
		}
		if want > quotas[key] {
			return fmt.Sprintf("key %d: %d hits passed, the quota is %d", key, want, quotas[key])
		}
	}
	if lostHits != 0 {
		return fmt.Sprintf("%d hits more are charged than passed or expired; %+v", -lostHits, s.Stats())
	}
	return ""
}

// count adds to charged what results say has passed.
func count(takes []store.Take, results []store.Result, plan []planned, charged []int64) {
	for from := 0; from < len(takes); {
		to := from + 1
		for takes[from].Group != 0 && to < len(takes) && takes[to].Group == takes[from].Group {
			to++
		}
		passes := true
		for i := from; i < to; i++ {
			if !results[i].Allowed && !takes[i].Shadow {
				passes = false
			}
		}
		for i := from; i < to; i++ {
			if results[i].Allowed && (passes || to-from == 1) {
				charged[plan[i].key] += takes[i].Hits
			}
		}
		from = to
	}
}

// away is a store that answers nothing.
type away struct{ store.Leaser }

var errAway = &store.Error{Op: "take", Store: "test", Reason: store.Unavailable}

func (away) Take(_ context.Context, _ []store.Take, results []store.Result) {
	for i := range results {
		results[i] = store.Result{Err: errAway}
	}
}

// What is no hit is not done on this node either while a hit of its group is
// undecided in the store.
func TestUndecidedGroupChargesNothingHere(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := local.New(local.Options{Nodes: func() int { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	l := limit.Must(limit.PerHour(10))
	here := &store.Mode{Consistency: store.Local}
	group := []store.Take{
		{Key: []byte("shared"), Limit: l, Hits: 1, Group: 1},
		{Key: []byte("here"), Limit: l, Hits: 4, Op: store.Charge, Group: 1, Mode: here},
	}
	for _, c := range []struct {
		inner store.Leaser
		left  int64
	}{{away{buckets}, 10}, {buckets, 6}} {
		s := lease.New(lease.Options{Store: c.inner, Local: own, Nodes: func() int { return 1 }})
		results := make([]store.Result, 2)
		s.Take(t.Context(), group, results)
		if (results[1].Err != nil) != (c.left == 10) {
			t.Errorf("the charge says %+v", results[1])
		}
		peek := []store.Take{{Key: []byte("here"), Limit: l, Mode: here}}
		if s.Take(t.Context(), peek, results[:1]); results[0].Remaining != c.left {
			t.Errorf("%+v, want %d left", results[0], c.left)
		}
		s.Close()
	}
}
