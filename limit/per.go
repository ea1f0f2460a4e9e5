package limit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Per is the period under which a window was counted, in the few bits that a store
// has for it: so many of a unit, or a calendar's unit. 0 is a period that is not
// known: one that has no such form (it is of more than 4095 of the largest unit
// that divides it), or that of a state which was written before there was a Per.
type Per uint16

// The bits of a Per: the unit above, the number of them below.
const (
	perShift = 12
	perMost  = 1<<perShift - 1
	// perCalendar is the unit of calendar windows; the number is a CalendarUnit.
	perCalendar = 7
	// calendarSlack is by how much a calendar day may be longer than 24 hours.
	calendarSlack = 2 * int64(time.Hour/time.Microsecond)
)

// perUnits are the units by their number in a Per, with the largest last.
var perUnits = [perCalendar]struct {
	micros int64
	word   string
}{
	1: {1, "us"}, 2: {1_000, "ms"}, 3: {1_000_000, "s"},
	4: {60_000_000, "m"}, 5: {3_600_000_000, "h"}, 6: {86_400_000_000, "d"},
}

// calendarDays is the most days of each CalendarUnit.
var calendarDays = [...]int64{CalendarDay: 1, CalendarWeek: 7, CalendarMonth: 31, CalendarYear: 366}

// perOf returns that of a period in µs.
func perOf(period int64) Per {
	for unit := perCalendar - 1; unit > 0; unit-- {
		if n, rest := period/perUnits[unit].micros, period%perUnits[unit].micros; rest == 0 {
			if n < 1 || n > perMost {
				return 0
			}
			return Per(unit<<perShift | int(n))
		}
	}
	return 0
}

// micros returns the length of the period in µs, of a calendar window the most that
// it can be; 0 if it is not known.
func (p Per) micros() int64 {
	unit, n := p>>perShift, int64(p&perMost)
	switch {
	case unit == perCalendar && n < int64(len(calendarDays)) && n > 0:
		return calendarDays[n]*perUnits[6].micros + calendarSlack
	case unit < perCalendar:
		return n * perUnits[unit].micros
	}
	return 0
}

// WholeMillis reports whether the period is known, and not one that was written in µs: it
// is so many milliseconds then, or a calendar's.
func (p Per) WholeMillis() bool { return p>>perShift > 1 }

// String returns a word for the period such as "15m", or "month" for that of a
// calendar; "" if it is not known.
func (p Per) String() string {
	unit, n := p>>perShift, p&perMost
	switch {
	case p.micros() == 0:
		return ""
	case unit == perCalendar:
		return CalendarUnit(n).String()
	}
	return strconv.Itoa(int(n)) + perUnits[unit].word
}

// ParsePer is the inverse of String.
func ParsePer(word string) (Per, error) {
	if word == "" {
		return 0, nil
	}
	if unit, err := ParseCalendarUnit(word); err == nil {
		return perCalendar<<perShift | Per(unit), nil
	}
	digits := strings.TrimRight(word, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseUint(digits, 10, perShift)
	for unit := 1; unit < perCalendar; unit++ {
		if err == nil && n > 0 && perUnits[unit].word == word[len(digits):] {
			return Per(unit<<perShift) | Per(n), nil
		}
	}
	return 0, fmt.Errorf("period %q is not understood; hint: up to %d us, ms, s, m, h or d, or day, week, month, year", word, perMost)
}
