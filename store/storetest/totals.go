package storetest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// RunTotals checks the store that open returns, which must be a store.Importer, as Run does.
// A store passes both.
func RunTotals(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, open, []test{
		{"total is a charge", testTotal},
		{"total once", testTotalOnce},
		{"totals in any order", testTotalsInAnyOrder},
		{"what was heard before", testTotalHeard},
		{"total given back", testTotalBack},
		{"total of a reset", testTotalReset},
		{"totals of many columns", testTotalColumns},
		{"totals of many buckets", testTotalBatch},
		{"totals of all limits", testTotalLimits},
		{"columns of any bytes", testTotalBytes},
		{"totals and the model", testTotalModel},
	})
}

// total tells of hits by one column, and of no more.
func total(key string, l *limit.Limit, by byte, hits int64) store.Total {
	return store.Total{Key: []byte(key), Limit: l, Column: store.Column{by}, Now: store.Counts{Hits: hits}, Keep: time.Hour}
}

// hear calls Import; an error of any result fails the test. It returns what remains of each.
func (h Harness) hear(tb testing.TB, totals ...store.Total) []int64 {
	tb.Helper()
	results := make([]store.Result, len(totals))
	as[store.Importer](tb, h.Store).Import(tb.Context(), totals, results)
	remaining := make([]int64, len(totals))
	for i := range results {
		if results[i].Err != nil {
			tb.Fatalf("total %d of %d, key %.40q: %v", i, len(totals), totals[i].Key, results[i].Err)
		}
		remaining[i] = results[i].Remaining
	}
	return remaining
}

// leaves fails the test unless so many hits remain after q.
func (h Harness) leaves(tb testing.TB, q store.Total, want int64) {
	tb.Helper()
	if left := h.hear(tb, q)[0]; left != want {
		tb.Errorf("%+v of column %q, of which %+v are heard, leave %d, want %d", q.Now, q.Column, q.Heard, left, want)
	}
}

var hundred = limit.Spec{Algorithm: limit.SlidingWindow, Quota: 100, Period: time.Minute}

func testTotal(t *testing.T, h Harness) {
	l := h.need(t, hundred)
	h.leaves(t, total("a", l, 1, 30), 70)
	h.remaining(t, "a", l, 70)
	h.leaves(t, total("a", l, 1, 130), 0) // counted even where it does not fit
}

func testTotalOnce(t *testing.T, h Harness) {
	l := h.need(t, hundred)
	for range 3 {
		h.leaves(t, total("a", l, 1, 30), 70)
	}
	// Twice in one batch, too.
	h.hear(t, total("a", l, 1, 40), total("a", l, 1, 40), total("a", l, 1, 35))
	h.remaining(t, "a", l, 60)
}

func testTotalsInAnyOrder(t *testing.T, h Harness) {
	l := h.need(t, hundred)
	for _, step := range []struct{ hits, left int64 }{{10, 90}, {50, 50}, {20, 50}, {0, 50}, {51, 49}, {50, 49}} {
		h.leaves(t, total("a", l, 1, step.hits), step.left)
	}
}

// What the store need not hear of is not charged, whether it has noted it or not.
func testTotalHeard(t *testing.T, h Harness) {
	l := h.need(t, hundred)
	q := total("a", l, 1, 1030)
	q.Heard.Hits = 1000
	h.leaves(t, q, 70)
	q.Now.Hits, q.Heard.Hits = 1040, 1005
	h.leaves(t, q, 60) // what was noted is more than what the sender knows
	q.Now.Hits, q.Heard.Hits = 1060, 1055
	h.leaves(t, q, 55) // what weighs no more is not charged
	q.Now.Hits, q.Heard.Hits = 1060, 1000
	h.leaves(t, q, 55) // nor is what was passed over, later
}

func testTotalBack(t *testing.T, h Harness) {
	l := h.need(t, hundred)
	q := total("a", l, 1, 30)
	q.Now.Back = 10
	if left := h.hear(t, q, q); left[0] != 80 || left[1] != 80 {
		t.Errorf("%d and %d left", left[0], left[1])
	}
	q.Now.Back = 25
	h.leaves(t, q, 95)
	q.Now = store.Counts{Hits: 40, Back: 45} // more than it has
	h.leaves(t, q, 100)
}

func testTotalReset(t *testing.T, h Harness) {
	l := h.need(t, hundred)
	h.hear(t, total("a", l, 1, 30), total("a", l, 2, 40), total("b", l, 1, 5))
	q := total("a", l, 1, 35)
	q.Heard.Hits, q.Now.Resets = 32, 1
	for range 2 {
		h.leaves(t, q, 97)
	}
	// Another column's count goes on, and the old total does not come back.
	h.hear(t, total("a", l, 2, 50), total("a", l, 2, 40))
	h.remaining(t, "a", l, 87)
	h.remaining(t, "b", l, 95)
	// A reset here leaves what was heard.
	h.batch(t, op(store.Reset, "a", l, 0))
	h.leaves(t, total("a", l, 2, 51), 99)
}

func testTotalColumns(t *testing.T, h Harness) {
	l := h.need(t, limit.Spec{Algorithm: limit.SlidingWindow, Quota: 1000, Period: time.Minute})
	var totals []store.Total
	for by := range byte(60) {
		totals = append(totals, total("a", l, by+1, 3), total("a", l, by+1, 2))
	}
	h.hear(t, totals...)
	h.remaining(t, "a", l, 820)
}

