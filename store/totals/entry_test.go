package totals

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

func entryOf(l *limit.Limit) *entry {
	return &entry{limit: l, heard: make([]store.Counts, 1), behind: make([]limit.Micros, 1)}
}

// after is an instant so many ms after noon, at which minutes begin.
func after(ms int64) limit.Micros { return noon + limit.Micros(1000*ms) }

func (e *entry) hitsAt(ms, n int64) { e.note(store.Counts{Hits: n}, after(ms)) }

func (e *entry) unheardAt(ms int64) int64 { return e.count.Less(e.known(0, after(ms))).Hits }

// Hits of a window that is over need not be told, though those of the next came soon after.
func TestWindowsAreApart(t *testing.T) {
	e := entryOf(limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute}))
	e.hitsAt(59_900, 5)
	if n := e.unheardAt(59_950); n != 5 {
		t.Errorf("%d unheard in the window", n)
	}
	e.hitsAt(60_100, 3)
	if n := e.unheardAt(60_200); n != 3 {
		t.Errorf("%d unheard in the next", n)
	}
}

// What weighs a part is told whole, not rounded down.
func TestPartsAreNotLost(t *testing.T) {
	e := entryOf(limit.Must(limit.Spec{Quota: 100, Period: time.Minute}))
	e.hitsAt(59_900, 3)
	if n := e.unheardAt(61_000); n != 3 { // each weighs 59 of 60 parts
		t.Errorf("%d unheard", n)
	}
	if n := e.unheardAt(100_000); n != 2 { // 1 in all
		t.Errorf("%d unheard later", n)
	}
}

// An entry that nobody hears of for long tells of what still weighs, and of little more.
func TestSpansAreMerged(t *testing.T) {
	e := entryOf(limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 80, Burst: 80, Period: 80 * time.Second}))
	for s := int64(0); s < 400; s += 4 {
		e.hitsAt(1000*s, 1)
		weighing := min(s/4+1, 80/4+1)
		if n := e.unheardAt(1000 * s); n < weighing || n > weighing+20/spanPart+2 || len(e.marks) > maxMarks {
			t.Fatalf("after %d s %d are unheard of %d that weigh, in %d spans", s, n, weighing, len(e.marks))
		}
	}
	if n := e.unheardAt(600_000); n != 0 || !e.idle(after(600_000)) {
		t.Errorf("%d unheard when nothing weighs", n)
	}
}

// A late answer takes nothing back, and what passed since the message was sent lags from then.
func TestHear(t *testing.T) {
	e := entryOf(limit.Must(limit.PerHour(100)))
	e.hitsAt(1000, 5)
	early := e.count
	e.hitsAt(3000, 2)
	if lag := e.lag(0, after(4000)); lag != 3*time.Second {
		t.Errorf("the lag is %v", lag)
	}
	e.hear(0, early, after(2000))
	if lag := e.lag(0, after(4000)); lag != 2*time.Second || e.unheardAt(4000) != 2 {
		t.Errorf("the lag is %v, and %d are unheard", lag, e.unheardAt(4000))
	}
	e.hear(0, e.count, after(4000))
	e.hear(0, early, after(2000))
	if lag := e.lag(0, after(9000)); lag != 0 || e.unheardAt(9000) != 0 {
		t.Errorf("the lag is %v, and %d are unheard", lag, e.unheardAt(9000))
	}
	e.hitsAt(10_000, 1)
	if lag := e.lag(0, after(10_500)); lag != 500*time.Millisecond {
		t.Errorf("the lag is %v", lag)
	}
}

// Where the clock was set back, what was counted before is as old as that, and not to come.
func TestClockIsSetBack(t *testing.T) {
	e := entryOf(limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 60, Burst: 60, Period: time.Minute}))
	e.hitsAt(3_600_000, 5)
	e.hitsAt(0, 1)
	e.hitsAt(30_000, 1)
	if lag := e.lag(0, after(40_000)); lag != 40*time.Second {
		t.Errorf("the lag is %v", lag)
	}
	if n := e.unheardAt(40_000); n != 7 {
		t.Errorf("%d are unheard", n)
	}
	if n := e.unheardAt(70_000); n != 1 {
		t.Errorf("%d are unheard when the others weigh nothing", n)
	}
	if !e.idle(after(100_000)) {
		t.Error("it is kept when nothing weighs")
	}
	// Clocks are read in one order, and notes come in another.
	e = entryOf(limit.Must(limit.PerMinute(100)))
	e.hitsAt(60_000, 2)
	e.hitsAt(59_999, 1)
	if e.redate(after(59_500)); e.marks[0].last != after(60_000) {
		t.Errorf("a hit of %d ms is one of %d", 60_000, (e.marks[0].last-noon)/1000)
	}
}

// A clock that is a moment behind what was counted makes no lag that is less than none.
func TestLagIsNeverBelowZero(t *testing.T) {
	e := entryOf(limit.Must(limit.PerHour(100)))
	e.hitsAt(1000, 1)
	if lag := e.lag(0, after(999)); lag != 0 {
		t.Errorf("the lag is %v", lag)
	}
}

// An entry whose first hits weigh nothing any more is kept for the later ones.
func TestIdleWhenTheLastHitsWeighNothing(t *testing.T) {
	e := entryOf(limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 60, Burst: 60, Period: time.Minute}))
	e.hitsAt(0, 1)
	e.hitsAt(50_000, 1)
	if e.idle(after(70_000)) || !e.idle(after(111_000)) {
		t.Errorf("idle after 70 s: %t, after 111 s: %t", e.idle(after(70_000)), e.idle(after(111_000)))
	}
}

// Of a span that a peer has heard a part of, only the rest can weigh too little to be told.
func TestWhatWasHeardIsNotLeftOutTwice(t *testing.T) {
	e := entryOf(limit.Must(limit.PerMinute(100)))
	e.note(store.Counts{Hits: 5, Back: 5}, after(10_000))
	e.hear(0, e.count, after(10_000))
	e.note(store.Counts{Hits: 3, Back: 3}, after(10_001))
	// After 100 s three weigh a third: one, which may have been rounded down.
	for ms, want := range map[int64]int64{12_000: 3, 100_000: 2, 121_000: 0} {
		if got := e.count.Less(e.known(0, after(ms))); got != (store.Counts{Hits: want, Back: want}) {
			t.Errorf("after %d ms %+v is unheard, want %d of each", ms, got, want)
		}
	}
}
