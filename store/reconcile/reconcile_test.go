package reconcile_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/reconcile"
)

const noon limit.Micros = 1_800_000_000_000_000

// away is a shared store that can be away: it then fails takes with the reason, and
// counts those that asked. With lost it decides them all the same, and the answer alone
// is missing.
type away struct {
	store.Store
	reason store.Reason
	lost   bool
	asked  int
}

func (a *away) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if a.reason == store.NoReason || a.lost {
		a.Store.Take(ctx, takes, results)
	}
	if a.reason != store.NoReason {
		a.asked += len(takes)
		for i := range results {
			results[i] = store.Result{Err: failure(a.reason)}
		}
	}
}

func failure(r store.Reason) error { return &store.Error{Op: "take", Store: "test", Reason: r} }

func memory(t testing.TB) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{Now: still})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func left(s store.Store, key string, l *limit.Limit) limit.Decision {
	var results [1]store.Result
	s.Take(context.Background(), []store.Take{{Key: []byte(key), Limit: l}}, results[:])
	return results[0].Decision
}

var counted = []limit.Algorithm{
	limit.FixedWindow, limit.SlidingWindow, limit.SubWindows, limit.SlidingLog, limit.TokenBucket, limit.GCRA, limit.LeakyBucket,
}

// Whatever passes while the store is away, and whenever it comes back: it then counts no
// less than what still weighs in an exact count by that algorithm, but for a part of a
// hit, and no more than what passed.
//
//promise:reconciled-exactly
func TestWhatPassedIsCharged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limit.Must(limit.Spec{
			Algorithm: rapid.SampledFrom(counted).Draw(t, "algorithm"), Quota: 1000, Period: time.Minute,
		})
		now := noon + limit.Micros(rapid.Int64Range(0, 60_000_000).Draw(t, "start"))
		clock := func() limit.Micros { return now }
		shared := &away{Store: must(memstore.New(memstore.Options{Now: clock})), reason: store.BreakerOpen}
		ledger := reconcile.New(shared, clock)
		var exact limit.State
		passed := int64(0)
		for range rapid.IntRange(1, 10).Draw(t, "hits") {
			now += limit.Micros(rapid.Int64Range(0, 20_000_000).Draw(t, "later"))
			hits := rapid.Int64Range(1, 50).Draw(t, "many")
			passed += hits
			exact, _ = limit.Charge(l, exact, now, hits)
			ledger.Passed(&store.Take{Key: []byte("k"), Limit: l, Hits: hits}, failure(store.BreakerOpen))
			if rapid.Bool().Draw(t, "tried") {
				if keys, _ := ledger.Charge(context.Background()); keys != 0 {
					t.Fatal("a store that is away was charged")
				}
			}
		}
		now += limit.Micros(rapid.Int64Range(0, 90_000_000).Draw(t, "back"))
		shared.reason = store.NoReason
		ledger.Charge(context.Background())
		_, want := limit.Decide(l, exact, now, 0)
		got := left(shared, "k", l)
		part := int64(0)
		if l.Algorithm.IsBucket() {
			part = 1
		}
		if got.Remaining > want.Remaining+part || got.Limit-got.Remaining > passed {
			t.Errorf("%v: %d of %d are left, where %d passed and an exact count has %d", l.Algorithm, got.Remaining, got.Limit, passed, want.Remaining)
		}
		if l.Algorithm.IsBucket() && got.Remaining < want.Remaining {
			t.Errorf("%v: %d are left, an exact count has %d: some are denied too early", l.Algorithm, got.Remaining, want.Remaining)
		}
		if s := ledger.Stats(); s.Waiting != 0 || s.Passed != uint64(passed) || s.Charged > s.Passed {
			t.Errorf("%+v, %d passed", s, passed)
		}
		ledger.Charge(context.Background())
		if again := left(shared, "k", l); again.Remaining != got.Remaining {
			t.Errorf("%d are left after a second charge, %d before", again.Remaining, got.Remaining)
		}
	})
}

func must(s *memstore.Store, err error) *memstore.Store {
	if err != nil {
		panic(err)
	}
	return s
}

