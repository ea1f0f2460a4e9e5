package regional_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/regional"
)

// farHome is a home in memory, a tenth of a second away.
type farHome struct {
	*memstore.Store
	epoch  atomic.Uint64
	young  atomic.Bool // its epoch has just begun
	down   atomic.Bool
	mute   atomic.Bool // its answers to questions for leases are lost
	leases atomic.Int64
}

func (h *farHome) trip(ctx context.Context) error {
	if err := sleep.For(ctx, 50*time.Millisecond); err != nil || h.down.Load() {
		return errors.Join(err, errLost)
	}
	return nil
}

func (h *farHome) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	err := h.trip(ctx)
	if err == nil {
		h.leases.Add(int64(len(requests)))
		h.Store.Lease(ctx, requests, grants)
		err = h.trip(ctx)
	}
	if h.mute.Load() {
		err = errors.Join(err, errLost)
	}
	for i := range grants {
		grants[i].Err = err
	}
}

func (h *farHome) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if err := h.trip(ctx); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return
	}
	h.Store.Take(ctx, takes, results)
}

func (h *farHome) Epoch(ctx context.Context) (store.Epoch, error) {
	if err := h.trip(ctx); err != nil {
		return store.Epoch{}, err
	}
	e := store.Epoch{ID: h.epoch.Load(), Age: 24 * time.Hour}
	if h.young.Load() {
		e.Age = 0
	}
	return e, nil
}

func (h *farHome) Vouch(context.Context) error { h.young.Store(false); return nil }

// nearStore is the store of a region, in memory.
type nearStore struct {
	*memstore.Store
	down atomic.Bool
}

func (n *nearStore) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if !n.down.Load() {
		n.Store.Take(ctx, takes, results)
		return
	}
	for i := range results {
		results[i].Err = errLost
	}
}

// place is a node of a region, its store, and the home.
type place struct {
	t     testing.TB
	home  *farHome
	own   *nearStore
	store *regional.Store
	wall  atomic.Int64 // what the wall clock is ahead, ns
}

// hundred is a limit of 100 a minute, of which the home lends 80 and the region has a reserve of
// 10.
var hundred = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute})

var halves = regional.Layout{Weights: map[string]int64{"here": 1, "there": 1}, Reserve: 200_000}

// inPlace runs test in a bubble, at the begin of a minute.
func inPlace(t *testing.T, test func(p *place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, home: &farHome{}, own: &nearStore{}}
		p.home.epoch.Store(1)
		now := func() limit.Micros { return limit.MicrosOf(time.Now()) }
		for _, s := range []**memstore.Store{&p.home.Store, &p.own.Store} {
			opened, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			*s = opened
		}
		var err error
		p.store, err = regional.New(regional.Options{
			Home: p.home, Own: p.own, Layout: halves, Region: "here",
			Wall: func() time.Time { return time.Now().Add(time.Duration(p.wall.Load())) },
		})
		if err != nil {
			t.Fatal(err)
		}
		test(p)
		if err := p.store.Close(); err != nil && !p.home.down.Load() {
			t.Error(err)
		}
		st := p.store.Stats()
		if st.Granted != st.Used+st.Returned+st.Lost+st.Held+st.UnderWay {
			t.Errorf("hits are not conserved: %+v", st)
		}
	})
}

func (p *place) take(takes ...store.Take) []store.Result {
	p.t.Helper()
	results := make([]store.Result, len(takes))
	began := time.Now()
	p.store.Take(p.t.Context(), takes, results)
	if waited := time.Since(began); waited > 0 && takes[0].Op != store.Reset {
		p.t.Errorf("a request waited for %v", waited)
	}
	for i := range results {
		if results[i].Err != nil && !p.home.down.Load() && !p.own.down.Load() {
			p.t.Error(results[i].Err)
		}
	}
	return results
}

func hit(key string, hits int64) store.Take {
	return store.Take{Key: []byte(key), Limit: hundred, Hits: hits}
}

