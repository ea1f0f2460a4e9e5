package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// grouped puts takes into one group.
func grouped(id uint32, takes ...store.Take) []store.Take {
	for i := range takes {
		takes[i].Group = id
	}
	return takes
}

// remaining fails the test unless key has want hits left.
func (h Harness) remaining(t *testing.T, key string, l *limit.Limit, want int64) {
	t.Helper()
	if d := h.hit(t, key, l, 0); d.Remaining != want {
		t.Errorf("key %s: remaining %d, want %d", key, d.Remaining, want)
	}
}

func testGroupPasses(t *testing.T, h Harness) {
	var takes []store.Take
	for i, spec := range h.specs(specs) {
		takes = append(takes, take(string(rune('a'+i)), limit.Must(spec), 1))
	}
	for i, r := range h.batch(t, grouped(1, takes...)...) {
		if want := takes[i].Limit.Capacity() - 1; !r.Allowed || r.Remaining != want {
			t.Errorf("%v: %+v, want remaining=%d", takes[i].Limit.Algorithm, r, want)
		}
	}
}

// testGroupDenied has a group of all algorithms denied by its last take, by its
// first and by one in the middle: nothing is charged, and the others peek.
func testGroupDenied(t *testing.T, h Harness) {
	full := limit.Must(limit.PerHour(3))
	h.hit(t, "full", full, 3)
	specs := h.specs(specs)
	for at := range len(specs) + 1 {
		var takes []store.Take
		for i, spec := range specs {
			takes = append(takes, take(string(rune('a'+i)), limit.Must(spec), 1))
		}
		takes = slices.Insert(takes, at, take("full", full, 1))
		for i, r := range h.batch(t, grouped(1, takes...)...) {
			if i == at {
				if r.Allowed || r.RetryAfter <= 0 {
					t.Errorf("the full bucket at %d: %+v", at, r)
				}
				continue
			}
			l := takes[i].Limit
			if _, want := limit.Decide(l, limit.State{}, noon, 0); r.Decision != want {
				t.Errorf("%v, full bucket at %d: %+v, want %+v", l.Algorithm, at, r, want)
			}
		}
	}
	for i, spec := range specs {
		l := limit.Must(spec)
		h.remaining(t, string(rune('a'+i)), l, l.Capacity())
	}
}

// testGroupCountDenied: a limit that counts denied hits does not when its group
// is denied, by itself or by another.
func testGroupCountDenied(t *testing.T, h Harness) {
	counting := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour, CountDenied: true})
	other := limit.Must(limit.PerHour(5))
	for range 2 {
		results := h.batch(t, grouped(7, take("a", counting, 11), take("b", other, 1))...)
		if results[0].Allowed || results[1].Remaining != 5 {
			t.Errorf("got %+v", results)
		}
		if r := h.batch(t, grouped(7, take("a", counting, 11))...); r[0].Allowed {
			t.Errorf("group of one: %+v", r)
		}
		h.remaining(t, "a", counting, 10)
	}
	h.hit(t, "a", counting, 11)
	h.remaining(t, "a", counting, 0)
}

// testGroupShadow: the denial of a shadow take holds nothing back.
func testGroupShadow(t *testing.T, h Harness) {
	l := limit.Must(limit.PerHour(5))
	h.hit(t, "full", l, 5)
	takes := grouped(1, take("a", l, 1), take("full", l, 1), take("b", l, 1))
	takes[1].Shadow = true
	results := h.batch(t, takes...)
	if !results[0].Allowed || results[1].Allowed || !results[2].Allowed {
		t.Errorf("got %+v", results)
	}
	h.remaining(t, "a", l, 4)
	h.remaining(t, "b", l, 4)
	// One that is not shadow still does, and a shadow take is then not charged.
	takes = grouped(1, take("a", l, 1), take("full", l, 1), take("b", l, 1))
	takes[0].Shadow = true
	h.batch(t, takes...)
	h.remaining(t, "a", l, 4)
	h.remaining(t, "b", l, 4)
}