var hourly = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: 100 * time.Hour})

func still() limit.Micros { return noon }

// What the store may have counted is not charged: hits whose call timed out, and charges
// whose answer got lost.
//
//promise:reconciled-once
func TestNothingIsChargedTwice(t *testing.T) {
	shared := &away{Store: memory(t), reason: store.Timeout}
	ledger := reconcile.New(shared, still)
	take := &store.Take{Key: []byte("k"), Limit: hourly, Hits: 7}
	ledger.Passed(take, failure(store.Timeout))
	if s := ledger.Stats(); s.Waiting != 0 || s.Uncertain != 7 || s.Passed != 0 {
		t.Errorf("after a timeout: %+v", s)
	}
	ledger.Passed(take, failure(store.Unavailable))
	for range 5 { // the store hangs: it is asked, and not charged
		ledger.Charge(t.Context())
	}
	if s := ledger.Stats(); s.Waiting != 1 || s.Uncertain != 7 || shared.asked != 5 {
		t.Errorf("while the store hangs: %+v, asked %d times", s, shared.asked)
	}
	shared.reason = store.NoReason
	if keys, hits := ledger.Charge(t.Context()); keys != 1 || hits != 7 {
		t.Errorf("%d keys and %d hits charged", keys, hits)
	}
	if d := left(shared, "k", hourly); d.Remaining != 1000-7 {
		t.Errorf("%d are left", d.Remaining)
	}
}

// losing decides the first take of the ledger, which only peeks, and loses the answer to
// all others.
type losing struct {
	*away
	calls int
}

func (s *losing) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if s.calls++; s.calls > 1 {
		s.reason, s.lost = store.Timeout, true
	}
	s.away.Take(ctx, takes, results)
}

//promise:reconciled-once
func TestAChargeWhoseAnswerIsLost(t *testing.T) {
	shared := &losing{away: &away{Store: memory(t)}}
	ledger := reconcile.New(shared, still)
	ledger.Passed(&store.Take{Key: []byte("k"), Limit: hourly, Hits: 7}, failure(store.BreakerOpen))
	ledger.Charge(t.Context())
	shared.reason, shared.calls = store.NoReason, -1000
	ledger.Charge(t.Context())
	if d := left(shared.Store, "k", hourly); d.Remaining != 1000-7 {
		t.Errorf("%d are left", d.Remaining)
	}
	if s := ledger.Stats(); s.Uncertain != 7 || s.Charged != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// part fails takes of keys that begin with "b", as a Cluster does of which a shard is
// away.
type part struct{ store.Store }

func (p part) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	p.Store.Take(ctx, takes, results)
	for i := range takes {
		if takes[i].Key[0] == 'b' && takes[i].Hits > 0 {
			results[i] = store.Result{Err: failure(store.Unavailable)}
		}
	}
}

func TestWhatCannotBeChargedWaits(t *testing.T) {
	ledger := reconcile.New(part{memory(t)}, still)
	for i := range 300 {
		for _, kind := range "ab" {
			ledger.Passed(&store.Take{Key: fmt.Appendf(nil, "%c %d", kind, i), Limit: hourly, Hits: 2}, failure(store.BreakerOpen))
		}
	}
	charged := 0
	for range 100 { // each call ends with the first batch of which nothing could be charged
		keys, _ := ledger.Charge(t.Context())
		charged += keys
	}
	if s := ledger.Stats(); charged != 300 || s.Waiting != 300 || s.Charged != 600 || s.Passed != 1200 {
		t.Errorf("%d keys charged, %+v", charged, s)
	}
}

// named decides in the store that takes name; the others do not answer.
type named map[string]store.Store

func (n named) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		name := ""
		if takes[i].Mode != nil {
			name = takes[i].Mode.Store
		}
		if s := n[name]; s != nil {
			s.Take(ctx, takes[i:i+1], results[i:i+1])
		} else {
			results[i] = store.Result{Err: failure(store.Timeout)}
		}
	}
}

func (n named) Close() error { return nil }

