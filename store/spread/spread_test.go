package spread_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/spread"
)

// open returns a memory store with the given clock.
func open(t testing.TB, now func() limit.Micros) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{MaxBytes: 4 << 20, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// byLastByte spreads keys over n stores.
func byLastByte(n int) func(*store.Take) int {
	return func(t *store.Take) int {
		if len(t.Key) == 0 {
			return 0
		}
		return int(t.Key[len(t.Key)-1]) % n
	}
}

func openThree(t testing.TB, now func() limit.Micros) *spread.Store {
	t.Helper()
	s, err := spread.New(byLastByte(3), open(t, now), open(t, now), open(t, now))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var limits = []*limit.Limit{
	limit.Must(limit.PerMinute(5)),
	limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 4, Period: time.Minute}),
	limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 4, Period: time.Minute, CountDenied: true}),
	limit.Must(limit.Spec{Algorithm: limit.SubWindows, Quota: 5, Period: time.Minute, SubWindows: 6}),
	limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 5, Period: time.Minute}),
	limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 5, Period: time.Minute}),
	limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 5, Period: time.Minute, Burst: 3}),
	inFlight,
	ban,
}

var (
	inFlight = limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 3, Period: 20 * time.Second})
	ban      = limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 4, Period: 20 * time.Second, BanFor: 10 * time.Second})
)

// ops are drawn from: hits are the most.
var ops = []store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Charge, store.Refund, store.Reset}

// drawBatch draws takes on few keys. Each key has one limit. Slots are taken by
// holds that nobody had before the one at first, and renewed and released by those
// and others.
func drawBatch(t *rapid.T, first int) []store.Take {
	takes := make([]store.Take, rapid.IntRange(1, 8).Draw(t, "takes"))
	group := uint32(0)
	for i := range takes {
		key := rapid.IntRange(0, 2*len(limits)-1).Draw(t, "key")
		if rapid.Bool().Draw(t, "other group") {
			group = uint32(rapid.IntRange(0, 2).Draw(t, "group"))
		}
		takes[i] = store.Take{
			Key:    fmt.Appendf(nil, "key %c", 'a'+key),
			Limit:  limits[key%len(limits)],
			Hits:   int64(rapid.IntRange(0, 3).Draw(t, "hits")),
			Op:     rapid.SampledFrom(ops).Draw(t, "op"),
			Shadow: rapid.IntRange(0, 4).Draw(t, "shadow") == 0,
			Group:  group,
		}
		if takes[i].Limit == inFlight {
			takes[i].Hold = limit.Hold(first + i)
			if late := rapid.SampledFrom([]store.Op{store.Hit, store.Renew, store.Release}).Draw(t, "late"); late != store.Hit {
				takes[i].Op, takes[i].Hold = late, limit.Hold(rapid.IntRange(0, first+i).Draw(t, "hold"))
			}
		}
	}
	return takes
}

// excepted reports whether a group holds a hit after something else of its
// bucket, which is decided as if that were not there.
func excepted(takes []store.Take) bool {
	for i := range takes {
		for j := range i {
			first := takes[j].Op != store.Hit
			if first && takes[i].Op == store.Hit && takes[i].Group != 0 && takes[j].Group == takes[i].Group && slices.Equal(takes[i].Key, takes[j].Key) {
				return true
			}
		}
	}
	return false
}

// dry returns takes as dry runs.
func dry(takes []store.Take) []store.Take {
	takes = slices.Clone(takes)
	for i := range takes {
		takes[i].DryRun = true
	}
	return takes
}

func take(s store.Store, takes []store.Take) []store.Result {
	results := make([]store.Result, len(takes))
	s.Take(context.Background(), takes, results)
	return results
}

