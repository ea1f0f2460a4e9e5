package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever was asked, the window of a sliding window ends where windows of its length do,
// and with it the count of a fixed window.
func TestWindowEndsAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "period")) * time.Microsecond
		algorithm := rapid.SampledFrom([]Algorithm{SlidingWindow, FixedWindow}).Draw(t, "algorithm")
		l := Must(Spec{Algorithm: algorithm, Quota: 10, Period: period})
		var s State
		now := Micros(rapid.Int64Range(0, 1e15).Draw(t, "now"))
		for range rapid.IntRange(1, 5).Draw(t, "asked") {
			now += Micros(rapid.Int64Range(0, 2*period.Microseconds()).Draw(t, "later"))
			var d Decision
			s, d = Decide(l, s, now, rapid.Int64Range(1, 12).Draw(t, "hits"))
			got := l.WindowEndsAfter(d.ResetAfter)
			if d.ResetAfter == 0 {
				if got != 0 {
					t.Fatalf("unused, and its window ends in %v", got)
				}
				continue
			}
			if end := int64(now) + got.Microseconds(); got <= 0 || got > period || end%period.Microseconds() != 0 {
				t.Fatalf("at %d the window of %v ends in %v, reset %v", now, period, got, d.ResetAfter)
			}
		}
	})
}

func TestWindowEndsAfterOfOthers(t *testing.T) {
	var none *Limit
	if got := none.WindowEndsAfter(time.Second); got != time.Second {
		t.Errorf("of no limit: %v", got)
	}
	bucket := Must(Spec{Algorithm: TokenBucket, Quota: 10, Period: time.Second, Burst: 40})
	if got := bucket.WindowEndsAfter(3 * time.Second); got != 3*time.Second {
		t.Errorf("of a bucket: %v", got)
	}
}

// A fixed window ends whether or not anything was counted in it.
func TestWindowLeft(t *testing.T) {
	at := time.Date(2026, 11, 25, 23, 59, 59, 250e6, time.UTC)
	berlin, err := NewCalendar(CalendarDay, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		limit *Limit
		want  time.Duration
	}{
		"second":            {Must(Spec{Algorithm: FixedWindow, Quota: 1, Period: time.Second}), 750 * time.Millisecond},
		"day":               {Must(Spec{Algorithm: FixedWindow, Quota: 1, Period: 24 * time.Hour}), 750 * time.Millisecond},
		"week":              {Must(Spec{Algorithm: FixedWindow, Quota: 1, Period: 7 * 24 * time.Hour}), 750 * time.Millisecond},
		"month of 30 days":  {Must(Spec{Algorithm: FixedWindow, Quota: 1, Period: 30 * 24 * time.Hour}), 7*24*time.Hour + 750*time.Millisecond},
		"day of a calendar": {Must(Spec{Algorithm: FixedWindow, Quota: 1, Calendar: berlin}), 23*time.Hour + 750*time.Millisecond},
		"another algorithm": {Must(Spec{Algorithm: GCRA, Quota: 1, Period: time.Second}), 0},
		"none":              {nil, 0},
	} {
		if got := test.limit.WindowLeft(at); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	second := Must(Spec{Algorithm: FixedWindow, Quota: 1, Period: time.Second})
	if got := second.WindowLeft(at.Truncate(time.Second)); got != time.Second {
		t.Errorf("at its start: %v, want all of it", got)
	}
}