// testGroupDuplicates: takes on one bucket see each other.
func testGroupDuplicates(t *testing.T, h Harness) {
	eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
		most := l.Capacity()
		results := h.batch(t, grouped(1, take(key, l, most), take(key, l, 1))...)
		if results[1].Allowed || results[0].Remaining != most {
			t.Errorf("one hit too many: %+v", results)
		}
		h.remaining(t, key, l, most)
		results = h.batch(t, grouped(1, take(key, l, 0), take(key, l, most), take(key, l, 0))...)
		if results[0].Remaining != most || !results[1].Allowed || results[2].Remaining != 0 {
			t.Errorf("all hits: %+v", results)
		}
		h.remaining(t, key, l, 0)
	})
}

// testGroupRefund: refunds and resets are never denied, and are not done when
// the group is.
func testGroupRefund(t *testing.T, h Harness) {
	l := limit.Must(limit.PerHour(5))
	h.hit(t, "full", l, 5)
	h.hit(t, "a", l, 3)
	refund, reset := op(store.Refund, "a", l, 2), op(store.Reset, "a", l, 0)
	results := h.batch(t, grouped(1, refund, take("full", l, 1), reset)...)
	if results[0].Remaining != 2 || results[2].Remaining != 2 {
		t.Errorf("in a denied group: %+v", results)
	}
	h.remaining(t, "a", l, 2)
	results = h.batch(t, grouped(1, refund, take("b", l, 1))...)
	if results[0].Remaining != 4 {
		t.Errorf("in a group that passes: %+v", results)
	}
	h.remaining(t, "a", l, 4)
}

// testGroupsApart: a group is denied alone, and a number that comes again after
// another is another group.
func testGroupsApart(t *testing.T, h Harness) {
	l := limit.Must(limit.PerHour(5))
	h.hit(t, "full", l, 5)
	var takes []store.Take
	takes = append(takes, grouped(1, take("a", l, 1), take("full", l, 1))...)
	takes = append(takes, grouped(2, take("b", l, 1), take("c", l, 1))...)
	takes = append(takes, grouped(1, take("d", l, 1), take("e", l, 1))...)
	takes = append(takes, take("f", l, 1), take("full", l, 1), take("g", l, 1))
	h.batch(t, takes...)
	for key, want := range map[string]int64{"a": 5, "b": 4, "c": 4, "d": 4, "e": 4, "f": 4, "g": 4} {
		h.remaining(t, key, l, want)
	}
}

// testCrowd has many goroutines at one key while the clock stands still.
func testCrowd(t *testing.T, h Harness) {
	const goroutines, each = 16, 40
	larger := h.specs(specs)
	for i := range larger {
		larger[i].Quota *= 10
		larger[i].Burst *= 10
		larger[i].MaxQueue *= 10
	}
	eachOf(t, larger, func(t *testing.T, l *limit.Limit, key string) {
		var admitted atomic.Int64
		crowd(goroutines, func(int) {
			for range each {
				if h.hit(t, key, l, 1).Allowed {
					admitted.Add(1)
				}
			}
		})
		if want := min(l.Capacity(), goroutines*each); admitted.Load() != want {
			t.Errorf("admitted %d, want %d", admitted.Load(), want)
		}
	})
}

// testCrowdOfGroups has goroutines take the same keys in different orders, all
// or nothing. Each key is charged as often as groups passed.
func testCrowdOfGroups(t *testing.T, h Harness) {
	const goroutines, each, quota = 8, 60, 200
	l := h.need(t, limit.Spec{Algorithm: limit.SlidingLog, Quota: quota, Period: time.Hour})
	tight := h.need(t, limit.Spec{Algorithm: limit.SubWindows, Quota: quota / 2, Period: time.Hour})
	keys := [...]string{"a", "b", "c"}
	var passed atomic.Int64
	crowd(goroutines, func(g int) {
		for i := range each {
			takes := make([]store.Take, 0, len(keys)+1)
			for k := range keys {
				takes = append(takes, take(keys[(g+i+k)%len(keys)], l, 1))
			}
			takes = append(takes, take("tight", tight, 1))
			if h.batch(t, grouped(uint32(1+i), takes...)...)[len(keys)].Allowed {
				passed.Add(1)
			}
		}
	})
	if passed.Load() != quota/2 {
		t.Errorf("%d groups passed, want %d", passed.Load(), quota/2)
	}
	for _, key := range keys {
		h.remaining(t, key, l, quota-passed.Load())
	}
}

// crowd runs f in so many goroutines and waits for all.
func crowd(goroutines int, f func(i int)) {
	var group sync.WaitGroup
	for i := range goroutines {
		group.Go(func() { f(i) })
	}
	group.Wait()
}
