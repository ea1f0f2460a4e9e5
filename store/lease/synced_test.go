package lease_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/lease"
)

// syncedBound is the promise of synced: min((N-1) L, D (T + d)) beyond the limit,
// with the demand of the fleet per second, the interval and the time that an
// exchange takes. Views are used from when they are made to when the next is
// there, and exchanges are looked for every 25 ms. Arrivals are random: four
// standard deviations of their number come on top.
func syncedBound(sc scenario) int64 {
	perSecond := sc.demand * float64(sc.spec.Quota) / sc.spec.Period.Seconds()
	span := sc.mode.SyncInterval + 25*time.Millisecond + 5*simDelay
	arrivals := perSecond * span.Seconds()
	return min((simNodes-1)*sc.spec.Quota, int64(arrivals+4*math.Sqrt(arrivals))+1)
}

//promise:known-bounds synced
func TestSimulationSynced(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("a quarter of a million decisions")
	}
	quick := &store.Mode{Rule: "synced", Consistency: store.Synced, SyncInterval: store.MinSyncInterval}
	usual := &store.Mode{Rule: "synced", Consistency: store.Synced, SyncInterval: store.DefaultSyncInterval}
	scenarios := []scenario{
		{name: "sliding 1,000/min x2, 200 ms", spec: small, demand: 2, mode: usual},
		{name: "sliding 10,000/min x1, 200 ms", spec: middle, demand: 1, mode: usual},
		{name: "sliding 10,000/min x2, 200 ms", spec: middle, demand: 2, mode: usual},
		{name: "sliding 10,000/min x5, 200 ms", spec: middle, demand: 5, mode: usual},
		{name: "sliding 10,000/min x5, 50 ms", spec: middle, demand: 5, mode: quick},
		{name: "fixed 10,000/min x5, 200 ms", spec: middleFixed, demand: 5, mode: usual},
		{name: "gcra 10,000/min x5, 200 ms", spec: middleGCRA, demand: 5, mode: usual},
		{name: "sliding 10/s x20, 200 ms", spec: limit.PerSecond(10), demand: 20, mode: usual},
	}
	length := 70 * time.Second
	if long() {
		length = 5 * time.Minute
	}
	fmt.Printf("%-36s %8s %8s %7s %7s %8s %8s %9s %7s\n", "synced: 10 nodes, 1 ms away", "asked", "passed", "over", "bound", "under %", "calls %", "exchanges", "dropped")
	for _, sc := range scenarios {
		sc.length = length
		for _, seed := range seeds() {
			o := simulate(t, sc, seed)
			bound := syncedBound(sc)
			if !sc.spec.Algorithm.IsBucket() {
				o.excess = o.crowded
			}
			fmt.Printf("%-36s %8d %8d %7d %7d %8.2f %8.3f %9d %7d\n", sc.name, o.asked, o.passed, o.excess, bound, o.underUse(), o.callsPerDecision(), o.stats.Exchanges, o.stats.Dropped)
			if o.excess > bound {
				t.Errorf("%s, seed %d: %d hits over the limit, the bound is %d", sc.name, seed, o.excess, bound)
			}
		}
	}
}

// TestSyncedChargesWhatPassed: the shared bucket knows all hits an interval later,
// though nobody asks again.
func TestSyncedChargesWhatPassed(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerHour(1000))
		if got := r.warm(300, hit("k", l, syncedMode)); got != 300 {
			t.Errorf("%d of 300 pass", got)
		}
		if calls := r.shared.takes.Load(); calls > 4 {
			t.Errorf("%d calls in 300 ms", calls)
		}
		time.Sleep(store.DefaultSyncInterval + 50*time.Millisecond)
		synctest.Wait()
		if left := r.remaining("k", l); left != 700 {
			t.Errorf("%d are left, want 700", left)
		}
	})
}

// TestSyncedOwes: what passed too much is paid back.
//
//promise:synced
func TestSyncedOwes(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 100, Period: time.Second, Burst: 100})
		r.take(hit("k", l, syncedMode))
		r.shared.Store.Take(context.Background(), []store.Take{{Key: []byte("k"), Limit: l, Hits: 99}}, make([]store.Result, 1))
		passed := 0
		for range 150 {
			if r.take(hit("k", l, syncedMode))[0].Allowed {
				passed++
			}
		}
		if passed != 99 {
			t.Fatalf("%d pass by the view, want the 99 that it had", passed)
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if r.take(hit("k", l, syncedMode))[0].Allowed {
			t.Error("a hit passes while the bucket owes 69")
		}
		time.Sleep(800 * time.Millisecond)
		if !r.take(hit("k", l, syncedMode))[0].Allowed {
			t.Error("no hit passes when the debt is paid")
		}
	})
}

// TestSyncedDropsLateHits: hits of a window that is over are not charged to the
// next.
func TestSyncedDropsLateHits(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: time.Second})
		time.Sleep(900 * time.Millisecond)
		for range 50 {
			r.take(hit("k", l, syncedMode))
		}
		r.shared.fail.Store(true)
		time.Sleep(150 * time.Millisecond)
		r.shared.fail.Store(false)
		r.take(hit("k", l, syncedMode))
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if left := r.remaining("k", l); left != 999 {
			t.Errorf("%d are left in the new window, want 999", left)
		}
		if st := r.node.Stats(); st.Dropped != 49 {
			t.Errorf("%d hits dropped, want 49", st.Dropped)
		}
	})
}

