package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/hotkey"
	"github.com/headgate/headgate/store/lease"
)

// heated is a bucket of autoMode that is leased since its key is hot: 2,000 of its
// 100,000 hits are used.
func heated(t *testing.T, test func(r *rig, l *limit.Limit)) {
	t.Helper()
	inBubble(t, lease.Options{Hot: hotkey.New(hotkey.Options{Rate: 100})}, func(r *rig) {
		l := limit.Must(limit.PerHour(100_000))
		r.warm(2000, hit("k", l, autoMode))
		if st := r.node.Stats(); st.Held == 0 {
			t.Fatalf("nothing is leased: %+v", st)
		}
		test(r, l)
	})
}

// A refund beside leases could let as many hits pass again: where hits are refunded
// every one is decided in the store for a while, as if nothing were leased.
//
//promise:hot-keys-stay-exact
func TestRefundsKeepHotKeysExact(t *testing.T) {
	heated(t, func(r *rig, l *limit.Limit) {
		refund := hit("k", l, autoMode)
		refund.Op = store.Refund
		r.take(refund)
		synctest.Wait()
		if st := r.node.Stats(); st.Held != 0 || st.UnderWay != 0 {
			t.Errorf("after a refund %d hits are held, %d under way", st.Held, st.UnderWay)
		}
		if left := r.remaining("k", l); left != 98_001 {
			t.Errorf("%d are left, want 98001", left)
		}
		before := r.shared.takes.Load()
		r.warm(1000, hit("k", l, autoMode))
		if got := r.shared.takes.Load() - before; got != 1000 {
			t.Errorf("%d of 1000 hits after a refund were decided in the store", got)
		}
		time.Sleep(time.Minute)
		if r.warm(2000, hit("k", l, autoMode)); r.node.Stats().Held == 0 {
			t.Error("a minute later nothing is leased again")
		}
	})
}

// What a node lets pass or denies by what it holds says so; what the store says does not.
func TestAheadIsWhatTheNodeDecides(t *testing.T) {
	heated(t, func(r *rig, l *limit.Limit) {
		if res := r.take(hit("k", l, autoMode))[0]; !res.Allowed || res.Basis != store.OnAdvance {
			t.Errorf("a leased hit is %+v", res)
		}
		peek := hit("k", l, autoMode)
		peek.Hits = 0
		if res := r.take(peek)[0]; res.Basis != store.OnBucket {
			t.Errorf("a peek is %+v", res)
		}
		if res := r.take(hit("cold", l, autoMode))[0]; res.Basis != store.OnBucket {
			t.Errorf("a cold hit is %+v", res)
		}
	})
}

// In a pause a node denies by itself, which is not remembered above; when the store has
// denied for long, that is.
func TestPausesAreNotTheStoresDenials(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spec  limit.Spec
		ahead bool
	}{
		{"sliding window, which fills bit by bit", limit.PerMinute(10_000), true},
		{"fixed window", limit.Spec{Algorithm: limit.FixedWindow, Quota: 10_000, Period: 24 * time.Hour}, false},
	} {
		inBubble(t, lease.Options{Hot: hotkey.New(hotkey.Options{Rate: 100})}, func(r *rig) {
			l := limit.Must(tt.spec)
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			for denied := 0; denied < 1; time.Sleep(time.Millisecond) {
				res := r.take(hit("k", l, autoMode))[0]
				if res.Allowed {
					continue
				}
				denied++
				if (res.Basis == store.OnAdvance) != tt.ahead {
					t.Errorf("%s: the first denial is %+v", tt.name, res)
				}
			}
		})
	}
}

// An attack on a denied key costs a node one question for each time that denials are
// remembered, hot or not.
func TestD5AttackOnHotDeniedKey(t *testing.T) {
	inBubble(t, lease.Options{Hot: hotkey.New(hotkey.Options{Rate: 100})}, func(r *rig) {
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: 24 * time.Hour})
		top := denial.New(r.node, denial.Options{OnAnswered: r.node.Note})
		ask := func(asks int) {
			var results [1]store.Result
			for range asks {
				top.Take(context.Background(), []store.Take{hit("k", l, autoMode)}, results[:])
				time.Sleep(time.Millisecond)
			}
		}
		ask(3000)
		if r.node.Stats().Hot != 1 {
			t.Error("the key is not hot, though only its denials are answered above")
		}
		before := r.shared.takes.Load() + r.shared.leases.Load()
		ask(20_000)
		if calls := r.shared.takes.Load() + r.shared.leases.Load() - before; calls > 11 {
			t.Errorf("%d calls for 20 s of denials, each of which is remembered for 2 s", calls)
		}
	})
}

// A reload that changes the limit while hits are leased: what is held goes back, and no
// more passes than the new limit has.
func TestHotKeysLimitChanges(t *testing.T) {
	racetest.Serially(t)
	for _, tt := range []struct{ to, want int64 }{{50_000, 48_000}, {200_000, 198_000}, {1000, 0}} {
		heated(t, func(r *rig, _ *limit.Limit) {
			to := limit.Must(limit.PerHour(tt.to))
			passed := int64(0)
			for range tt.want + 2000 {
				if r.take(hit("k", to, autoMode))[0].Allowed {
					passed++
				}
				synctest.Wait()
			}
			if passed > tt.want {
				t.Errorf("to %d: %d passed, and there was room for %d", tt.to, passed, tt.want)
			}
			if passed < tt.want*95/100 {
				t.Errorf("to %d: only %d of %d passed", tt.to, passed, tt.want)
			}
		})
	}
}
