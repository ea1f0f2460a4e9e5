package storetest

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// charge makes a take of op Charge.
func charge(key string, l *limit.Limit, hits int64) store.Take { return op(store.Charge, key, l, hits) }

// testCharge charges what fits and what does not: the answer is a peek at a
// bucket that then owes, until the instant that the denial of a hit names.
func testCharge(t *testing.T, h Harness) {
	eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
		h.SetNow(noon)
		m := newModel()
		m.now = noon
		most := l.Capacity()
		for _, hits := range [...]int64{0, 1, most, 2*most + 1} {
			takes := []store.Take{charge(key, l, hits), take(key, l, 0), take(key, l, 1)}
			want := m.Take(takes)
			got := h.batch(t, takes...)
			for i := range takes {
				if got[i] != want[i] {
					t.Fatalf("%d charged, take %d: %+v, want %+v", hits, i, got[i], want[i])
				}
			}
			if got[0] != got[1] {
				t.Fatalf("%d charged: %+v, a peek %+v", hits, got[0], got[1])
			}
		}
		h.passesAfter(t, h.hit(t, key, l, 1).RetryAfter, key, l)
	})
}

// testChargeInGroup: a charge is never denied, and not done when its group is.
func testChargeInGroup(t *testing.T, h Harness) {
	l := limit.Must(limit.PerHour(5))
	bucket := h.need(t, limit.Spec{Algorithm: limit.GCRA, Quota: 5, Period: time.Hour})
	results := h.batch(t, grouped(1, charge("a", l, 7), charge("b", bucket, 7), take("c", l, 1))...)
	if !results[2].Allowed || results[0].Remaining != 0 || results[1].Remaining != 0 {
		t.Errorf("a group with charges: %+v", results)
	}
	owing := h.hit(t, "b", bucket, 0)
	if owing.RetryAfter != 24*time.Minute {
		t.Errorf("two of five an hour too many: %+v", owing)
	}
	results = h.batch(t, grouped(1, charge("b", bucket, 3), charge("d", l, 3), take("a", l, 1))...)
	if results[2].Allowed || results[0].Decision != owing || results[1].Remaining != 5 {
		t.Errorf("a group that is denied: %+v", results)
	}
	if d := h.hit(t, "b", bucket, 0); d != owing {
		t.Errorf("after it: %+v, want %+v", d, owing)
	}
	h.remaining(t, "d", l, 5)
}