// hits asks for n single hits and returns how many pass.
func (p *place) hits(n int) (passed int) {
	for range n {
		if p.take(hit("k", 1))[0].Allowed {
			passed++
		}
	}
	return passed
}

// later lets the time pass that a lease takes.
func (p *place) later(d time.Duration) {
	_ = sleep.For(p.t.Context(), d)
	synctest.Wait()
}

// A node has the reserve at once, and what the home lends after a while; in all that is the
// home's part and the reserve, and no more.
func TestReserveFirstThenLeases(t *testing.T) {
	inPlace(t, func(p *place) {
		if n := p.hits(15); n != 10 {
			t.Errorf("%d passed at once, want the reserve of 10", n)
		}
		total := 10
		for range 50 {
			p.later(400 * time.Millisecond)
			total += p.hits(5)
		}
		if total != 90 {
			t.Errorf("%d passed, want 80 of the home and 10 of the reserve", total)
		}
		r := p.take(hit("k", 1))[0]
		if r.Allowed || r.Limit != 100 || r.Remaining != 0 || r.RetryAfter <= 0 || r.Basis != store.OnAdvance {
			t.Errorf("at the end %+v", r)
		}
		p.later(time.Minute)
		if n := p.hits(1); n != 1 {
			t.Error("nothing passes in the next window")
		}
	})
}

// warm has the node hold hits of k.
func (p *place) warm() {
	p.t.Helper()
	p.hits(3)
	p.later(400 * time.Millisecond)
	if p.store.Stats().Held == 0 {
		p.t.Fatal("nothing is held")
	}
}

// A denial says whether the limit is used up as far as the node knows, or the reserve alone,
// because the home does not answer.
func TestDenialsOfARegionThatIsCutOff(t *testing.T) {
	inPlace(t, func(p *place) {
		denied := func(key string, want store.Basis) {
			t.Helper()
			if r := p.take(hit(key, 1))[0]; r.Allowed || r.Basis != want {
				t.Errorf("%s: %+v, want basis %d", key, r, want)
			}
		}
		spend := func(key string, want int) {
			t.Helper()
			n := 0
			for p.take(hit(key, 1))[0].Allowed {
				n++
			}
			if n != want {
				t.Errorf("%s: %d passed, want %d", key, n, want)
			}
		}
		total := 0
		for range 40 {
			total += p.hits(5)
			p.later(400 * time.Millisecond)
		}
		if total != 90 {
			t.Fatalf("%d passed, want all of 90", total)
		}
		denied("k", store.OnAdvance)
		p.home.down.Store(true)
		spend("new", 10)
		p.later(3 * time.Second)
		denied("k", store.OnAdvance) // used up, the home has said so
		denied("new", store.OnReserve)
		if r := p.take(store.Take{Key: []byte("new"), Limit: hundred, Hits: 1, DryRun: true})[0]; r.Allowed || r.Basis != store.OnReserve {
			t.Errorf("a dry run: %+v", r)
		}
		p.later(time.Minute) // another window
		spend("k", 10)
		denied("k", store.OnReserve)
		p.home.down.Store(false)
		p.later(5 * time.Second)
		p.take(hit("k", 1))
		p.later(400 * time.Millisecond)
		if r := p.take(hit("k", 1))[0]; !r.Allowed || r.Basis != store.OnAdvance {
			t.Errorf("the home answers again: %+v", r)
		}
	})
}

// A group that is denied elsewhere charges nothing here, and one that is denied here nothing there.
func TestRegionalGroups(t *testing.T) {
	inPlace(t, func(p *place) {
		p.warm()
		before := p.store.Stats()
		none := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 50, Period: time.Minute})
		group := []store.Take{hit("k", 1), {Key: []byte("l"), Limit: none, Hits: 40}}
		for i := range group {
			group[i].Group = 7
		}
		if r := p.take(group...); !r[0].Allowed || r[1].Allowed {
			t.Errorf("%+v", r)
		}
		if after := p.store.Stats(); after.Held != before.Held || after.Used != before.Used {
			t.Errorf("held %d, used %d; before %d and %d", after.Held, after.Used, before.Held, before.Used)
		}
		group[1].Shadow = true
		if r := p.take(group...); !r[0].Allowed || r[1].Allowed {
			t.Errorf("with a shadow %+v", r)
		}
		if after := p.store.Stats(); after.Held != before.Held-1 {
			t.Errorf("held %d after a shadow, want one less than %d", after.Held, before.Held)
		}
	})
}

