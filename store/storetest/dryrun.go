package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// dry returns takes as dry runs.
func dry(takes ...store.Take) []store.Take {
	takes = slices.Clone(takes)
	for i := range takes {
		takes[i].DryRun = true
	}
	return takes
}

// twice decides takes as dry runs, and then for good: both say the same, and between
// the two nothing has changed.
func (h Harness) twice(t *testing.T, takes ...store.Take) {
	t.Helper()
	before := h.states(takes)
	said := h.batch(t, dry(takes...)...)
	for i, s := range h.states(takes) {
		if !sameState(s, before[i]) {
			t.Errorf("key %s, %v: a dry run has made %+v of %+v", takes[i].Key, takes[i].Limit.Algorithm, s, before[i])
		}
	}
	for i, r := range h.batch(t, takes...) {
		if r.Decision != said[i].Decision {
			t.Errorf("take %d, %v of %d hits, op %d: dry %+v, real %+v", i, takes[i].Limit.Algorithm, takes[i].Hits, takes[i].Op, said[i], r)
		}
	}
}

// states returns what is stored for the keys of takes, as far as can be seen.
func (h Harness) states(takes []store.Take) []limit.State {
	states := make([]limit.State, len(takes))
	for i := range takes {
		if h.State != nil {
			states[i] = copyState(h.State(string(takes[i].Key)))
		}
	}
	return states
}

// drySpecs are limits of all algorithms, and of what changes how these decide.
func drySpecs(t *testing.T) []limit.Spec {
	t.Helper()
	day, err := limit.NewCalendar(limit.CalendarDay, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(specs)
	for _, a := range []limit.Algorithm{limit.SlidingWindow, limit.FixedWindow, limit.SubWindows} {
		all = append(all, limit.Spec{Algorithm: a, Quota: 10, Period: time.Minute, CountDenied: true})
	}
	return append(all,
		limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Calendar: day},
		limit.Spec{Algorithm: limit.SlidingLog, Quota: 10, Period: time.Minute, Carry: limit.CarryShare},
		limit.Spec{Algorithm: limit.TokenBucket, Quota: 7, Period: time.Minute, Burst: 10, Carry: limit.CarryNothing},
		limit.Spec{Algorithm: limit.Concurrency, Quota: 3, Period: time.Minute},
		limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Minute, BanFor: time.Hour},
	)
}

// testDryRun has each algorithm say beforehand what it then says, from unused to full
// and back again, for every op.
func testDryRun(t *testing.T, h Harness) {
	for i, spec := range h.specs(drySpecs(t)) {
		now, l, key := noon, limit.Must(spec), []byte{'k', byte(i)}
		for step, hits := range []int64{1, 0, 3, 2, 5, 1, 4, 11, 9, 1, 2, 1, 3, 0} {
			h.SetNow(now)
			for _, op := range []store.Op{store.Hit, store.Charge, store.Refund, store.Renew, store.Release, store.Reset} {
				if op != store.Hit && step%4 != int(op)%4 {
					continue
				}
				h.twice(t, store.Take{Key: key, Limit: l, Hits: hits, Hold: limit.Hold(1 + hits%4), Op: op})
			}
			now += micros(7*time.Second + 13*time.Microsecond)
		}
		h.SetNow(noon)
	}
}

// testDryRunTallies has limits that disagree share one key.
func testDryRunTallies(t *testing.T, h Harness) {
	var limits []*limit.Limit
	for _, spec := range h.specs(specs) {
		for quota := range int64(3) {
			spec.Quota = 5 + 5*quota
			limits = append(limits, limit.Must(spec))
		}
	}
	now := noon
	for i := range 60 {
		now += micros(time.Second)
		h.SetNow(now)
		h.twice(t, take("shared", limits[i*7%len(limits)], 1+int64(i%3)))
	}
}

// testDryRunBatch has dry runs on one bucket see each other and the real takes before
// them, and nobody see a dry run else.
func testDryRunBatch(t *testing.T, h Harness) {
	eachSpec(t, h, func(t *testing.T, l *limit.Limit, key string) {
		most := l.Capacity()
		all := take(key, l, most)
		one := take(key, l, 1)
		h.twiceDry(t, dry(all, one), true, false)
		h.twiceDry(t, dry(one, all), true, most == 0)
		results := h.batch(t, slices.Concat(dry(all), []store.Take{one}, dry(one, all))...)
		want := []bool{true, true, most > 1, false}
		for i := range results {
			if results[i].Allowed != want[i] {
				t.Errorf("dry, real, dry, dry: take %d is %+v", i, results[i])
			}
		}
		h.remaining(t, key, l, most-1)
	})
}

// twiceDry decides dry runs two times, and expects the same each time.
func (h Harness) twiceDry(t *testing.T, takes []store.Take, want ...bool) {
	t.Helper()
	for range 2 {
		for i, r := range h.batch(t, takes...) {
			if r.Allowed != want[i] {
				t.Errorf("dry run %d: %+v, want allowed %t", i, r, want[i])
			}
		}
	}
}

// testDryRunGroup has groups be all or nothing, in a dry run as for good.
func testDryRunGroup(t *testing.T, h Harness) {
	full := limit.Must(limit.PerHour(3))
	h.hit(t, "full", full, 3)
	for _, hold := range []bool{true, false} {
		for i, spec := range h.specs(drySpecs(t)) {
			l, key := limit.Must(spec), string([]byte{'g', byte(i)})
			mine := store.Take{Key: []byte(key), Limit: l, Hits: 1, Hold: 1}
			held := take("full", full, 1)
			held.Shadow = !hold
			h.twice(t, grouped(1, mine, held, mine)...)
		}
	}
	l := limit.Must(limit.PerHour(2))
	takes := slices.Concat(grouped(1, take("a", l, 1), take("full", full, 1)), grouped(2, take("a", l, 2), take("b", l, 1)), grouped(1, take("a", l, 1), take("b", l, 1)))
	h.twiceDry(t, dry(takes...), true, false, true, true, false, true)
	h.twice(t, takes...)
	h.remaining(t, "a", l, 0)
	h.remaining(t, "b", l, 1)
}

// testDryRunLarge has more dry runs than one call holds see each other.
func testDryRunLarge(t *testing.T, h Harness) {
	l := limit.Must(limit.PerHour(100))
	var takes []store.Take
	for i := range 120 {
		takes = append(takes, take("large", l, 1), take(string(rune('a'+i)), l, 1))
	}
	h.twice(t, takes...)
}

// testCrowdOfDryRuns has dry runs of many callers go on while others hit: none sees
// that of another, and no hit is the less for it.
func testCrowdOfDryRuns(t *testing.T, h Harness) {
	const goroutines, each = 16, 30
	l := limit.Must(limit.PerHour(goroutines * each / 2))
	crowd(goroutines, func(i int) {
		for range each {
			if i%2 == 0 {
				if !h.hit(t, "hit", l, 1).Allowed {
					t.Error("a hit is denied though there is room")
				}
				continue
			}
			if r := h.batch(t, dry(take("unused", l, l.Capacity()), take("hit", l, 1))...); !r[0].Allowed || r[0].Remaining != 0 {
				t.Errorf("a dry run of all there is: %+v", r[0])
			}
		}
	})
	h.remaining(t, "hit", l, 0)
}
