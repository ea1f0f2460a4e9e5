package drill

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func order() *Order {
	return &Order{ID: "1", Fault: StoreDown, LastsMS: 60_000, AbortAbove: 0.01, Actor: "ann", BeganAt: noon}
}

func TestN6OrderIsBounded(t *testing.T) {
	if err := order().Valid(); err != nil {
		t.Fatal(err)
	}
	for field, breaks := range map[string][]func(*Order){
		"id":       {func(o *Order) { o.ID = "" }, func(o *Order) { o.ID = strings.Repeat("x", MaxName+1) }},
		"fault":    {func(o *Order) { o.Fault = "" }, func(o *Order) { o.Fault = "clock-screw" }},
		"store":    {func(o *Order) { o.Store = "a\nb" }, func(o *Order) { o.Fault, o.Store = DatabaseDown, "store" }},
		"shard":    {func(o *Order) { o.Fault = ShardDown }, func(o *Order) { o.Shard = "h:1" }},
		"lasts_ms": {func(o *Order) { o.LastsMS = 999 }, func(o *Order) { o.LastsMS = 3_600_001 }, func(o *Order) { o.LastsMS = math.MaxInt64 }},
		"delay_ms": {func(o *Order) { o.Fault = StoreSlow }, func(o *Order) { o.Fault, o.DelayMS = StoreSlow, 10_001 }, func(o *Order) { o.DelayMS = 1 },
			func(o *Order) { o.Fault, o.DelayMS = StoreSlow, math.MaxInt64 }},
		"skew_ms": {func(o *Order) { o.Fault = ClockSkew }, func(o *Order) { o.SkewMS = 1 }, func(o *Order) { o.Fault, o.SkewMS = ClockSkew, math.MinInt64 },
			func(o *Order) { o.Fault, o.SkewMS = ClockSkew, MaxSkew.Milliseconds()+1 }, func(o *Order) { o.Fault, o.SkewMS = ClockSkew, -MaxSkew.Milliseconds()-1 }},
		"node":        {func(o *Order) { o.Node = "n1" }, func(o *Order) { o.Fault, o.SkewMS, o.Node = ClockSkew, 1, "a\nb" }},
		"abort_above": {func(o *Order) { o.AbortAbove = -0.1 }, func(o *Order) { o.AbortAbove = 1.1 }, func(o *Order) { o.AbortAbove = math.NaN() }},
		"reason":      {func(o *Order) { o.Reason = strings.Repeat("x", MaxReason+1) }, func(o *Order) { o.Reason = "\x1b[31m" }, func(o *Order) { o.Reason = "a\xff" }},
		"actor":       {func(o *Order) { o.Actor = "" }},
		"began_at":    {func(o *Order) { o.BeganAt = time.Time{} }},
		"ended.why":   {func(o *Order) { o.Ended = &Ending{Why: Leaving} }, func(o *Order) { o.Ended = &Ending{} }},
		"ended":       {func(o *Order) { o.Ended = &Ending{Why: Stopped, By: "\x00"} }},
	} {
		for i, change := range breaks {
			o := order()
			change(o)
			var wrong *FieldError
			if err := o.Valid(); !errors.As(err, &wrong) || wrong.Field != field {
				t.Errorf("%s, case %d: %v", field, i, err)
			}
		}
	}
}

func TestOrderUnderWay(t *testing.T) {
	o := order()
	if !o.UnderWay(noon) || !o.UnderWay(noon.Add(time.Minute-1)) || o.UnderWay(noon.Add(time.Minute)) || (*Order)(nil).UnderWay(noon) {
		t.Error("an order lasts from its begin until its end")
	}
	o.Ended = &Ending{Why: Stopped}
	if o.UnderWay(noon) {
		t.Error("one that was ended lasts")
	}
}

// Whatever is read is valid, and is written as it can be read again.
func FuzzParseOrder(f *testing.F) {
	text, err := json.Marshal(order())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"id":"1","fault":"store-slow","delay_ms":5,"lasts_ms":1000,"abort_above":1,"actor":"a","began_at":"2026-05-01T12:00:00Z","ended":{"why":"aborted","by":"n1","at":"2026-05-01T12:00:00Z"}}`))
	f.Add([]byte(`{"id":"1","more":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ParseOrder(data)
		if err != nil {
			return
		}
		if err := o.Valid(); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o)
		if err != nil || len(text) > MaxOrder {
			t.Skip("more than there is room for once it is escaped, or a year that is none")
		}
		if again, err := ParseOrder(text); err != nil || again.ID != o.ID || again.LastsMS != o.LastsMS {
			t.Fatalf("%q became %q: %v", data, text, err)
		}
	})
}

