package totals

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
)

// That no message is answered is known also while a new window has nothing to tell yet, and is forgotten
// when there is nothing to tell for long.
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := limit.MicrosOf(time.Now())
		fixed := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: 20 * time.Second})
		all := sites(t, 2, &now, Options{})
		way := all[0].cutOff()[0]
		rounds := func(n int, hitsEach int64) (p PeerStats) {
			for range n {
				if hitsEach > 0 {
					all[0].take(t, hits("a", fixed, hitsEach))
				}
				_ = all[0].tell(t.Context(), 0, 50_000) // five hits need not be told
				_ = sleep.For(t.Context(), time.Second)
				now = limit.MicrosOf(time.Now())
			}
			return all[0].Peers()[0]
		}
		if p := rounds(10, 5); p.Unanswered != 0 || p.Totals == 0 {
			t.Errorf("of a region that answers: %+v", p)
		}
		way.gone = true
		rounds(5, 2)
		for i := range 60 {
			if p := rounds(1, 2); p.Connected || p.Unanswered < time.Duration(i-5)*time.Second {
				t.Fatalf("after %d s without an answer: %+v", i+5, p)
			}
		}
		way.gone = false
		if p := rounds(10, 2); p.Unanswered != 0 || !p.Connected {
			t.Errorf("it answers again: %+v", p)
		}
		way.gone = true
		rounds(15, 5)
		if p := rounds(35, 0); p.Unanswered != 0 {
			t.Errorf("half a minute after the last hit: %+v", p)
		}
		if p := rounds(1, 5); p.Unanswered >= 10*time.Second {
			t.Errorf("one message without an answer, after half a minute: %+v", p)
		}
	})
}

// When a month is over, its keys make room for those of the next one.
func TestKeysOfTheLastMonthMakeRoom(t *testing.T) {
	calendar, err := limit.NewCalendar(limit.CalendarMonth, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	month := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Calendar: calendar})
	_, end := calendar.Window(noon)
	now := end - 1
	all := sites(t, 2, &now, Options{MaxBuckets: shardCount})
	fill := func(month string, l *limit.Limit) (counted int64) {
		before := all[0].Rules()["a rule"]
		for i := range 1000 {
			all[0].take(t, hits(fmt.Sprint(month, i), l, 1))
		}
		after := all[0].Rules()["a rule"]
		if before == nil {
			return after.Hits
		}
		return after.Hits - before.Hits
	}
	first := fill("first", month)
	if again := fill("again", month); first < shardCount/2 || again > shardCount-first {
		t.Errorf("%d and %d hits are counted in the month", first, again)
	}
	now = end
	if next := fill("next", month); next < shardCount/2 {
		t.Errorf("%d hits are counted in the next month, %d in the first", next, first)
	}
}
