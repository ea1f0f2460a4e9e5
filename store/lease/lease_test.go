package lease_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/storetest"
)

var (
	syncedMode = &store.Mode{Rule: "synced", Consistency: store.Synced}
	localMode  = &store.Mode{Rule: "local", Consistency: store.Local}
	autoMode   = &store.Mode{Rule: "auto", AutoLease: true}
)

// counted is a shared store that counts its calls and can fail.
type counted struct {
	*memstore.Store
	takes, leases atomic.Int64
	fail          atomic.Bool
	// hold keeps the answers about leases back until answer says so; held is how many
	// hits they grant.
	hold   atomic.Bool
	held   atomic.Int64
	answer chan struct{}
	// stuck says which calls of Take wait for answer.
	stuck func([]store.Take) bool
}

var errDown = &store.Error{Op: "take", Store: "shared", Reason: store.Unavailable}

func (c *counted) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	c.takes.Add(1)
	if c.stuck != nil && c.stuck(takes) {
		<-c.answer
	}
	if !c.fail.Load() {
		c.Store.Take(ctx, takes, results)
		return
	}
	for i := range results {
		results[i] = store.Result{Err: errDown}
	}
}

func (c *counted) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	c.leases.Add(1)
	if !c.fail.Load() {
		c.Store.Lease(ctx, requests, grants)
		if c.hold.Load() {
			for i := range grants {
				c.held.Add(grants[i].Hits)
			}
			<-c.answer
		}
		return
	}
	for i := range grants {
		grants[i] = store.Grant{Err: errDown}
	}
}

// rig is a node in a synctest bubble.
type rig struct {
	t      testing.TB
	shared *counted
	node   *lease.Store
}

func inBubble(t *testing.T, o lease.Options, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		shared, err := memstore.New(memstore.Options{MaxBytes: 4 << 20, Now: func() limit.Micros { return limit.MicrosOf(time.Now()) }})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, shared: &counted{Store: shared}}
		o.Store = r.shared
		r.node = lease.New(o)
		defer r.node.Close()
		test(r)
		conserved(t, r.node.Stats())
	})
}

func (r *rig) take(takes ...store.Take) []store.Result {
	r.t.Helper()
	results := make([]store.Result, len(takes))
	r.node.Take(context.Background(), takes, results)
	return results
}

func hit(key string, l *limit.Limit, mode *store.Mode) store.Take {
	return store.Take{Key: []byte(key), Limit: l, Hits: 1, Mode: mode}
}

// warm takes n hits in n ms and reports how many passed.
func (r *rig) warm(n int, take store.Take) (passed int) {
	r.t.Helper()
	for range n {
		res := r.take(take)[0]
		if res.Err != nil {
			r.t.Fatal(res.Err)
		}
		if res.Allowed {
			passed++
		}
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
	return passed
}

// remaining is what the shared store has left.
func (r *rig) remaining(key string, l *limit.Limit) int64 {
	return r.shared.TakeOne(key, l, 0).Remaining
}

// TestExactConformance: without a Mode the store below is the one that decides.
func TestExactConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var now atomic.Int64
		shared, err := memstore.New(memstore.Options{MaxBytes: 16 << 20, Now: func() limit.Micros { return limit.Micros(now.Load()) }})
		if err != nil {
			t.Fatal(err)
		}
		s := lease.New(lease.Options{Store: shared, Hot: hotkey.New(hotkey.Options{})})
		t.Cleanup(func() { s.Close() })
		return storetest.Harness{Store: s, SetNow: func(m limit.Micros) { now.Store(int64(m)) }}
	})
}

func TestLeasedAnswersFromMemory(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerMinute(1000))
		if got := r.warm(500, hit("k", l, leasedMode)); got != 500 {
			t.Errorf("%d of 500 pass under a limit of 1000", got)
		}
		if calls := r.shared.takes.Load() + r.shared.leases.Load(); calls > 25 {
			t.Errorf("500 decisions took %d calls", calls)
		}
		d := r.take(hit("k", l, leasedMode))[0].Decision
		if d.Limit != 1000 || d.Remaining < 498 || d.Remaining > 499 || d.ResetAfter <= 0 || d.ResetAfter%time.Microsecond != 0 {
			t.Errorf("decision %+v, want limit 1000, remaining 499 (one may be in reserve) and a reset in whole µs", d)
		}
	})
}