// However late a node hears, and whatever its wall clock is, it never lasts longer than the
// order says, and ends without being told.
func TestN6CourseEndsByItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := order()
		o.LastsMS = rapid.Int64Range(MinLasts.Milliseconds(), MaxLasts.Milliseconds()).Draw(t, "lasts")
		late := time.Duration(rapid.Int64Range(-int64(2*MaxLasts), int64(2*MaxLasts)).Draw(t, "late"))
		c, ok := NewCourse(o, noon.Add(late))
		if ok != (late < o.Lasts()) {
			t.Fatalf("heard %v after the begin of %v: %t", late, o.Lasts(), ok)
		}
		if !ok {
			return
		}
		left := c.Left(0)
		if left > o.Lasts() || late > 0 && left != o.Lasts()-late || late <= 0 && left != o.Lasts() {
			t.Fatalf("%v left of %v, heard %v late", left, o.Lasts(), late)
		}
		if why, _ := c.Step(left-1, Sample{}); why != "" {
			t.Fatalf("ended early: %s", why)
		}
		if why, _ := c.Step(left, Sample{}); why != Expired || c.Left(left) != 0 {
			t.Fatalf("not over after %v: %q", left, why)
		}
	})
}

func TestN6CourseAbortsOnDamage(t *testing.T) {
	const s = time.Second
	type step struct {
		at              time.Duration
		decided, errors uint64
		why             Why
	}
	for name, steps := range map[string][]step{
		"none":                    {{s, 1000, 0, ""}, {2 * s, 2000, 0, ""}},
		"few requests":            {{s, 19, 19, ""}, {2 * s, 20, 20, Aborted}},
		"as much as may be":       {{s, 1000, 10, ""}},
		"more":                    {{s, 1000, 11, Aborted}},
		"much that is long past":  {{s, 1000, 10, ""}, {12 * s, 2000, 20, ""}, {23 * s, 2100, 21, ""}},
		"little after much":       {{s, 100_000, 0, ""}, {12 * s, 100_100, 2, Aborted}},
		"over before it is found": {{60 * s, 1000, 1000, Expired}},
	} {
		c, _ := NewCourse(order(), noon)
		for i, step := range steps {
			if why, detail := c.Step(step.at, Sample{step.decided, step.errors}); why != step.why || (why == Aborted) != strings.Contains(detail, "requests were errors") {
				t.Errorf("%s, step %d: %q %q, want %q", name, i, why, detail, step.why)
			}
		}
	}
	o := order()
	o.AbortAbove = 1
	c, _ := NewCourse(o, noon)
	if why, _ := c.Step(s, Sample{1000, 1000}); why != "" {
		t.Errorf("aborted where nothing is too much: %s", why)
	}
}

func TestCourseKeepsFewSamples(t *testing.T) {
	c, _ := NewCourse(order(), noon)
	for i := range 50_000 {
		c.Step(time.Duration(i)*time.Millisecond, Sample{Decided: uint64(i)})
		if len(c.samples) > damageSteps {
			t.Fatalf("%d samples", len(c.samples))
		}
	}
}

func TestN6Absences(t *testing.T) {
	const s = time.Second
	var a Absences
	for _, look := range []struct {
		at, ended time.Duration
		redis, db bool
	}{{0, -1, false, false}, {s, -1, true, false}, {3 * s, -1, true, false}, {4 * s, -1, false, false}, {5 * s, -1, true, true}, {6 * s, 6 * s, true, true}, {8 * s, 6 * s, false, true}} {
		a.Look(look.at, look.ended, map[string]bool{"redis": look.redis, "db": look.db, "kafka": false})
	}
	want := []Away{
		{Name: "db", Times: 1, ForMS: 3000, AfterMS: 5000, Still: true},
		{Name: "redis", Times: 2, ForMS: 6000, AfterMS: 1000, BackMS: 2000},
	}
	if got := a.List(); !slices.Equal(got, want) || !a.Any() {
		t.Errorf("%+v, want %+v", got, want)
	}
	for i := range 2 * maxAway {
		a.Look(9*s, 6*s, map[string]bool{strings.Repeat("x", i+1): true})
	}
	if got := len(a.List()); got != maxAway {
		t.Errorf("%d are known, want %d", got, maxAway)
	}
}

func TestN6TallyAddsUp(t *testing.T) {
	var tally Tally
	for _, one := range []struct {
		by       By
		admitted bool
		n        int
	}{{ByStore, true, 100}, {ByStore, false, 10}, {ByReserve, false, 8}, {ByLocal, true, 20}, {ByLocal, false, 3}, {ByOpen, true, 30}, {ByOpen, false, 4}, {ByNobody, true, 5}, {ByNobody, false, 6}} {
		for range one.n {
			tally.Note(one.by, one.admitted, time.Millisecond)
		}
	}
	tally.NotePanic()
	want := Counts{Decided: 186, Denied: 31, Store: 110, Reserve: 8, Local: 23, Open: 34, Passed: 5, Failed: 6, Unchecked: 55, Panics: 1}
	if got := tally.Counts(); got != want || got.Errors() != 15 {
		t.Errorf("%+v, want %+v", got, want)
	}
	tally.Note(ByStore, true, -1)
	tally.Note(ByStore, true, time.Minute)
	l := tally.Latency()
	if l.P50 != 1000 || l.P99 != 1000 || l.Max != 60_000_000 || l.Buckets[0] != 1 || l.Buckets[len(l.Buckets)-1] != 1 {
		t.Errorf("%+v", l)
	}
}