// One batch after the other, three stores answer as one does.
func TestAsOneStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := limit.Micros(1_780_315_200_000_000)
		clock := func() limit.Micros { return now }
		one, err := memstore.New(memstore.Options{MaxBytes: 4 << 20, Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		var parts [3]store.Store
		for i := range parts {
			if parts[i], err = memstore.New(memstore.Options{MaxBytes: 4 << 20, Now: clock}); err != nil {
				t.Fatal(err)
			}
		}
		several := func(takes []store.Take) []store.Result {
			results := make([]store.Result, len(takes))
			spread.Plan{
				Part: func(i int) int { return byLastByte(3)(&takes[i]) },
				Ask: func(asked []spread.Part) {
					for _, p := range asked {
						parts[p.ID].Take(context.Background(), p.Takes, p.Results)
					}
				},
				Now: func() time.Time { return now.Time() },
			}.Take(takes, results)
			return results
		}
		for i := range rapid.IntRange(1, 12).Draw(t, "batches") {
			takes := drawBatch(t, 1+8*i)
			same := func(takes []store.Take) {
				want, got := take(one, takes), several(takes)
				for i := range takes {
					if got[i] != want[i] {
						t.Fatalf("take %d of %+v:\n got %+v\nwant %+v", i, takes, got[i], want[i])
					}
				}
			}
			same(dry(takes)) // which has no exceptions
			if !excepted(takes) {
				same(takes)
			}
			now += limit.Micros(rapid.IntRange(0, 5_000_000).Draw(t, "later"))
		}
	})
}

// A hit after a refund or a reset of its bucket, in a group that falls apart: the
// bucket holds in the end what one store would hold, if the hit passes.
func TestHitAfterReset(t *testing.T) {
	now := limit.Micros(1_780_315_200_000_000)
	clock := func() limit.Micros { return now }
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour})
	for _, op := range []store.Op{store.Reset, store.Refund} {
		s := openThree(t, clock)
		take(s, []store.Take{{Key: []byte("a"), Limit: l, Hits: 4}})
		group := []store.Take{
			{Key: []byte("a"), Limit: l, Hits: 9, Op: op, Group: 1},
			{Key: []byte("a"), Limit: l, Hits: 3, Group: 1},
			{Key: []byte("b"), Limit: l, Hits: 1, Group: 1},
		}
		for i, r := range take(s, group) {
			if r.Err != nil || !r.Allowed {
				t.Fatalf("op %d, take %d: %+v", op, i, r)
			}
		}
		if r := take(s, []store.Take{{Key: []byte("a"), Limit: l}})[0]; r.Remaining != 7 {
			t.Errorf("op %d: %d remain of ten after three hits", op, r.Remaining)
		}
	}
}

// A hit by a hold that follows a release or a reset of its bucket has a slot in the
// end, and one on a ban has taken no denial back.
func TestHoldAfterRelease(t *testing.T) {
	now := limit.Micros(1_780_315_200_000_000)
	for _, op := range []store.Op{store.Reset, store.Release} {
		s := openThree(t, func() limit.Micros { return now })
		take(s, []store.Take{
			{Key: []byte("a"), Limit: inFlight, Hits: 1, Hold: 1},
			{Key: []byte("b"), Limit: ban, Hits: 2, Op: store.Charge},
		})
		group := []store.Take{
			{Key: []byte("a"), Limit: inFlight, Hold: 1, Op: op, Group: 1},
			{Key: []byte("a"), Limit: inFlight, Hits: 1, Hold: 2, Group: 1},
			{Key: []byte("b"), Limit: ban, Hits: 1, Op: store.Charge, Group: 1},
			{Key: []byte("b"), Limit: ban, Hits: 1, Group: 1},
		}
		for i, r := range take(s, group) {
			if r.Err != nil || !r.Allowed {
				t.Fatalf("op %d, take %d: %+v", op, i, r)
			}
		}
		left := take(s, []store.Take{{Key: []byte("a"), Limit: inFlight}, {Key: []byte("b"), Limit: ban}})
		if left[0].Remaining != 2 || left[1].Remaining != 1 {
			t.Errorf("op %d: %d slots and %d denials are left, want 2 and 1", op, left[0].Remaining, left[1].Remaining)
		}
		if d := take(s, []store.Take{{Key: []byte("a"), Limit: inFlight, Hold: 2, Op: store.Release}})[0]; d.Remaining != 3 {
			t.Errorf("op %d: after the release: %+v", op, d)
		}
	}
}