func testTotalBatch(t *testing.T, h Harness) {
	l := h.need(t, hundred)
	var totals []store.Total
	for i := range 300 {
		totals = append(totals, total(fmt.Sprintf("key %d", i), l, 1, int64(i%100)))
	}
	for i, left := range h.hear(t, totals...) {
		if want := 100 - int64(i%100); left != want {
			t.Errorf("%d left of %s, want %d", left, totals[i].Key, want)
		}
	}
	h.hear(t)
}

// Every algorithm but those that count no hits, in one batch.
func testTotalLimits(t *testing.T, h Harness) {
	var totals []store.Total
	for i, spec := range h.specs(specs) {
		l := limit.Must(spec)
		if l.Algorithm != limit.Concurrency && l.Algorithm != limit.Ban {
			totals = append(totals, total(fmt.Sprint(i), l, 1, 2))
		}
	}
	m := newModel()
	m.now = noon
	for i, left := range h.hear(t, append(totals, totals...)...)[:len(totals)] {
		if d := m.hear(&totals[i]); left != d.Remaining {
			t.Errorf("%v: %d left, want %d", totals[i].Limit.Algorithm, left, d.Remaining)
		}
	}
}

func testTotalBytes(t *testing.T, h Harness) {
	l := h.need(t, hundred)
	for i, c := range []store.Column{{}, {0, 1}, {1}, {255, 255, 255, 255, 255, 255, 255, 255}, {'\r', '\n', '{', '}', '$', 0, ' ', '*'}} {
		q := total("\x00{a}\r\n", l, 0, 10)
		q.Column = c
		if left := h.hear(t, q, q); left[0] != 90-10*int64(i) {
			t.Errorf("%q: %d left", c, left[0])
		}
	}
	most := total("most", l, 1, 1<<53-1)
	most.Now.Back, most.Now.Resets, most.Keep = 1<<53-1, 1<<53-1, store.MaxKeepTotal
	h.leaves(t, most, 100)
}

// hear puts a total into a bucket, as every Importer must.
func (m *model) hear(t *store.Total) limit.Decision {
	name := fmt.Sprintf("%q %q", t.Key, t.Column)
	reset, hits, heard := t.News(m.heard[name])
	m.heard[name] = heard
	if reset {
		m.takeOne(&store.Take{Key: t.Key, Limit: t.Limit, Op: store.Reset})
	}
	take := t.Take(hits)
	return m.takeOne(&take)
}

// testTotalModel drives the store and the model with the same random totals, some of them
// late, repeated or lost, and takes between them.
func testTotalModel(t *testing.T, h Harness) {
	counting := h.specs(specs[:limit.Concurrency])
	traces := 0
	rapid.Check(t, func(rt *rapid.T) {
		traces++
		tr := &trace{t: t, rt: rt, h: h, prefix: fmt.Sprintf("total %d ", traces), specs: counting, ops: mostlyHits}
		tr.begin(3)
		told := map[string][]store.Total{} // by bucket and column
		for range rapid.IntRange(1, 20).Draw(rt, "batches") {
			tr.moveClock()
			if rapid.Bool().Draw(rt, "takes") {
				tr.batch()
			} else {
				tr.totals(told)
			}
		}
	})
}

// totals tells of one total for some of the keys, new or old.
func (tr *trace) totals(told map[string][]store.Total) {
	var totals []store.Total
	for i := range tr.keys {
		if rapid.Bool().Draw(tr.rt, "left out") {
			continue
		}
		by := rapid.ByteRange(1, 3).Draw(tr.rt, "column")
		name := fmt.Sprint(i, by)
		before := told[name]
		if len(before) > 0 && rapid.IntRange(0, 3).Draw(tr.rt, "old") == 0 {
			totals = append(totals, rapid.SampledFrom(before).Draw(tr.rt, "which"))
			continue
		}
		q := store.Total{Key: []byte(tr.key(i)), Limit: rapid.SampledFrom(tr.keys[i]).Draw(tr.rt, "limit"), Column: store.Column{by}, Keep: store.MaxKeepTotal}
		if len(before) > 0 {
			q.Now = before[len(before)-1].Now
			q.Heard = rapid.SampledFrom(before).Draw(tr.rt, "heard").Now
		}
		most := q.Limit.Capacity()
		q.Now.Hits += rapid.SampledFrom([]int64{0, 1, 2, most/2 + 1, most, most + 1}).Draw(tr.rt, "hits")
		q.Now.Back += rapid.SampledFrom([]int64{0, 0, 0, 1, most}).Draw(tr.rt, "back")
		q.Now.Resets += rapid.SampledFrom([]int64{0, 0, 0, 0, 1}).Draw(tr.rt, "resets")
		told[name] = append(before, q)
		totals = append(totals, q)
	}
	if len(totals) == 0 {
		return
	}
	var touched []store.Take
	for i := range totals {
		touched = append(touched, store.Take{Key: totals[i].Key, Limit: totals[i].Limit})
	}
	tr.resetDead(touched)
	results := make([]store.Result, len(totals))
	tr.h.Store.(store.Importer).Import(tr.t.Context(), totals, results)
	for i := range totals {
		want := tr.model.hear(&totals[i])
		fmt.Fprintf(&tr.log, "at %d total %s %v of %v heard %v %v => %+v\n", tr.now, totals[i].Key, totals[i].Column, totals[i].Now, totals[i].Heard, describe(totals[i].Limit), want)
		if results[i].Err != nil || results[i].Decision != want {
			tr.rt.Fatalf("after\n%sthe store says %+v, error %v", tr.log.String(), results[i].Decision, results[i].Err)
		}
	}
	tr.compareStates(touched)
}
