package cron

import (
	"strings"
	"testing"
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