// What is no hit does what the package says, and asks for no lease.
func TestWhatIsNoHit(t *testing.T) {
	inPlace(t, func(p *place) {
		p.warm()
		held, leases := p.store.Stats().Held, p.home.leases.Load()
		peek := p.take(hit("k", 0))[0]
		if !peek.Allowed || peek.Limit != 100 || peek.Remaining < held+7 {
			t.Errorf("a peek says %+v with %d held", peek, held)
		}
		dry := hit("k", held)
		dry.DryRun = true
		if r := p.take(dry)[0]; !r.Allowed {
			t.Errorf("a dry run says %+v", r)
		}
		if now := p.store.Stats().Held; now != held {
			t.Errorf("a dry run has changed %d to %d", held, now)
		}
		p.take(hit("k", 2))
		refund := hit("k", 1)
		refund.Op = store.Refund
		p.take(refund)
		if now := p.store.Stats().Held; now != held-1 {
			t.Errorf("%d held after two hits and a refund of one, before %d", now, held)
		}
		if r := p.take(hit("k", 0))[0]; r.Remaining != peek.Remaining-1 {
			t.Errorf("after two hits and a refund of one a peek says %+v, before %+v", r, peek)
		}
		charge := hit("k", held+3)
		charge.Op = store.Charge
		p.take(charge)
		if r := p.take(hit("k", 0))[0]; p.store.Stats().Held != 0 || r.Remaining != peek.Remaining-1-(held+3) {
			t.Errorf("after a charge of more than is held %d are held, and a peek says %+v", p.store.Stats().Held, r)
		}
		if n := p.home.leases.Load(); n != leases {
			t.Errorf("%d leases were asked for", n-leases)
		}
		reset := store.Take{Key: []byte("k"), Limit: hundred, Op: store.Reset}
		if r := p.take(reset)[0]; !r.Allowed || r.Remaining != 90 {
			t.Errorf("after a reset %+v", r)
		}
		p.home.down.Store(true)
		if r := p.take(reset)[0]; r.Err == nil {
			t.Error("a reset that the home has not heard of is said to be done")
		}
	})
}

// The reserve of a key is under a key that no other has, however that ends.
func TestKeysOfReserves(t *testing.T) {
	inPlace(t, func(p *place) {
		p.hits(3)
		cut, err := halves.CutFor("here", hundred)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"k", "khere", "khere\x04"} {
			var results [1]store.Result
			p.own.Take(t.Context(), []store.Take{{Key: []byte(key), Limit: cut.Own}}, results[:])
			if results[0].Remaining != cut.Own.Quota {
				t.Errorf("%q shares the reserve: %+v", key, results[0])
			}
		}
	})
}

