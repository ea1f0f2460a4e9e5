package cron

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func TestWeeksMayEndWithSunday(t *testing.T) {
	for text, same := range map[string]string{
		"mon-sun": "1-7", "SAT-SUN": "0,6", "fri-0": "5-7", "5-7": "0,5,6", "mon-sun/2": "1,3,5,7", "sun-tue": "0-2", "sun-sun": "7", "0-0": "0",
	} {
		got, err := Parse("0 0 * * " + text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want, err := Parse("0 0 * * " + same)
		if err != nil {
			t.Fatal(err)
		}
		const days = 1<<sunday - 1
		if got.weekdays&days != want.weekdays&days {
			t.Errorf("%s is %b, want %b", text, got.weekdays, want.weekdays)
		}
	}
	for _, text := range []string{"0 0 * * sat-mon", "5-0 0 * * *", "0 5-0 * * *"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

func TestLongExpressionIsTold(t *testing.T) {
	longest := "0 0 * * 1" + strings.Repeat(",1", (maxLength-len("0 0 * * 1"))/2)
	if _, err := Parse(longest); err != nil {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
	if _, err := Parse(longest + ",1"); err == nil || !strings.Contains(err.Error(), "more than 256") {
		t.Errorf("two bytes more: %v, want that it is too long", err)
	}
}

// TestBegins: the minutes before and after an instant, also where clocks are changed. What they show
// twice counts once, but for every hour; what they skip counts when they are changed.
func TestBegins(t *testing.T) {
	for _, c := range []struct{ text, zone, at, last, next string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:45:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"0 0 * * *", "Australia/Lord_Howe", "2026-04-04T12:59:59Z", "2026-04-03T13:00:00Z", "2026-04-04T13:00:00Z"},
		{"59 23 * * *", "UTC", "2026-01-01T23:59:00Z", "2026-01-01T23:59:00Z", "2026-01-02T23:59:00Z"},
		{"0 0 29 2 *", "UTC", "2026-03-01T00:00:00Z", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 13 * fri", "UTC", "2026-02-11T00:00:00Z", "2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z"},
		{"5/20 8 * * *", "UTC", "2026-01-01T08:05:01Z", "2026-01-01T08:05:00Z", "2026-01-01T08:25:00Z"},
	} {
		expression, err := Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		shown := func(instant int64, ok bool) string {
			if !ok {
				return "none"
			}
			return time.Unix(instant, 0).UTC().Format(time.RFC3339)
		}
		const years = 5 * 366 * secondsPerDay
		if got := shown(expression.LastBegin(at.Unix()-years, at.Unix(), zone)); got != c.last {
			t.Errorf("%s in %s at %s: last %s, want %s", c.text, c.zone, c.at, got, c.last)
		}
		if got := shown(expression.NextBegin(at.Unix(), at.Unix()+years, zone)); got != c.next {
			t.Errorf("%s in %s at %s: next %s, want %s", c.text, c.zone, c.at, got, c.next)
		}
	}
}

func TestStepsFitTheirField(t *testing.T) {
	for text, ok := range map[string]bool{"*/59 * * * *": true, "*/60 * * * *": false, "0 */23 * * *": true, "0 */24 * * *": false, "0 0 */32 * *": false, "*/0 * * * *": false} {
		if _, err := Parse(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParseCron(f *testing.F) {
	for _, text := range []string{"0 22 * * *", "*/5 1-3,7 29 2 mon-fri/2", "59 23 31 12 7", "0 0 31 4 *"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		const start, span = 1_767_225_600, 9 * 366 * secondsPerDay
		at, ok := c.next(start, start+span)
		if !ok {
			t.Fatalf("%q never begins", text)
		}
		if again, ok := c.last(start, at); !ok || again != at {
			t.Fatalf("%q: %d is next but %d is last", text, at, again)
		}
	})
}
