package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// twoSlots is a limit of two requests in flight, with a timeout of ten seconds.
var twoSlots = limit.Spec{Algorithm: limit.Concurrency, Quota: 2, Period: 10 * time.Second}

// by makes a take of one hit by a hold, or with another op its renewal or release.
func by(hold limit.Hold, op store.Op, key string, l *limit.Limit) store.Take {
	t := take(key, l, 1)
	t.Op, t.Hold = op, hold
	return t
}

// hold takes one take by a hold.
func (h Harness) hold(tb testing.TB, hold limit.Hold, op store.Op, key string, l *limit.Limit) limit.Decision {
	tb.Helper()
	return h.batch(tb, by(hold, op, key, l))[0].Decision
}

// testSlots takes slots until there are no more, and gives them back in all ways.
func testSlots(t *testing.T, h Harness) {
	l := h.need(t, twoSlots)
	timeout := l.Period
	full := limit.Decision{Allowed: true, Limit: 2, ResetAfter: timeout}
	one := limit.Decision{Allowed: true, Limit: 2, Remaining: 1, ResetAfter: timeout}
	none := limit.Decision{Allowed: true, Limit: 2, Remaining: 2}
	denied := limit.Decision{Limit: 2, ResetAfter: timeout, RetryAfter: timeout}
	for _, step := range []struct {
		hold limit.Hold
		op   store.Op
		want limit.Decision
	}{
		{1, store.Hit, one},
		{1, store.Hit, one}, // again, because an answer may be lost
		{2, store.Hit, full},
		{3, store.Hit, denied},
		{3, store.Release, full}, // has none
		{2, store.Release, one},
		{2, store.Release, one},
		{3, store.Hit, full},
		{2, store.Hit, denied},
		{1, store.Hit, full},
		{1, store.Refund, one},
		{limit.MaxHold, store.Hit, full},
		{3, store.Release, one},
		{limit.MaxHold, store.Release, none},
		{4, store.Renew, one}, // at work, whatever the store knows
		{5, store.Renew, full},
		{6, store.Renew, full},
		{7, store.Hit, denied},
		{4, store.Release, full},
		{7, store.Hit, denied},
		{5, store.Release, one},
		{7, store.Hit, full},
		{0, store.Reset, none},
		{0, store.Hit, none}, // asks
		{8, store.Hit, one},
	} {
		if d := h.hold(t, step.hold, step.op, "key", l); d != step.want {
			t.Fatalf("hold %d op %d: %+v, want %+v", step.hold, step.op, d, step.want)
		}
	}
}

// testSlotsKept peeks at slots and has hits denied over and over; nothing changes.
func testSlotsKept(t *testing.T, h Harness) {
	l := h.need(t, twoSlots)
	h.hold(t, 1, store.Hit, "key", l)
	h.hold(t, 2, store.Hit, "key", l)
	want := h.hit(t, "key", l, 0)
	for hold := range limit.Hold(5) {
		if d := h.hold(t, hold+100, store.Hit, "key", l); d.Allowed || d.RetryAfter != l.Period {
			t.Fatalf("a third: %+v", d)
		}
		peek := take("key", l, 0)
		peek.Hold = hold
		nothing := charge("key", l, 7)
		nothing.Hold = hold
		refund := by(hold+100, store.Refund, "key", l)
		for i, r := range h.batch(t, peek, nothing, refund, by(hold+100, store.Release, "key", l)) {
			if r.Decision != want {
				t.Errorf("hold %d, take %d: %+v, want %+v", hold, i, r, want)
			}
		}
	}
}

// testSlotsComeBack leaves slots alone, and renews them: each ends at its timeout
// and not before, also when the store has been busy and its clock has stepped back.
func testSlotsComeBack(t *testing.T, h Harness) {
	l := h.need(t, twoSlots)
	second, end := micros(time.Second), micros(l.Period)
	h.hold(t, 1, store.Hit, "key", l)
	h.SetNow(noon + second)
	h.hold(t, 2, store.Hit, "key", l)
	for _, step := range []struct {
		at   limit.Micros
		hold limit.Hold
		op   store.Op
		want bool
		left int64
	}{
		{end - 1, 3, store.Hit, false, 0},
		{end, 3, store.Hit, true, 0},
		{end + second - 1, 4, store.Hit, false, 0},
		{end + second - 1, 2, store.Renew, true, 0},
		{end + second, 4, store.Hit, false, 0},
		{2*end - 1, 4, store.Hit, false, 0},
		{2 * end, 3, store.Release, true, 1}, // too late
		{2*end + second - 2, 4, store.Hit, true, 0},
		{2*end + second - 2, 5, store.Hit, false, 0},
		{2*end + second - 1, 4, store.Release, true, 2},
	} {
		h.SetNow(noon + step.at)
		if d := h.hold(t, step.hold, step.op, "key", l); d.Allowed != step.want || d.Remaining != step.left {
			t.Fatalf("%d µs on, hold %d op %d: %+v, want allowed=%t remaining=%d", step.at, step.hold, step.op, d, step.want, step.left)
		}
	}
	start := noon + micros(time.Hour)
	h.SetNow(start)
	h.hold(t, 1, store.Hit, "margin", l)
	h.SetNow(start + end + stepMargin - 2)
	h.others(t, "slots")
	h.SetNow(start + end - 1)
	if d := h.hit(t, "margin", l, 0); d.Remaining != 1 || d.ResetAfter != time.Microsecond {
		t.Errorf("after a step back over the end of a slot: %+v", d)
	}
}