// What was lent before a reset, and is heard of after it, is not used.
func TestResetUnderWay(t *testing.T) {
	inPlace(t, func(p *place) {
		p.hits(3)
		p.later(60 * time.Millisecond) // the question is under way
		p.take(store.Take{Key: []byte("k"), Limit: hundred, Op: store.Reset})
		p.later(200 * time.Millisecond)
		if st := p.store.Stats(); st.Held != 0 || st.Unsure == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A dry run that is denied has nothing asked for.
func TestDryRunsAskForNothing(t *testing.T) {
	inPlace(t, func(p *place) {
		p.hits(1)
		dry := hit("k", 50)
		dry.DryRun = true
		if r := p.take(dry)[0]; r.Allowed {
			t.Errorf("%+v", r)
		}
		p.later(300 * time.Millisecond)
		if st := p.store.Stats(); st.Asked != 0 || st.Granted != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A home that does not answer, is in a new epoch, or changes it under way lends nothing.
//
//promise:region-home-forgets
func TestHomesThatMayHaveForgotten(t *testing.T) {
	inPlace(t, func(p *place) {
		p.home.down.Store(true)
		p.hits(5)
		p.later(time.Second)
		p.hits(2)
		p.home.down.Store(false)
		p.home.young.Store(true)
		p.later(3 * time.Second)
		p.hits(2)
		p.later(time.Second)
		if st := p.store.Stats(); st.Granted != 0 || p.home.leases.Load() != 0 || !st.Connected {
			t.Errorf("a home in a new epoch: %+v", st)
		}
		p.later(time.Minute + time.Second)
		p.home.young.Store(false)
		p.hits(3)
		p.later(120 * time.Millisecond) // the question has arrived, the mark has not
		p.home.epoch.Store(2)
		p.later(100 * time.Millisecond)
		if st := p.store.Stats(); st.Granted != 0 || st.Unsure == 0 || st.Epochs != 1 {
			t.Errorf("a home that has changed its epoch under way: %+v", p.store.Stats())
		}
	})
}

// Without the store of its region a node decides by what it holds and leases anew, and has no
// answer to the rest.
//
//promise:region-store-away
func TestStoreOfTheRegionIsAway(t *testing.T) {
	inPlace(t, func(p *place) {
		p.warm()
		p.own.down.Store(true)
		leased := p.home.leases.Load()
		for range 25 {
			if r := p.take(hit("k", 1))[0]; r.Err != nil || !r.Allowed {
				t.Errorf("a hit that is held: %+v", r)
			}
			p.later(400 * time.Millisecond)
		}
		if p.home.leases.Load() == leased {
			t.Error("nothing is leased while the store of the region is away")
		}
		if r := p.take(hit("k", 90))[0]; !errors.Is(r.Err, errLost) {
			t.Errorf("more hits than are held: %+v", r)
		}
		if r := p.take(hit("other", 1))[0]; !errors.Is(r.Err, errLost) {
			t.Errorf("a key of which nothing is held: %+v", r)
		}
	})
}

// A home that somebody vouches for lends soon, also to nodes that knew its epoch before.
func TestVouchedHome(t *testing.T) {
	inPlace(t, func(p *place) {
		p.home.young.Store(true)
		p.hits(3)
		p.later(time.Second)
		p.hits(1)
		p.later(time.Second)
		if st := p.store.Stats(); !st.Connected || st.Granted != 0 {
			t.Errorf("before %+v", st)
		}
		if err := p.store.Vouch(p.t.Context()); err != nil {
			t.Error(err)
		}
		for range 4 {
			p.hits(1)
			p.later(time.Second)
		}
		p.hits(2)
		p.later(time.Second)
		if st := p.store.Stats(); st.Granted == 0 {
			t.Errorf("after %+v", st)
		}
	})
}

// What nobody uses goes home, and so does all when the node drains; a machine that was
// suspended has nothing.
//
//promise:region-late-returns
func TestRightsGoHome(t *testing.T) {
	inPlace(t, func(p *place) {
		p.warm()
		p.later(2 * time.Second)
		if st := p.store.Stats(); st.Held != 0 || st.Returned == 0 {
			t.Errorf("idle: %+v", st)
		}
		p.warm()
		p.wall.Add(int64(time.Hour))
		if st := p.store.Stats(); st.Held != 0 || st.Partings == 0 {
			t.Errorf("suspended: %+v", st)
		}
		p.later(time.Second)
		p.warm()
		if err := p.store.Drain(p.t.Context()); err != nil {
			t.Error(err)
		}
		if st := p.store.Stats(); st.Held != 0 || st.Buckets != 0 {
			t.Errorf("drained: %+v", st)
		}
	})
}

// perDay is a limit of 10,000 a day, of which the home lends 8,000 and the region has a reserve of
// 1,000.
var perDay = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10_000, Period: 24 * time.Hour})

// A home whose answers were lost for long lends again a minute later, and not in the next window: it
// remembers only so many leases of a key.
func TestLeasesThatNobodyHasHeardOfEnd(t *testing.T) {
	inPlace(t, func(p *place) {
		one := store.Take{Key: []byte("k"), Limit: perDay, Hits: 1}
		p.home.mute.Store(true)
		for p.home.leases.Load() <= store.MaxLeases {
			p.take(one)
			p.later(200 * time.Millisecond)
		}
		p.home.mute.Store(false)
		p.later(time.Minute + time.Second)
		for range 3 {
			p.take(one)
			p.later(200 * time.Millisecond)
		}
		if st := p.store.Stats(); st.Held == 0 {
			t.Errorf("nothing is lent to a key of which the home has lent %d leases without an answer: %+v", p.home.leases.Load(), st)
		}
	})
}

// A lease that ends before its window does is replaced in time: who asks all the time is never
// without one, and what is left of it goes home.
func TestLeasesOfLongWindowsAreRenewed(t *testing.T) {
	inPlace(t, func(p *place) {
		// What a take needs that is denied, and is not asked for again, lasts for longer than the lease.
		p.take(store.Take{Key: []byte("k"), Limit: perDay, Hits: 1500})
		p.later(400 * time.Millisecond)
		before := p.store.Stats()
		if before.Held != 1500 {
			t.Fatalf("%d are held", before.Held)
		}
		for range 400 {
			p.take(store.Take{Key: []byte("k"), Limit: perDay, Hits: 1})
			p.later(400 * time.Millisecond)
		}
		if st := p.store.Stats(); st.Reserved != before.Reserved || st.Lost != 0 || st.Returned == 0 {
			t.Errorf("in 160 s the reserve was asked %d times, %d hits were lost and %d returned", st.Reserved-before.Reserved, st.Lost, st.Returned)
		}
	})
}

// What a denial has asked for is there when it says so, also where one take needs more than a
// lease has and the next one comes long after.
func TestDeniedHitsMayComeAgain(t *testing.T) {
	inPlace(t, func(p *place) {
		large := store.Take{Key: []byte("large"), Limit: perDay, Hits: 1500} // the reserve has 1000
		for i := range 4 {
			r := p.take(large)[0]
			for range 3 {
				if r.Allowed {
					break
				}
				// In whole seconds, as HTTP says it, and a little later.
				p.later(r.RetryAfter.Truncate(time.Second) + time.Second + 400*time.Millisecond)
				r = p.take(large)[0]
			}
			if !r.Allowed {
				t.Errorf("take %d of %d hits does not pass, with %d of 10,000 used: %+v", i, large.Hits, int64(i)*large.Hits, r)
			}
			p.later(20 * time.Second)
		}
	})
}

// A first denial names a time at which the home has answered, and not one at which the reserve has
// something again, unless the home lends nothing.
func TestFirstDenialsAreShort(t *testing.T) {
	inPlace(t, func(p *place) {
		retry := func(key string) time.Duration {
			t.Helper()
			p.take(store.Take{Key: []byte(key), Limit: perDay, Hits: 1000}) // the reserve
			r := p.take(store.Take{Key: []byte(key), Limit: perDay, Hits: 1})[0]
			if r.Allowed {
				t.Errorf("%s: %+v", key, r)
			}
			return r.RetryAfter
		}
		if after := retry("new"); after <= 0 || after > 2*time.Second {
			t.Errorf("the client is to ask again after %v", after)
		}
		p.later(time.Second)
		if after := retry("another"); after <= 0 || after > 2*time.Second {
			t.Errorf("with a home that has answered the client is to ask again after %v", after)
		}
		p.home.down.Store(true)
		p.take(store.Take{Key: []byte("third"), Limit: perDay, Hits: 1500}) // has the home asked
		p.later(time.Second)
		if after := retry("cut off"); after < time.Hour {
			t.Errorf("with a home that is away the client is to ask again after %v", after)
		}
	})
}

// Who asks seldom is not denied again and again when the reserve is used up: twice at most, where nobody
// asks again after the first denial.
func TestSeldomHitsAfterTheReserve(t *testing.T) {
	inPlace(t, func(p *place) {
		if r := p.take(store.Take{Key: []byte("k"), Limit: perDay, Hits: 1000})[0]; !r.Allowed {
			t.Fatalf("the reserve: %+v", r)
		}
		p.later(20 * time.Second) // what was asked for has gone home
		denied := 0
		for range 30 {
			if r := p.take(store.Take{Key: []byte("k"), Limit: perDay, Hits: 1})[0]; !r.Allowed {
				denied++
			}
			p.later(10 * time.Second)
		}
		if denied > 2 {
			t.Errorf("%d of 30 hits are denied, with 7,000 left", denied)
		}
	})
}

// Keys that are asked for once do not go around the world.
func TestRareKeysHaveTheReserve(t *testing.T) {
	inPlace(t, func(p *place) {
		for i := range 50 {
			if r := p.take(hit(fmt.Sprint("rare ", i), 1))[0]; !r.Allowed {
				t.Errorf("%+v", r)
			}
		}
		p.later(time.Second)
		if n := p.home.leases.Load(); n != 0 {
			t.Errorf("%d leases were asked for", n)
		}
	})
}

// divided is a limit, and a layout by which it can be cut.
type divided struct {
	layout regional.Layout
	limit  *limit.Limit
}

// cuttable draws a limit of which each region has a hit, and so much burst that leases on it
// last.
var cuttable = rapid.Custom(func(t *rapid.T) divided {
	layout := regional.Layout{Weights: map[string]int64{}, Reserve: rapid.Int64Range(1000, regional.MaxReserve).Draw(t, "reserve")}
	for i := range rapid.IntRange(1, regional.MaxRegions).Draw(t, "regions") {
		layout.Weights[fmt.Sprint(i)] = rapid.Int64Range(1, regional.MaxWeight).Draw(t, "weight")
	}
	smallest := slices.Min(slices.Collect(maps.Values(layout.Weights)))
	reserved := (layout.Total() + smallest - 1) / smallest
	least := (reserved*regional.Million + layout.Reserve - 1) / layout.Reserve
	spec := limit.Spec{
		Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.SlidingWindow, limit.FixedWindow, limit.SubWindows, limit.TokenBucket, limit.GCRA}).Draw(t, "algorithm"),
		Quota:     rapid.Int64Range(least, limit.MaxBucketQuota).Draw(t, "quota"), Period: time.Hour,
	}
	if spec.Algorithm.IsBucket() {
		lasting := spec.Quota/int64(time.Hour/(4*regional.MinTerm)) + 1 // leases last for a quarter of the drain time
		spec.Burst = rapid.Int64Range(max(least, lasting), spec.Quota).Draw(t, "burst")
	}
	return divided{layout, limit.Must(spec)}
})

// The parts of a limit add up to it.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := cuttable.Draw(t, "limit")
		layout, l := d.layout, d.limit
		var quota, burst int64
		var home *limit.Limit
		for region := range layout.Weights {
			c, err := layout.CutFor(region, l)
			if err != nil {
				t.Fatal(err)
			}
			if c.Own.Quota < 1 || c.Home.Quota < 1 {
				t.Fatalf("%s has %d, the home %d", region, c.Own.Quota, c.Home.Quota)
			}
			quota, burst, home = quota+c.Own.Quota, burst+c.Own.Burst, c.Home
		}
		if quota+home.Quota != l.Quota || l.Algorithm.IsBucket() && burst+home.Burst != l.Burst {
			t.Fatalf("parts are %d + %d of %d, bursts %d + %d of %d", home.Quota, quota, l.Quota, home.Burst, burst, l.Burst)
		}
	})
}