// TestSyncedNewLimit: what has passed under the old limit, and is not charged yet
// or on its way, counts under the new one.
func TestSyncedNewLimit(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.SlidingWindow, limit.FixedWindow, limit.GCRA} {
		for _, pause := range []time.Duration{0, 190 * time.Millisecond, 202 * time.Millisecond, 250 * time.Millisecond} {
			t.Run(fmt.Sprint(algorithm, pause), func(t *testing.T) {
				inWorld(t, 1, func(w *world, n *node) {
					quotas := []int64{100, 150, 120}
					passed := 0
					for i, quota := range quotas {
						l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: quota, Period: 365 * 24 * time.Hour})
						for range 200 {
							if n.passes(hit("k", l, syncedMode)) {
								passed++
							}
						}
						most := []int{100, 150, 150}[i]
						least := most
						if algorithm.IsBucket() {
							least = 100 // what was charged at the old rate takes as long to drain as it did
						}
						if passed < least || passed > most {
							t.Errorf("%d passed in all with limits %v, want %d to %d", passed, quotas[:i+1], least, most)
						}
						time.Sleep(pause)
					}
				})
			})
		}
	}
}

// What has passed under the old limit is charged before the first hit under the new one, also
// while the questions of other buckets keep the courier busy.
func TestSyncedNewLimitBehindOthers(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		r.shared.answer = make(chan struct{})
		r.shared.stuck = func(takes []store.Take) bool { return takes[0].Op == store.Charge && string(takes[0].Key) != "k" }
		old, raised := limit.Must(limit.PerHour(100)), limit.Must(limit.PerHour(150))
		for i := range 4 { // each in a call of its own, which is stuck
			for range 2 {
				r.take(hit(fmt.Sprint("other ", i), old, syncedMode))
			}
			if err := sleep.For(r.t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		passed := 0
		for _, l := range []*limit.Limit{old, raised} {
			for range 150 {
				if r.take(hit("k", l, syncedMode))[0].Allowed {
					passed++
				}
			}
		}
		if passed != 150 {
			t.Errorf("%d passed, want 150", passed)
		}
		close(r.shared.answer)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		defer cancel()
		if err := r.node.Drain(ctx); err != nil {
			t.Errorf("what was run out of turn is still waited for: %v", err)
		}
	})
}

// TestSyncedNewLimitWhileStoreFails: what is not charged is not forgotten either.
func TestSyncedNewLimitWhileStoreFails(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		old, raised := limit.Must(limit.PerHour(1000)), limit.Must(limit.PerHour(2000))
		r.take(hit("k", old, syncedMode))
		r.shared.fail.Store(true)
		for range 99 {
			r.take(hit("k", old, syncedMode))
		}
		if res := r.take(hit("k", raised, syncedMode))[0]; res.Err == nil {
			t.Errorf("%+v, want the error of the store", res)
		}
		time.Sleep(time.Second)
		r.shared.fail.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if left := r.remaining("k", raised); left != 1900 {
			t.Errorf("%d are left, want 1900", left)
		}
		if st := r.node.Stats(); st.Dropped != 0 {
			t.Errorf("%d hits dropped", st.Dropped)
		}
	})
}

// TestSyncedGroupWithNewLimit: a group waits for the charge too, though another of
// its takes is asked anyway.
func TestSyncedGroupWithNewLimit(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l, wide := limit.Must(limit.PerHour(100)), limit.Must(limit.PerHour(1000))
		for range 200 {
			r.take(hit("k", l, syncedMode))
		}
		same := limit.Must(limit.Spec{Quota: 101, Period: time.Hour})
		a, b := hit("k", same, syncedMode), hit("wide", wide, nil)
		a.Group, b.Group = 1, 1
		passed := 0
		for range 5 {
			if res := r.take(a, b); res[0].Allowed && res[1].Allowed {
				passed++
			}
		}
		if passed != 1 {
			t.Errorf("%d groups pass, want the one that the new limit has more", passed)
		}
	})
}

// TestSyncedStoreFails: the last view holds for ten intervals.
func TestSyncedStoreFails(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.PerHour(100_000))
		r.warm(100, hit("k", l, syncedMode))
		r.shared.fail.Store(true)
		start := time.Now()
		for r.take(hit("k", l, syncedMode))[0].Err == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if lasted := time.Since(start); lasted < 9*store.DefaultSyncInterval || lasted > 11*store.DefaultSyncInterval {
			t.Errorf("goes on for %v, want ten intervals", lasted)
		}
		r.shared.fail.Store(false)
		time.Sleep(2 * time.Second)
		if res := r.take(hit("k", l, syncedMode))[0]; res.Err != nil {
			t.Errorf("does not recover: %v", res.Err)
		}
	})
}