// Of several stores one may be away longer. What it is owed waits for it, and the others
// are charged meanwhile.
func TestEachStoreIsChargedWhenItIsBack(t *testing.T) {
	first, home := memory(t), memory(t)
	stores := named{"": first}
	ledger := reconcile.New(stores, still)
	for i := range 150 {
		ledger.Passed(&store.Take{Key: fmt.Appendf(nil, "a %d", i), Limit: hourly, Hits: 2}, failure(store.BreakerOpen))
		ledger.Passed(&store.Take{Key: fmt.Appendf(nil, "b %d", i), Limit: hourly, Hits: 3, Mode: &store.Mode{Store: "home", Consistency: store.Local}}, failure(store.BreakerOpen))
	}
	charge := func() {
		for range 100 { // each call ends with the first keys of which nothing could be charged
			ledger.Charge(t.Context())
		}
	}
	charge()
	if s := ledger.Stats(); s.Waiting != 150 || s.Charged != 300 || s.Uncertain != 0 {
		t.Errorf("while home is away: %+v", s)
	}
	stores["home"] = home
	charge()
	if s := ledger.Stats(); s.Waiting != 0 || s.Charged != 750 || s.Uncertain != 0 {
		t.Errorf("home is back: %+v", s)
	}
	if a, b, none := left(first, "a 0", hourly), left(home, "b 0", hourly), left(first, "b 0", hourly); a.Remaining != 998 || b.Remaining != 997 || none.Remaining != 1000 {
		t.Errorf("left are %d, %d and %d", a.Remaining, b.Remaining, none.Remaining)
	}
}

func TestWhatIsGivenBackIsNotCharged(t *testing.T) {
	shared := &away{Store: memory(t), reason: store.BreakerOpen}
	ledger := reconcile.New(shared, still)
	ledger.Passed(&store.Take{Key: []byte("k"), Limit: hourly, Hits: 7}, failure(store.BreakerOpen))
	ledger.Passed(&store.Take{Key: []byte("k"), Limit: hourly, Hits: 3, Op: store.Refund}, failure(store.BreakerOpen))
	ledger.Passed(&store.Take{Key: []byte("other"), Limit: hourly, Hits: 3, Op: store.Refund}, failure(store.BreakerOpen))
	shared.reason = store.NoReason
	ledger.Charge(t.Context())
	if d := left(shared, "k", hourly); d.Remaining != 1000-4 {
		t.Errorf("%d are left", d.Remaining)
	}
}

func TestSlotsAndBansAreNotReconciled(t *testing.T) {
	ledger := reconcile.New(memory(t), still)
	for _, spec := range []limit.Spec{
		{Algorithm: limit.Concurrency, Quota: 3, Period: time.Minute},
		{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Minute},
	} {
		ledger.Passed(&store.Take{Key: []byte("k"), Limit: limit.Must(spec), Hits: 1}, failure(store.BreakerOpen))
	}
	if s := ledger.Stats(); s != (reconcile.Stats{}) {
		t.Errorf("%+v", s)
	}
}

//promise:reconcile-bounded
func TestTheLedgerIsBounded(t *testing.T) {
	ledger := reconcile.New(memory(t), still)
	for i := range reconcile.MaxKeys + 10 {
		ledger.Passed(&store.Take{Key: fmt.Append(nil, i), Limit: hourly, Hits: 2}, failure(store.BreakerOpen))
	}
	if s := ledger.Stats(); s.Waiting != reconcile.MaxKeys || s.Full != 20 {
		t.Errorf("%+v", s)
	}
	ledger.Passed(&store.Take{Key: []byte("0"), Limit: hourly, Hits: 2}, failure(store.BreakerOpen))
	if s := ledger.Stats(); s.Full != 20 {
		t.Errorf("a key that is known is refused: %+v", s)
	}
	long := reconcile.New(memory(t), still)
	for i := range 40 {
		long.Passed(&store.Take{Key: append(make([]byte, 1<<20), byte(i)), Limit: hourly, Hits: 1}, failure(store.BreakerOpen))
	}
	if s := long.Stats(); s.Waiting != 31 || s.Full != 9 {
		t.Errorf("long keys: %+v", s)
	}
	long.Charge(t.Context())
	for i := range 31 {
		long.Passed(&store.Take{Key: append(make([]byte, 1<<20), byte(i)), Limit: hourly, Hits: 1}, failure(store.BreakerOpen))
	}
	if s := long.Stats(); s.Waiting != 31 || s.Full != 9 {
		t.Errorf("the room of what was charged is not free: %+v", s)
	}
}