// A group that is denied in one part leaves no slot taken in another, and no
// denial taken back.
func TestDeniedGroupHoldsNothing(t *testing.T) {
	now := limit.Micros(1_780_315_200_000_000)
	s := openThree(t, func() limit.Micros { return now })
	none := limit.Must(limit.Spec{Quota: 0, Period: time.Minute})
	take(s, []store.Take{{Key: []byte("b"), Limit: ban, Hits: 2, Op: store.Charge}})
	results := take(s, []store.Take{
		{Key: []byte("a"), Limit: inFlight, Hits: 1, Hold: 7, Group: 1},
		{Key: []byte("b"), Limit: ban, Hits: 1, Group: 1},
		{Key: []byte("c"), Limit: none, Hits: 1, Group: 1},
	})
	if results[0].Remaining != 3 || results[1].Remaining != 2 || results[2].Allowed {
		t.Errorf("a group that is denied: %+v", results)
	}
	left := take(s, []store.Take{{Key: []byte("a"), Limit: inFlight}, {Key: []byte("b"), Limit: ban}})
	if left[0].Remaining != 3 || left[1].Remaining != 2 {
		t.Errorf("after it: %+v", left)
	}
}

// Crowds of groups that fall apart: no bucket lets more pass than its limit, and
// what passed is what is counted.
func TestCrowdOfGroups(t *testing.T) {
	now := limit.Micros(1_780_315_200_000_000)
	s := openThree(t, func() limit.Micros { return now })
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Hour})
	keys := []string{"a", "b", "c", "d", "e"}
	passed := make([]atomic.Int64, len(keys))
	var crowd sync.WaitGroup
	for w := range 8 {
		crowd.Go(func() {
			for n := range 200 {
				i, j := (n+w)%len(keys), (n*3+w+1)%len(keys)
				if i == j {
					continue
				}
				takes := []store.Take{
					{Key: []byte(keys[i]), Limit: l, Hits: 1, Group: 1},
					{Key: []byte(keys[j]), Limit: l, Hits: 1, Group: 1},
				}
				if r := take(s, takes); r[0].Allowed && r[1].Allowed {
					passed[i].Add(1)
					passed[j].Add(1)
				}
			}
		})
	}
	crowd.Wait()
	for i, key := range keys {
		r := take(s, []store.Take{{Key: []byte(key), Limit: l}})[0]
		if n := passed[i].Load(); n > 100 || r.Remaining != 100-n {
			t.Errorf("%s: %d passed, %d remain of 100", key, n, r.Remaining)
		}
	}
}

// failing is a store that cannot decide.
type failing struct{ store.Store }

var errFailing = errors.New("no store")

func (failing) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i] = store.Result{Err: errFailing}
	}
}

// An error belongs to the takes of its part: the others of a group are decided.
func TestErrorOfOnePart(t *testing.T) {
	now := limit.Micros(1_780_315_200_000_000)
	good := open(t, func() limit.Micros { return now })
	s, err := spread.New(byLastByte(2), good, failing{good})
	if err != nil {
		t.Fatal(err)
	}
	l := limit.Must(limit.PerHour(1))
	group := []store.Take{
		{Key: []byte("a"), Limit: l, Hits: 1, Group: 1},
		{Key: []byte("b"), Limit: l, Hits: 1, Group: 1},
		{Key: []byte("a"), Limit: l},
	}
	for _, allowed := range []bool{true, false} {
		r := take(s, group)
		if !errors.Is(r[0].Err, errFailing) && !errors.Is(r[1].Err, errFailing) {
			t.Fatalf("no error: %+v", r)
		}
		if r[1].Err != nil || r[1].Allowed != allowed || r[1].Remaining != 0 {
			t.Errorf("the part that works: %+v", r[1])
		}
	}
}

