// Package cron reads cron expressions of five fields, and finds the minutes that they
// name on the clocks of a place. It reads no clock.
package cron

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Expression is the wall-clock minutes that a cron expression of five fields names:
// minute, hour, day of the month, month, day of the week. Parse makes it; it is immutable.
type Expression struct {
	minutes, hours, days, months, weekdays uint64 // bit n is value n
	// anyDay and anyWeekday say that the field is *. Where neither is, a day has to fit
	// one of the two.
	anyDay, anyWeekday bool
	// everyHour says that the field of hours is *: it then means every hour that
	// passes, not every hour of the wall clock.
	everyHour bool
}

// field is one of the five.
type field struct {
	name      string
	low, high int
	words     []string // of low and what follows
}

var fiveFields = [...]field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, sunday, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// sunday is the day that ends a week, where 0 begins one.
const sunday = 7

// maxLength bounds the text of an expression, in bytes.
const maxLength = 256

// Parse reads an expression: each field is a list of *, N, N-M, and these with /STEP.
// Months and days of the week may be words; 7 is Sunday too, and so is the end of a
// range that ends with it.
func Parse(text string) (*Expression, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(text), maxLength)
	}
	fields := strings.Fields(text)
	if len(fields) != len(fiveFields) {
		if len(fields) == 1 {
			return nil, errors.New("it has 1 field, not five")
		}
		return nil, fmt.Errorf("it has %d fields, not five", len(fields))
	}
	var sets [len(fiveFields)]uint64
	for i := range fields {
		var err error
		if sets[i], err = fiveFields[i].parse(fields[i]); err != nil {
			return nil, fmt.Errorf("%s '%s': %w", fiveFields[i].name, fields[i], err)
		}
	}
	c := &Expression{
		minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4],
		anyDay: fields[2] == "*", anyWeekday: fields[4] == "*", everyHour: fields[1] == "*",
	}
	if c.weekdays&(1<<sunday) != 0 {
		c.weekdays |= 1 << 0
	}
	// Leap days are eight years apart at most.
	if _, ok := c.next(0, 9*366*secondsPerDay); !ok {
		return nil, errors.New("no month has such a day")
	}
	return c, nil
}

// parse returns the values of a field as bits.
func (f *field) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.high || stepText[0] == '+' {
				return 0, fmt.Errorf("a step is a number from 1 to %d", f.high)
			}
		}
		low, high := f.low, f.high
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			if low, err = f.value(first); err != nil {
				return 0, err
			}
			if !ranged && !stepped {
				high = low
			}
			if ranged {
				if high, err = f.value(last); err != nil {
					return 0, err
				}
				if high == 0 && low > 0 && f.high == sunday {
					high = sunday
				}
			}
		}
		if low > high {
			return 0, errors.New("the range ends before it begins")
		}
		for v := low; v <= high; v += step {
			set |= 1 << v
		}
	}
	return set, nil
}