// testSlotsOfNobody: hits of no hold, or of one out of range, take nothing, however
// many they are.
func testSlotsOfNobody(t *testing.T, h Harness) {
	l := h.need(t, twoSlots)
	for _, hold := range [...]limit.Hold{0, limit.MaxHold + 1, 1<<64 - 1} {
		for _, op := range [...]store.Op{store.Hit, store.Renew, store.Release, store.Refund, store.Charge} {
			if d := h.hold(t, hold, op, "key", l); !d.Allowed || d.Remaining != 2 || d.ResetAfter != 0 {
				t.Errorf("hold %d op %d: %+v", hold, op, d)
			}
		}
	}
	many := by(1, store.Hit, "key", l)
	many.Hits = limit.MaxQuota
	if d := h.batch(t, many)[0]; !d.Allowed || d.Remaining != 1 {
		t.Errorf("many hits of one hold: %+v", d)
	}
	if d := h.hit(t, "key", l, limit.MaxQuota); !d.Allowed || d.Remaining != 1 {
		t.Errorf("many hits of nobody: %+v", d)
	}
	h.hold(t, 2, store.Hit, "key", l)
	for _, hold := range [...]limit.Hold{0, limit.MaxHold + 1} {
		if d := h.hold(t, hold, store.Hit, "key", l); d.Allowed || d.RetryAfter != l.Period {
			t.Errorf("hold %d when all slots are taken: %+v", hold, d)
		}
	}
}

// testManySlots takes many slots of one bucket, goes past them by renewals, and
// frees every other one. (It stays far below MaxConcurrency: each take of so many
// slots looks at all of them.)
func testManySlots(t *testing.T, h Harness) {
	const most = 400
	l := h.need(t, limit.Spec{Algorithm: limit.Concurrency, Quota: most, Period: time.Minute})
	const step = (1 << 53) / (4 * most) // holds of all sizes
	for from := 0; from < 2*most; from += most / 8 {
		takes := make([]store.Take, most/8)
		for i := range takes {
			takes[i] = by(limit.Hold(from+i+1)*step, store.Hit, "key", l)
			if from >= most {
				takes[i].Op = store.Renew
			}
		}
		for i, r := range h.batch(t, takes...) {
			if want := max(int64(most-from-i-1), 0); !r.Allowed || r.Remaining != want {
				t.Fatalf("slot %d: %+v, want remaining=%d", from+i, r, want)
			}
		}
	}
	if d := h.hold(t, 1, store.Hit, "key", l); d.Allowed || d.RetryAfter != time.Minute {
		t.Errorf("one beyond all: %+v", d)
	}
	var takes []store.Take
	for i := 1; i < 2*most; i += 2 {
		takes = append(takes, by(limit.Hold(i)*step, store.Release, "key", l))
	}
	h.batch(t, takes...)
	if d := h.hold(t, 1, store.Hit, "key", l); d.Allowed {
		t.Errorf("when as many are left as there may be: %+v", d)
	}
	h.hold(t, 2*step, store.Release, "key", l)
	if d := h.hold(t, 1, store.Hit, "key", l); !d.Allowed || d.Remaining != 0 {
		t.Errorf("when one is free: %+v", d)
	}
}

// testSlotsInGroup: a hit by a hold is denied with its group, and takes nothing
// then; no slot is renewed or released in it either.
func testSlotsInGroup(t *testing.T, h Harness) {
	l := h.need(t, twoSlots)
	hour := limit.Must(limit.PerHour(5))
	h.hit(t, "full", hour, 5)
	h.hold(t, 1, store.Hit, "a", l)
	before := h.hit(t, "a", l, 0)
	h.SetNow(noon + micros(time.Second))
	before.ResetAfter -= time.Second
	results := h.batch(t, grouped(1,
		by(2, store.Hit, "a", l), by(1, store.Renew, "a", l), by(1, store.Release, "a", l),
		by(3, store.Hit, "b", l), take("full", hour, 1), by(4, store.Renew, "b", l), by(1, store.Refund, "a", l))...)
	for _, i := range [...]int{0, 1, 2, 6} {
		if results[i].Decision != before {
			t.Errorf("take %d of a group that is denied: %+v, want %+v", i, results[i], before)
		}
	}
	if results[4].Allowed || results[3].Remaining != 2 || results[5].Remaining != 2 {
		t.Errorf("a group that is denied: %+v", results)
	}
	if d := h.hit(t, "a", l, 0); d != before {
		t.Errorf("after a group that is denied: %+v, want %+v", d, before)
	}
	h.remaining(t, "b", l, 2)
	// The slots are what denies: the hit on the hour is not charged.
	h.hold(t, 2, store.Hit, "a", l)
	results = h.batch(t, grouped(1, take("free", hour, 1), by(3, store.Hit, "a", l))...)
	if results[0].Remaining != 5 || results[1].Allowed || results[1].RetryAfter != 9*time.Second {
		t.Errorf("a group without a slot: %+v", results)
	}
	// Renewals and releases deny nothing, and a group sees what they do.
	results = h.batch(t, grouped(1,
		take("free", hour, 1), by(4, store.Renew, "a", l), by(1, store.Release, "a", l),
		by(2, store.Release, "a", l), by(3, store.Hit, "a", l))...)
	if results[0].Remaining != 4 || results[1].Remaining != 0 || results[3].Remaining != 1 || !results[4].Allowed || results[4].Remaining != 0 {
		t.Errorf("a group that makes its slot: %+v", results)
	}
	shadow := by(5, store.Hit, "a", l)
	shadow.Shadow = true
	results = h.batch(t, grouped(1, take("free", hour, 1), shadow)...)
	if results[0].Remaining != 3 || results[1].Allowed {
		t.Errorf("a group with a shadow: %+v", results)
	}
}