// ends is away until it is back.
type ends struct {
	store.Store
	back atomic.Bool
}

func (e *ends) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	a := away{Store: e.Store}
	if !e.back.Load() {
		a.reason = store.BreakerOpen
	}
	a.Take(ctx, takes, results)
}

// Run charges within a second of the store being back, and tells of it once.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &ends{Store: memory(t)}
		ledger := reconcile.New(shared, still)
		type told struct {
			keys int
			hits uint64
		}
		var all []told
		ctx, cancel := context.WithCancel(t.Context())
		go ledger.Run(ctx, func(keys int, hits uint64) { all = append(all, told{keys, hits}) })
		for i := range 250 {
			ledger.Passed(&store.Take{Key: fmt.Append(nil, i), Limit: hourly, Hits: 2}, failure(store.BreakerOpen))
		}
		time.Sleep(5 * reconcile.Every)
		synctest.Wait()
		if len(all) != 0 || ledger.Stats().Waiting != 250 {
			t.Errorf("while the store is away: %v, %+v", all, ledger.Stats())
		}
		shared.back.Store(true)
		time.Sleep(2 * reconcile.Every)
		synctest.Wait()
		if len(all) != 1 || all[0] != (told{250, 500}) {
			t.Errorf("told %v", all)
		}
		cancel()
		synctest.Wait()
	})
}

// few decides so many takes, and is away for the others.
type few struct {
	store.Store
	decides atomic.Int64
	limits  []*limit.Limit // of those that were decided
}

func (f *few) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		if f.decides.Add(-1) < 0 {
			results[i] = store.Result{Err: failure(store.BreakerOpen)}
			continue
		}
		f.limits = append(f.limits, takes[i].Limit)
		f.Store.Take(ctx, takes[i:i+1], results[i:i+1])
	}
}

// Run tells when nothing is left, and not of a part.
func TestRunTellsOfAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &few{Store: memory(t)}
		ledger := reconcile.New(shared, still)
		var told [][2]int
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 10 {
			ledger.Passed(&store.Take{Key: fmt.Append(nil, i), Limit: hourly, Hits: 2}, failure(store.BreakerOpen))
		}
		shared.decides.Store(14) // ten are asked for first
		go ledger.Run(ctx, func(keys int, hits uint64) { told = append(told, [2]int{keys, int(hits)}) })
		pass := func() {
			if err := sleep.For(t.Context(), reconcile.Every+reconcile.Every/2); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		pass()
		if len(told) != 0 || ledger.Stats().Waiting != 6 {
			t.Errorf("after a part: told %v, %+v", told, ledger.Stats())
		}
		shared.decides.Store(1000)
		pass()
		if len(told) != 1 || told[0] != [2]int{10, 20} {
			t.Errorf("told %v", told)
		}
		cancel()
		synctest.Wait()
	})
}

// What is given back under another limit than it was let pass by is charged under that one, as
// what is let pass is.
func TestGivenBackUnderAnotherLimit(t *testing.T) {
	shared := &few{Store: memory(t)}
	ledger := reconcile.New(shared, still)
	other := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 2000, Period: 2 * time.Hour})
	ledger.Passed(&store.Take{Key: []byte("k"), Limit: hourly, Hits: 7}, failure(store.BreakerOpen))
	ledger.Passed(&store.Take{Key: []byte("k"), Limit: other, Hits: 3, Op: store.Refund}, failure(store.BreakerOpen))
	shared.decides.Store(1000)
	ledger.Charge(t.Context())
	if n := len(shared.limits); n == 0 || shared.limits[n-1] != other {
		t.Errorf("charged by %v, want %v", shared.limits, other)
	}
}