//promise:leased
func TestNeverMoreThanTheLimit(t *testing.T) {
	for _, spec := range []limit.Spec{
		limit.PerMinute(100),
		{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Hour},
		{Algorithm: limit.SubWindows, Quota: 100, Period: time.Hour, SubWindows: 6},
		{Algorithm: limit.SlidingLog, Quota: 100, Period: time.Hour},
		{Algorithm: limit.LeakyBucket, Quota: 100, Period: time.Hour},
		{Algorithm: limit.GCRA, Quota: 100, Period: time.Hour, Burst: 100},
		{Quota: 0, Period: time.Hour},
	} {
		t.Run(spec.Algorithm.String(), func(t *testing.T) {
			inBubble(t, lease.Options{}, func(r *rig) {
				l := limit.Must(spec)
				want := int(l.Quota)
				if l.Algorithm == limit.LeakyBucket {
					want = 1
				}
				if got := r.warm(300, hit("k", l, leasedMode)); got > want || got < want-want/100 {
					t.Errorf("%d pass, want %d", got, want)
				}
			})
		})
	}
}

func TestLargeHits(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerMinute(1000))
		r.warm(50, hit("k", l, leasedMode))
		big := hit("k", l, leasedMode)
		big.Hits = 400
		if d := r.take(big)[0].Decision; !d.Allowed {
			t.Errorf("400 of the 950 that are left: %+v", d)
		}
		big.Hits = 1001
		if d := r.take(big)[0].Decision; d.Allowed || !d.Never {
			t.Errorf("more than the limit: %+v", d)
		}
	})
}

func TestGroupPutsBack(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		wide, narrow := limit.Must(limit.PerHour(1000)), limit.Must(limit.PerHour(1))
		r.warm(100, hit("wide", wide, leasedMode))
		group := []store.Take{hit("wide", wide, leasedMode), hit("narrow", narrow, nil)}
		group[0].Group, group[1].Group = 7, 7
		if res := r.take(group...); !res[0].Allowed || !res[1].Allowed {
			t.Fatalf("first group: %+v", res)
		}
		used := r.node.Stats().Used
		res := r.take(group...)
		if !res[0].Allowed || res[1].Allowed {
			t.Errorf("second group: %+v, want a peek and a denial", res)
		}
		if now := r.node.Stats().Used; now != used {
			t.Errorf("a denied group used %d leased hits", now-used)
		}
		group[1].Shadow = true
		if res = r.take(group...); !res[0].Allowed || res[1].Allowed {
			t.Errorf("third group: %+v", res)
		}
		if now := r.node.Stats().Used; now != used+1 {
			t.Errorf("a group whose denial is a shadow used %d leased hits, want 1", now-used)
		}
	})
}

// TestGroupFromMemory: nothing is asked when all of a group is leased, and groups
// that were apart stay apart when what was between them is answered here.
func TestGroupFromMemory(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l, one := limit.Must(limit.PerHour(1000)), limit.Must(limit.PerHour(1))
		r.warm(100, hit("a", l, leasedMode))
		r.warm(100, hit("b", l, leasedMode))
		a, b := hit("a", l, leasedMode), hit("b", l, leasedMode)
		a.Group, b.Group = 1, 1
		before := r.shared.takes.Load()
		if res := r.take(a, b); !res[0].Allowed || !res[1].Allowed {
			t.Errorf("group: %+v", res)
		}
		if r.shared.takes.Load() != before {
			t.Error("a leased group asked the store")
		}
		x, y := hit("x", one, nil), hit("y", one, nil)
		x2 := x
		x.Group, a.Group, b.Group, y.Group, x2.Group = 1, 2, 2, 1, 1
		res := r.take(x, a, b, x2, y)
		if !res[0].Allowed || res[3].Allowed || !res[4].Allowed {
			t.Errorf("groups: %+v, want the first to pass and the last to be denied", res)
		}
		if d := r.shared.TakeOne("y", one, 0); d.Remaining != 1 {
			t.Error("the denied group charged y")
		}
	})
}