// testSlotsInBatch: takes of one batch see each other, and those of one hold share
// a slot, in a group or not.
func testSlotsInBatch(t *testing.T, h Harness) {
	l := h.need(t, twoSlots)
	for group := range uint32(2) {
		key := fmt.Sprint("key ", group)
		takes := []store.Take{
			by(1, store.Hit, key, l), by(1, store.Hit, key, l), by(2, store.Hit, key, l), by(2, store.Hit, key, l),
			by(1, store.Release, key, l), by(3, store.Hit, key, l), by(2, store.Refund, key, l), by(2, store.Release, key, l),
		}
		for i, r := range h.batch(t, grouped(group, takes...)...) {
			if want := [...]int64{1, 1, 0, 0, 1, 0, 1, 1}[i]; !r.Allowed || r.Remaining != want {
				t.Errorf("group %d, take %d: %+v, want remaining=%d", group, i, r, want)
			}
		}
	}
}

// testHoldsElsewhere renews and releases by limits that have no slots: these are
// peeks that deny no group, and a hold is nothing to a hit.
func testHoldsElsewhere(t *testing.T, h Harness) {
	eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
		hit := by(7, store.Hit, key, l)
		for left := l.Capacity() - 1; left >= 0; left-- {
			if r := h.batch(t, hit)[0]; !r.Allowed || r.Remaining != left {
				t.Fatalf("a hit by a hold: %+v, want remaining=%d", r, left)
			}
		}
		h.batch(t, charge(key, l, 3))
		want := h.hit(t, key, l, 0)
		for group := range uint32(2) {
			takes := grouped(group, by(7, store.Renew, key, l), by(7, store.Release, key, l), take(key+" other", l, 1))
			results := h.batch(t, takes...)
			if results[0].Decision != want || results[1].Decision != want || !results[2].Allowed {
				t.Fatalf("renewed and released: %+v, want %+v", results, want)
			}
			h.batch(t, op(store.Reset, key+" other", l, 0))
		}
	})
}

// testCrowdOfHolds has many goroutines come and go: never are more inside than
// there are slots, and in the end all slots are free.
func testCrowdOfHolds(t *testing.T, h Harness) {
	const goroutines, each, quota = 16, 40, 5
	l := h.need(t, limit.Spec{Algorithm: limit.Concurrency, Quota: quota, Period: time.Hour})
	hour := limit.Must(limit.Spec{Quota: limit.MaxQuota, Period: time.Hour})
	var inside, served atomic.Int64
	crowd(goroutines, func(g int) {
		for i := range each {
			hold := limit.Hold(1 + g*each + i)
			takes := grouped(uint32(i%2), take("hour", hour, 1), by(hold, store.Hit, "key", l))
			if !h.batch(t, takes...)[1].Allowed {
				continue
			}
			served.Add(1)
			if n := inside.Add(1); n > quota {
				t.Errorf("%d are inside", n)
			}
			if i%3 == 0 {
				h.hold(t, hold, store.Renew, "key", l)
			}
			inside.Add(-1)
			h.hold(t, hold, store.Release, "key", l)
		}
	})
	if served.Load() < quota {
		t.Errorf("%d were let in", served.Load())
	}
	h.remaining(t, "key", l, quota)
}

// testModelHolds drives the store and the model with holds and bans beside hits.
func testModelHolds(t *testing.T, h Harness) {
	h.need(t, twoSlots)
	h.need(t, twice)
	var more []limit.Spec
	for range len(specs) / 2 {
		more = append(more, twoSlots, twice)
	}
	driveModel(t, h, append(more, specs...), []store.Op{
		store.Hit, store.Hit, store.Hit, store.Hit, store.Hit,
		store.Renew, store.Release, store.Release, store.Charge, store.Charge, store.Refund, store.Reset,
	})
}
