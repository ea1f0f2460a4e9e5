package limit

import (
	"fmt"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // the tables below need a zone database on every machine

	"pgregory.net/rapid"
)

func mustCalendar(t testing.TB, unit CalendarUnit, zone string) *Calendar {
	t.Helper()
	c, err := NewCalendar(unit, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func instant(t testing.TB, text string) Micros {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return MicrosOf(at)
}

func TestCalendarWindows(t *testing.T) {
	for _, test := range []struct {
		why             string
		unit            CalendarUnit
		zone            string
		now, start, end string
	}{
		{"an ordinary day", CalendarDay, "", "2026-06-01T12:00:00Z", "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"},
		{"the first instant of a day", CalendarDay, "UTC", "2026-06-01T00:00:00Z", "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"},
		{"the last microsecond of a day", CalendarDay, "UTC", "2026-06-01T23:59:59.999999Z", "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"},
		{"23 hours", CalendarDay, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"25 hours", CalendarDay, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"half-hour summer time", CalendarDay, "Australia/Lord_Howe", "2026-04-04T20:00:00Z", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},
		{"midnight is skipped: the day begins at 01:00", CalendarDay, "Asia/Beirut", "2026-03-29T10:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},
		{"the day before ends where midnight would be", CalendarDay, "Asia/Beirut", "2026-03-28T21:59:59Z", "2026-03-27T22:00:00Z", "2026-03-28T22:00:00Z"},
		{"midnight is shown twice: the first counts", CalendarDay, "America/Havana", "2025-11-02T04:30:00Z", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"},
		{"in the second hour after midnight", CalendarDay, "America/Havana", "2025-11-02T05:30:00Z", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"},
		{"set back at midnight: 23 h is shown twice", CalendarDay, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		{"set back a minute after midnight: the date was there already", CalendarDay, "America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		{"30 December 2011 is missing", CalendarDay, "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"after the missing day", CalendarDay, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"a week from its last instant", CalendarWeek, "", "2026-06-07T23:59:59Z", "2026-06-01T00:00:00Z", "2026-06-08T00:00:00Z"},
		{"a week from its Monday, with a change of clocks", CalendarWeek, "America/New_York", "2026-03-02T05:00:00Z", "2026-03-02T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"February of a leap year", CalendarMonth, "", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"a month across a change of clocks", CalendarMonth, "Europe/Berlin", "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		{"a year ahead of UTC", CalendarYear, "Pacific/Auckland", "2026-12-31T11:00:00Z", "2026-12-31T11:00:00Z", "2027-12-31T11:00:00Z"},
		{"the last day of a leap year", CalendarDay, "Europe/Berlin", "2028-12-31T12:00:00Z", "2028-12-30T23:00:00Z", "2028-12-31T23:00:00Z"},
		{"the first day after a leap year", CalendarDay, "Europe/Berlin", "2029-01-01T12:00:00Z", "2028-12-31T23:00:00Z", "2029-01-01T23:00:00Z"},
		{"the last day of a leap year, west", CalendarDay, "America/New_York", "2064-12-31T12:00:00Z", "2064-12-31T05:00:00Z", "2065-01-01T05:00:00Z"},
		{"the epoch", CalendarYear, "", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1971-01-01T00:00:00Z"},
	} {
		t.Run(test.why, func(t *testing.T) {
			start, end := mustCalendar(t, test.unit, test.zone).Window(instant(t, test.now))
			if start != instant(t, test.start) || end != instant(t, test.end) {
				t.Errorf("got %v to %v, want %s to %s", start.Time(), end.Time(), test.start, test.end)
			}
		})
	}
}

// zones have had every oddity that the zone database knows of.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Asia/Beirut", "America/Havana", "America/Sao_Paulo",
	"America/St_Johns", "Pacific/Apia", "Pacific/Kwajalein", "Australia/Lord_Howe", "Asia/Kathmandu",
	"Africa/Casablanca", "America/Asuncion", "Asia/Tehran", "Antarctica/Troll", "Pacific/Kiritimati",
}

// TestCalendarWindowsCoverTime demands that the windows of a calendar follow one
// another without gap or overlap, wherever one asks, and that the clocks of the
// zone show a new date from the first instant of each.
func TestCalendarWindowsCoverTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := CalendarUnit(rapid.IntRange(int(CalendarDay), int(CalendarYear)).Draw(t, "unit"))
		c, err := NewCalendar(unit, rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		now := Micros(rapid.Int64Range(0, 3_000_000_000).Draw(t, "now s") * 1_000_000)
		edges := c.Around(now)
		if edges[1] > now || now >= edges[2] {
			t.Fatalf("%v is not in %v to %v", now.Time(), edges[1].Time(), edges[2].Time())
		}
		for i := 1; i < len(edges); i++ {
			if edges[i-1] >= edges[i] {
				t.Fatalf("edges %v do not ascend", edges)
			}
			for _, inside := range []Micros{edges[i-1], (edges[i-1] + edges[i]) / 2, edges[i] - 1} {
				if start, end := c.Window(inside); inside >= 0 && (start != edges[i-1] || end != edges[i]) {
					t.Fatalf("%v is in %v to %v, want %v to %v", inside.Time(), start.Time(), end.Time(), edges[i-1].Time(), edges[i].Time())
				}
			}
		}
		date := func(m Micros) string { return m.Time().In(c.location).Format(time.DateOnly) }
		if date(edges[2]) <= date(edges[2]-1) {
			t.Fatalf("the date is %s before the edge and %s after it", date(edges[2]-1), date(edges[2]))
		}
	})
}

func TestCalendarIsSafeToShare(t *testing.T) {
	c := mustCalendar(t, CalendarDay, "Europe/Berlin")
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 200 {
				now := Micros(epoch + int64(i*worker)*6*time.Hour.Microseconds())
				if start, end := c.Window(now); start > now || now >= end {
					t.Errorf("%v is not in %v to %v", now, start, end)
				}
			}
		})
	}
	wg.Wait()
}

func TestCalendarRefuses(t *testing.T) {
	for _, test := range []struct {
		unit CalendarUnit
		zone string
	}{{0, "UTC"}, {9, "UTC"}, {CalendarDay, "Local"}, {CalendarDay, "Europe/Atlantis"}, {CalendarDay, "../etc/passwd"}} {
		if c, err := NewCalendar(test.unit, test.zone); err == nil {
			t.Errorf("%v %q: made %v", test.unit, test.zone, c)
		}
	}
	for u := CalendarDay; u <= CalendarYear; u++ {
		if got, err := ParseCalendarUnit(u.String()); got != u || err != nil {
			t.Errorf("ParseCalendarUnit(%q) = %v, %v", u, got, err)
		}
	}
	if u, err := ParseCalendarUnit("decade"); err == nil {
		t.Errorf("ParseCalendarUnit(decade) = %v", u)
	}
	if got := fmt.Sprint(CalendarUnit(0)); got != "calendar unit(0)" {
		t.Errorf("the zero unit is %q", got)
	}
}