func TestGroupWithLocal(t *testing.T) {
	here, err := local.New(local.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, lease.Options{Local: here}, func(r *rig) {
		two, one := limit.Must(limit.PerHour(2)), limit.Must(limit.PerHour(1))
		a, b := hit("a", two, localMode), hit("b", one, nil)
		a.Group, b.Group = 1, 1
		for i, want := range []bool{true, false, false} {
			if res := r.take(a, b); !res[0].Allowed || res[1].Allowed != want {
				t.Errorf("group %d: %+v", i, res)
			}
		}
		if d := r.take(hit("a", two, localMode))[0]; !d.Allowed || d.Remaining != 0 {
			t.Errorf("denied groups charged the local bucket: %+v", d)
		}
		before := r.shared.takes.Load()
		if res := r.take(a, b); res[0].Allowed || !res[1].Skipped {
			t.Errorf("denied by the local bucket: %+v", res)
		}
		if r.shared.takes.Load() != before {
			t.Error("a group that is denied here asked the store")
		}
	})
}

func TestReset(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerHour(1000))
		r.warm(500, hit("k", l, leasedMode))
		reset := hit("k", l, leasedMode)
		reset.Op = store.Reset
		r.take(reset)
		st := r.node.Stats()
		if st.Held != 0 {
			t.Errorf("%d hits are held after a reset", st.Held)
		}
		if got := r.warm(1200, hit("k", l, leasedMode)); got > 1000 || got < 990 {
			t.Errorf("%d pass after a reset, want 1000", got)
		}
	})
}

func TestNewLimitGivesBack(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		old := limit.Must(limit.PerHour(1000))
		r.warm(100, hit("k", old, leasedMode))
		same := limit.Must(limit.PerHour(1000))
		r.take(hit("k", same, leasedMode))
		if r.node.Stats().Returned > 1+r.node.Stats().Used/8 {
			t.Error("an equal limit drops the lease")
		}
		r.take(hit("k", limit.Must(limit.PerHour(500)), leasedMode))
		synctest.Wait()
		if left := r.remaining("k", old); left != 1000-102 {
			t.Errorf("%d are left, want all but the 102 that passed", left)
		}
	})
}

func TestIdleGivesBack(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerHour(1000))
		r.warm(100, hit("k", l, leasedMode))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		st := r.node.Stats()
		if left := r.remaining("k", l); left != 900 || st.Held != 0 || st.Buckets != 0 {
			t.Errorf("%d are left, want 900; %+v", left, st)
		}
	})
}

func TestDrain(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerHour(1000))
		r.warm(100, hit("leased", l, leasedMode))
		r.warm(100, hit("synced", l, syncedMode))
		if err := r.node.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		if a, b := r.remaining("leased", l), r.remaining("synced", l); a != 900 || b != 900 {
			t.Errorf("%d and %d are left, want 900", a, b)
		}
		before := r.shared.takes.Load()
		if r.warm(10, hit("leased", l, leasedMode)); r.shared.takes.Load() != before+10 {
			t.Error("takes after a drain are not direct")
		}
	})
}

// TestStoreFails: what is held goes on, then the error is the answer.
func TestStoreFails(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerHour(10_000))
		r.warm(1000, hit("k", l, leasedMode))
		held := r.node.Stats().Held
		r.shared.fail.Store(true)
		var passed int64
		for range 10_000 {
			res := r.take(hit("k", l, leasedMode))[0]
			if res.Err != nil {
				if store.ReasonOf(res.Err) != store.Unavailable {
					t.Errorf("error %v, want that of the store", res.Err)
				}
				break
			}
			passed++
		}
		if passed > held || passed < held-1 {
			t.Errorf("%d pass while the store is down, want the %d that were held, or one less", passed, held)
		}
		r.shared.fail.Store(false)
		time.Sleep(2 * time.Second)
		if r.warm(100, hit("k", l, leasedMode)) != 100 {
			t.Error("does not recover")
		}
	})
}

