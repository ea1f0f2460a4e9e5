package denial

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// banned returns a bench that remembers a ban of a minute on "a", and the limit.
func banned(t *testing.T) (*bench, *limit.Limit) {
	t.Helper()
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Minute})
	b := newBench(t, Options{Longest: time.Hour})
	b.elsewhere(store.Take{Key: []byte("a"), Limit: l, Hits: 3, Op: store.Charge})
	b.one(hit("a", l, 2), false, true)
	return b, l
}

// elsewhere takes t by another node.
func (b *bench) elsewhere(t store.Take) {
	b.inner.Store.Take(b.t.Context(), []store.Take{t}, make([]store.Result, 1))
}

// A ban is known from the denial that begins it, and no earlier.
func TestKnowsABanFromItsBeginning(t *testing.T) {
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Hour})
	b := newBench(t, Options{Longest: time.Hour})
	charge := store.Take{Key: []byte("a"), Limit: l, Hits: 1, Op: store.Charge}
	for range 2 {
		b.one(charge, true, true)
		b.one(hit("a", l, 5), true, true)
	}
	b.one(charge, true, true)
	b.clock.advance(time.Minute)
	if d := b.one(hit("a", l, 5), false, false); d.RetryAfter != 59*time.Minute || d.ResetAfter != d.RetryAfter || d.Remaining != 0 || d.Limit != 3 {
		t.Errorf("banned: %+v", d)
	}
	charge.Op = store.Reset
	b.one(charge, true, true)
	b.one(hit("a", l, 5), true, true)
}

// A ban is answered from memory until it ends, whatever the hits are.
func TestRemembersABan(t *testing.T) {
	b, l := banned(t)
	for _, hits := range []int64{2, 1, 3, 4, limit.MaxQuota} {
		b.clock.advance(time.Second)
		d := b.one(hit("a", l, hits), false, false)
		if d.Never || d.Limit != 3 || d.Remaining != 0 || d.RetryAfter != d.ResetAfter {
			t.Errorf("%d hits: %+v", hits, d)
		}
	}
	b.one(hit("a", l, 0), true, true) // a peek is asked
	b.clock.advance(55*time.Second - time.Nanosecond)
	if d := b.one(hit("a", l, 7), false, false); d.RetryAfter != time.Microsecond {
		t.Errorf("at the end: %+v", d)
	}
	b.clock.advance(time.Nanosecond)
	b.one(hit("a", l, 1), true, true)
}

// What cannot lift a ban reaches the store and leaves it remembered; what can
// does not.
func TestWhatLeavesABanRemembered(t *testing.T) {
	for _, test := range []struct {
		op    store.Op
		hits  int64
		lifts bool
	}{
		{store.Charge, 5, false}, {store.Refund, 5, false}, {store.Renew, 1, false},
		{store.Release, 1, false}, {store.Hit, 0, false}, {store.Reset, 0, true},
	} {
		b, l := banned(t)
		between := store.Take{Key: []byte("a"), Limit: l, Hits: test.hits, Hold: 7, Op: test.op}
		b.one(between, true, true)
		b.one(hit("a", l, 2), test.lifts, test.lifts)
		if test.lifts {
			continue
		}
		for group := range uint32(2) { // also in one batch, before the hit
			before := b.inner.takes
			between.Group = group
			last := hit("a", l, 2)
			if r := b.batch(between, last); !r[0].Allowed || r[1].Allowed || b.inner.takes != before+1 {
				t.Errorf("op %d before a hit: %+v, %d asked", test.op, r, b.inner.takes-before)
			}
		}
	}
}

// A hit that is told of a ban while denials are charged is remembered.
func TestDenialsDoNotUndoABan(t *testing.T) {
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Minute})
	b := newBench(t, Options{})
	charge := store.Take{Key: []byte("a"), Limit: l, Hits: 3, Op: store.Charge}
	b.elsewhere(charge)
	b.inner.then = func() { b.batch(charge) }
	b.one(hit("a", l, 1), false, true)
	b.one(hit("a", l, 1), false, false)
}

// A slot may be released at any moment, through any node.
func TestForgetsWhoWaitsForASlot(t *testing.T) {
	for _, quota := range []int64{0, 1} {
		l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: quota, Period: time.Hour})
		b := newBench(t, Options{Longest: time.Hour})
		by := func(hold limit.Hold, op store.Op) store.Take {
			return store.Take{Key: []byte("a"), Limit: l, Hits: 1, Hold: hold, Op: op}
		}
		b.one(by(1, store.Renew), true, true)
		for _, hold := range []limit.Hold{0, 2, 2, 0} {
			b.one(by(hold, store.Hit), false, true)
		}
		b.one(by(1, store.Release), true, true)
		b.one(by(2, store.Hit), quota > 0, true)
	}
}