// value reads a number, or a word for one.
func (f *field) value(text string) (int, error) {
	for i, word := range f.words {
		if strings.EqualFold(word, text) {
			return f.low + i, nil
		}
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || int(n) < f.low || int(n) > f.high {
		return 0, fmt.Errorf("'%s' is no number from %d to %d", text, f.low, f.high)
	}
	return int(n), nil
}

const (
	secondsPerMinute = 60
	secondsPerHour   = 60 * secondsPerMinute
	secondsPerDay    = 24 * secondsPerHour
)

// Wall times are seconds since 1970 as they would be if the clock on the wall were
// that of UTC.

// fits reports whether a day, counted from 1970, is one of c.
func (c *Expression) fits(day int64) bool {
	t := time.Unix(day*secondsPerDay, 0).UTC()
	if c.months>>t.Month()&1 == 0 {
		return false
	}
	inMonth, inWeek := c.days>>t.Day()&1 == 1, c.weekdays>>t.Weekday()&1 == 1
	if c.anyDay || c.anyWeekday {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// next returns the first minute of c that is not before the wall time low, and false
// when there is none until just before high.
func (c *Expression) next(low, high int64) (int64, bool) {
	for day := dayOf(low); day*secondsPerDay < high; day++ {
		if !c.fits(day) {
			continue
		}
		from := max(low-day*secondsPerDay, 0)
		for hour := from / secondsPerHour; hour < 24; hour++ {
			if c.hours>>hour&1 == 0 {
				continue
			}
			first := (max(from-hour*secondsPerHour, 0) + secondsPerMinute - 1) / secondsPerMinute
			if left := c.minutes >> first; left != 0 {
				at := day*secondsPerDay + hour*secondsPerHour + (first+int64(bits.TrailingZeros64(left)))*secondsPerMinute
				return at, at < high
			}
		}
	}
	return 0, false
}

// last returns the last minute of c that is not after the wall time high, and false
// when there is none from low on.
func (c *Expression) last(low, high int64) (int64, bool) {
	for day := dayOf(high); (day+1)*secondsPerDay > low; day-- {
		if !c.fits(day) {
			continue
		}
		until := min(high-day*secondsPerDay, secondsPerDay-1)
		for hour := until / secondsPerHour; hour >= 0; hour-- {
			if c.hours>>hour&1 == 0 {
				continue
			}
			most := min(until-hour*secondsPerHour, secondsPerHour-1) / secondsPerMinute
			if left := c.minutes & (2<<most - 1); left != 0 {
				at := day*secondsPerDay + hour*secondsPerHour + int64(63-bits.LeadingZeros64(left))*secondsPerMinute
				return at, at >= low
			}
		}
	}
	return 0, false
}

// dayOf returns the day of a wall time, also of one before 1970.
func dayOf(wall int64) int64 {
	day := wall / secondsPerDay
	if wall%secondsPerDay < 0 {
		day--
	}
	return day
}

// zonePeriod is a time in which the clocks of a place are not changed: in seconds since
// 1970, from start until just before end.
type zonePeriod struct {
	start, end int64
	offset     int64
	// wallStart is the wall time that was next when the period began. Where the clocks
	// went forward then, it and what follows fall into the gap.
	wallStart int64
}

// zonePeriodAt returns the period that t lies in.
func zonePeriodAt(t int64, zone *time.Location) zonePeriod {
	at := time.Unix(t, 0).In(zone)
	start, end := at.ZoneBounds()
	_, offset := at.Zone()
	p := zonePeriod{math.MinInt64 / 2, math.MaxInt64 / 2, int64(offset), 0}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if start.IsZero() {
		p.wallStart = p.start
		return p
	}
	p.start = start.Unix()
	_, before := start.Add(-1).Zone()
	p.wallStart = p.start + int64(before)
	return p
}

// first returns the wall time from which minutes of c count in p. What the clock on
// the wall shows for the second time counts for every hour alone, and what it skips
// counts at the start.
func (c *Expression) first(p zonePeriod) int64 {
	if wall := p.start + p.offset; c.everyHour && wall < p.wallStart {
		return wall
	}
	return p.wallStart
}

// LastBegin returns the last instant up to t, in seconds since 1970, at which a minute
// of c begins in zone; false when there is none after low.
func (c *Expression) LastBegin(low, t int64, zone *time.Location) (int64, bool) {
	for t > low {
		p := zonePeriodAt(t, zone)
		if wall, ok := c.last(max(c.first(p), low+p.offset-secondsPerDay), t+p.offset); ok {
			if at := max(wall-p.offset, p.start); at > low {
				return at, true
			}
		}
		t = p.start - 1
	}
	return 0, false
}

// NextBegin returns the first instant after t at which a minute of c begins in zone;
// false when there is none before high.
func (c *Expression) NextBegin(t, high int64, zone *time.Location) (int64, bool) {
	for t++; t < high; {
		p := zonePeriodAt(t, zone)
		from := c.first(p)
		if t > p.start {
			from = max(from, t+p.offset)
		}
		if wall, ok := c.next(from, min(p.end, high)+p.offset); ok {
			return max(wall-p.offset, p.start), true
		}
		t = p.end
	}
	return 0, false
}