func TestParting(t *testing.T) {
	var ahead atomic.Int64
	wall := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	inBubble(t, lease.Options{Wall: wall}, func(r *rig) {
		l := limit.Must(limit.PerHour(1000))
		r.warm(100, hit("k", l, leasedMode))
		held := r.node.Stats().Held
		ahead.Store(int64(50 * time.Millisecond))
		r.take(hit("k", l, leasedMode))
		if r.node.Stats().Partings != 0 {
			t.Error("50 ms count as a suspension")
		}
		ahead.Store(int64(time.Minute))
		before := r.node.Stats().Expired
		r.take(hit("k", l, leasedMode))
		if st := r.node.Stats(); st.Partings != 1 || st.Expired-before < held-1 {
			t.Errorf("after a minute of suspension: %+v, want the %d hits that were held to expire", st, held)
		}
	})
}

func TestHotKeyIsLeased(t *testing.T) {
	var reports []string
	o := lease.Options{
		Hot: hotkey.New(hotkey.Options{Rate: 100}),
		OnHot: func(t *store.Take, key hotkey.Key, rate float64) {
			rule := t.Mode.Rule
			reports = append(reports, fmt.Sprintf("%s %x", rule, key[:4]))
		},
	}
	inBubble(t, o, func(r *rig) {
		l := limit.Must(limit.PerHour(100_000))
		r.warm(3000, hit("k", l, autoMode))
		calls := r.shared.takes.Load() + r.shared.leases.Load()
		if calls > 1500 {
			t.Errorf("%d calls for 3000 hits on a hot key", calls)
		}
		// The first half of SHA-256("k") starts with 8254c329.
		if len(reports) != 1 || reports[0] != "auto 8254c329" {
			t.Errorf("reports %q", reports)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if left := r.remaining("k", l); left != 97_000 {
			t.Errorf("%d are left when it has cooled, want 97000", left)
		}
		before := r.shared.takes.Load()
		for range 10 {
			r.take(hit("k", l, autoMode))
			time.Sleep(time.Second)
		}
		if r.shared.takes.Load() != before+10 {
			t.Error("a cold key is not decided in the store")
		}
	})
}

func TestBucketsAreBounded(t *testing.T) {
	inBubble(t, lease.Options{MaxBuckets: 64}, func(r *rig) {
		l := limit.Must(limit.PerHour(1000))
		for i := range 1000 {
			r.take(hit(fmt.Sprint(i), l, leasedMode))
		}
		if st := r.node.Stats(); st.Buckets > 64 || st.Crowded == 0 {
			t.Errorf("%+v, want at most 64 buckets", st)
		}
		time.Sleep(2 * time.Second)
		for i := range 1000 {
			r.take(hit(fmt.Sprint("later", i), l, leasedMode))
		}
		if st := r.node.Stats(); st.Buckets > 64 || st.Evicted == 0 {
			t.Errorf("%+v, want idle buckets to make room", st)
		}
	})
}

// TestDrainUnderLoad: what passed is charged, and all else given back, whatever
// goes on during a drain.
func TestDrainUnderLoad(t *testing.T) {
	shared, err := memstore.New(memstore.Options{MaxBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s := lease.New(lease.Options{Store: shared, Budget: 10 * time.Second})
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1 << 30, Period: limit.MaxPeriod})
	var (
		wg     sync.WaitGroup
		passed atomic.Int64
	)
	for i := range 8 {
		mode := leasedMode
		if i%2 == 0 {
			mode = syncedMode
		}
		wg.Go(func() {
			takes := []store.Take{hit(fmt.Sprint(i/4, mode.Rule), l, mode)}
			results := make([]store.Result, 1)
			for range 20_000 {
				if s.Take(t.Context(), takes, results); results[0].Err == nil && results[0].Allowed {
					passed.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		for passed.Load() < 50_000 {
			runtime.Gosched()
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	conserved(t, s.Stats())
	var charged int64
	for _, key := range []string{"0leased", "0synced", "1leased", "1synced"} {
		charged += l.Quota - shared.TakeOne(key, l, 0).Remaining
	}
	if st := s.Stats(); charged != passed.Load()+st.Expired || st.Held+st.UnderWay != 0 {
		t.Errorf("%d hits passed, %d are charged; %+v", passed.Load(), charged, st)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