// What is no hit is done only when all hits of its group were decided: so one of them
// can see to it that the rest is done once.
func TestErrorOfAHitLeavesTheRest(t *testing.T) {
	now := limit.Micros(1_780_315_200_000_000)
	good := open(t, func() limit.Micros { return now })
	s, err := spread.New(byLastByte(2), good, failing{good})
	if err != nil {
		t.Fatal(err)
	}
	l := limit.Must(limit.PerHour(10))
	charge := store.Take{Key: []byte("b"), Limit: l, Hits: 4, Op: store.Charge, Group: 1}
	for _, c := range []struct {
		hit  store.Take
		left int64
	}{
		{store.Take{Key: []byte("a"), Limit: l, Hits: 1, Group: 1}, 10},
		{store.Take{Key: []byte("d"), Limit: l, Hits: 1, Group: 1}, 6},
	} {
		r := take(s, []store.Take{c.hit, charge})
		if (r[1].Err != nil) != (c.left == 10) {
			t.Errorf("%s: the charge says %+v", c.hit.Key, r[1])
		}
		if left := take(s, []store.Take{{Key: []byte("b"), Limit: l}})[0].Remaining; left != c.left {
			t.Errorf("%s: %d left, want %d", c.hit.Key, left, c.left)
		}
	}
}

// What was charged right before the edge of a window is not given back after it.
func TestNoRefundIntoTheNextWindow(t *testing.T) {
	// The group is charged a microsecond before its window ends.
	now := limit.Micros(1_780_315_200_000_000) - 1
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Minute})
	takes := []store.Take{
		{Key: []byte("a"), Limit: l, Hits: 5, Group: 1},
		{Key: []byte("b"), Limit: l, Hits: 11, Group: 1},
	}
	first, second := open(t, func() limit.Micros { return now }), open(t, func() limit.Micros { return now })
	rounds := 0
	spread.Plan{Part: func(i int) int { return i }, Now: func() time.Time { return now.Time() }, Ask: func(parts []spread.Part) {
		rounds++
		for _, p := range parts {
			[]store.Store{first, second}[p.ID].Take(context.Background(), p.Takes, p.Results)
		}
		// In the next window others hit before the refund arrives.
		now += 2
		take(first, []store.Take{{Key: []byte("a"), Limit: l, Hits: 4}})
	}}.Take(takes, make([]store.Result, 2))
	if rounds != 2 {
		t.Fatalf("%d rounds", rounds)
	}
	if r := take(first, []store.Take{{Key: []byte("a"), Limit: l}})[0]; r.Remaining != 2 {
		t.Errorf("eight hits of this window leave %d of ten", r.Remaining)
	}
}

func TestOneBatchInTwoStores(t *testing.T) {
	now := limit.Micros(1_780_315_200_000_000)
	clock := func() limit.Micros { return now }
	quick, rest := open(t, clock), open(t, clock)
	s, err := spread.New(byPeriod, quick, rest)
	if err != nil {
		t.Fatal(err)
	}
	second, minute := limit.Must(limit.PerSecond(10)), limit.Must(limit.PerMinute(10))
	takes := []store.Take{
		{Key: []byte("s"), Limit: second, Hits: 3, Group: 1},
		{Key: []byte("m"), Limit: minute, Hits: 4, Group: 1},
	}
	for i, r := range take(s, takes) {
		if r.Err != nil || !r.Allowed {
			t.Fatalf("take %d: %+v", i, r)
		}
	}
	takes[1].Hits = 7 // too many
	take(s, takes)
	for _, c := range []struct {
		of        store.Store
		key       string
		l         *limit.Limit
		remaining int64
	}{{quick, "s", second, 7}, {rest, "m", minute, 6}, {quick, "m", minute, 10}, {rest, "s", second, 10}} {
		if r := take(c.of, []store.Take{{Key: []byte(c.key), Limit: c.l}})[0]; r.Remaining != c.remaining {
			t.Errorf("%s: %d remain, want %d", c.key, r.Remaining, c.remaining)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// byPeriod sends limits per second to the first store, and others to the second.
func byPeriod(t *store.Take) int {
	if t.Limit.Period == time.Second {
		return 0
	}
	return 1
}

func TestNewBounds(t *testing.T) {
	if _, err := spread.New(byLastByte(1)); err == nil {
		t.Error("no stores are too few")
	}
	if _, err := spread.New(byLastByte(1), make([]store.Store, spread.MaxStores+1)...); err == nil {
		t.Error("too many stores")
	}
}