func TestN6SumOfNodes(t *testing.T) {
	o := order()
	w := Sum(o, noon.Add(20*time.Second), []Report{
		{ID: "1", Node: "b", Counts: Counts{Decided: 2, Open: 2}, Latency: Latency{Max: 5, Buckets: []uint64{2}}},
		{ID: "0", Node: "c", Counts: Counts{Decided: 1000}},
		{ID: "1", Node: "a", Counts: Counts{Decided: 3, Store: 3}, Latency: Latency{Max: 400, Buckets: []uint64{0, 0, 0, 3}}},
	})
	if !w.UnderWay || w.LeftMS != 40_000 || len(w.Nodes) != 2 || w.Nodes[0].Node != "a" || w.Sum.Decided != 5 || w.TookPart != 2 || w.Nobody() || w.Latency.P50 != 500 || w.Latency.Max != 400 {
		t.Errorf("%+v", w)
	}
	for name, c := range map[string]struct {
		reports []Report
		err     string
		nobody  bool
	}{
		"none": {nobody: true}, "apart": {reports: []Report{{ID: "1", Node: "a", State: Apart}}, nobody: true}, "unreadable": {err: "a report of a drill: not one line of text"},
		"one of two": {reports: []Report{{ID: "1", Node: "a", State: Apart}, {ID: "1", Node: "b", State: Done}}},
		"of another": {reports: []Report{{ID: "0", Node: "a", State: Done}}, nobody: true},
	} {
		w := Sum(o, noon, c.reports)
		if w.Error = c.err; w.Nobody() != c.nobody {
			t.Errorf("%s: %+v", name, w)
		}
	}
	if w := Sum(nil, noon, nil); w.UnderWay || w.Order != nil || w.Nobody() {
		t.Errorf("%+v", w)
	}
	if w := Sum(o, noon.Add(-time.Hour), nil); w.LeftMS != 60_000 {
		t.Errorf("a clock that is behind has %d ms left", w.LeftMS)
	}
}

// What other nodes have written is bounded, and never more than text.
func FuzzParseReport(f *testing.F) {
	f.Add([]byte(`{"id":"1","node":"n1","state":"done","decided":5,"away":[{"name":"store","times":1}],"latency":{"buckets":[1,2]}}`))
	f.Add([]byte(`{"id":"1","node":"n1","state":"flying"}`))
	f.Add([]byte(`{"id":"1","node":"\u001b","state":"done","of a newer node":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseReport(data)
		if err != nil {
			return
		}
		if len(r.Away) > maxAway || !line(r.Node, MaxName) || len(r.Latency.Buckets) > len(latencyBounds)+1 {
			t.Fatalf("%+v", r)
		}
		Sum(&Order{ID: r.ID, LastsMS: 1}, noon, []Report{*r, *r})
	})
}

// What a newer version means by a field of an order is not known, so that nobody goes by it.
func TestOrderHasNoOtherFields(t *testing.T) {
	text, err := json.Marshal(order())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseOrder(text); err != nil {
		t.Fatal(err)
	}
	more := append(text[:len(text)-1:len(text)-1], `,"only_half":true}`...)
	if o, err := ParseOrder(more); err == nil || !strings.Contains(err.Error(), "only_half") {
		t.Errorf("%+v, %v", o, err)
	}
}

// An order is read to a bound, whatever the store holds in its place.
func TestLongOrdersAreRefused(t *testing.T) {
	text, err := json.Marshal(order())
	if err != nil {
		t.Fatal(err)
	}
	for spaces, refused := range map[int]bool{MaxOrder - len(text): false, MaxOrder - len(text) + 1: true} {
		if _, err := ParseOrder(append(text[:len(text):len(text)], strings.Repeat(" ", spaces)...)); (err != nil) != refused {
			t.Errorf("%d bytes: %v", len(text)+spaces, err)
		}
	}
}

// The 99th percentile of few requests is that of the slowest, and of many has one in a hundred
// above it.
func TestPercentilesOfFewRequests(t *testing.T) {
	for name, c := range map[string]struct {
		fast, slow int
		p50, p99   int64
	}{
		"none":           {0, 0, 0, 0},
		"one":            {1, 0, 1000, 1000},
		"one slow of 3":  {2, 1, 1000, 50_000},
		"one slow of 99": {98, 1, 1000, 50_000},
		"1 of 100":       {99, 1, 1000, 1000},
		"2 of 100":       {98, 2, 1000, 50_000},
		"2 of 199":       {197, 2, 1000, 50_000},
	} {
		var tally Tally
		for range c.fast {
			tally.Note(ByStore, true, time.Millisecond)
		}
		for range c.slow {
			tally.Note(ByStore, true, 50*time.Millisecond)
		}
		if l := tally.Latency(); l.P50 != c.p50 || l.P99 != c.p99 {
			t.Errorf("%s: p50 %d us, p99 %d us, want %d and %d", name, l.P50, l.P99, c.p50, c.p99)
		}
	}
}
