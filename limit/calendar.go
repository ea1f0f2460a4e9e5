package limit

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// CalendarUnit is the length of a calendar window.
type CalendarUnit uint8

// The calendar units. There is no default: the zero value is not a unit.
const (
	// CalendarDay runs from the first instant of a date to that of the next.
	CalendarDay CalendarUnit = 1 + iota
	// CalendarWeek begins on Monday.
	CalendarWeek
	// CalendarMonth begins on the first.
	CalendarMonth
	// CalendarYear begins on the first of January.
	CalendarYear
)

var calendarUnitNames = [...]string{
	CalendarDay:   "day",
	CalendarWeek:  "week",
	CalendarMonth: "month",
	CalendarYear:  "year",
}

// String returns "day", "week", "month" or "year".
func (u CalendarUnit) String() string {
	if u >= CalendarDay && int(u) < len(calendarUnitNames) {
		return calendarUnitNames[u]
	}
	return fmt.Sprintf("calendar unit(%d)", uint8(u))
}

// ParseCalendarUnit is the inverse of String.
func ParseCalendarUnit(name string) (CalendarUnit, error) {
	if u := slices.Index(calendarUnitNames[:], name); u > 0 {
		return CalendarUnit(u), nil
	}
	return 0, fmt.Errorf("unknown calendar unit %q; hint: one of day, week, month, year", name)
}

// Calendar cuts time into the days, weeks, months or years of a time zone, as
// its clocks on the wall show them: a day may have 23 or 25 hours, and begins
// with the first instant of its date even where the zone's clocks skip midnight
// or show it twice. It is safe for concurrent use. Make one with NewCalendar and
// do not change its fields.
type Calendar struct {
	// Unit is the length of the windows.
	Unit CalendarUnit
	// Zone is the name of the time zone in the IANA database.
	Zone string

	location *time.Location
	// latest is the window that was asked for last: nearly every question is
	// about the same one, and finding a window costs a microsecond or more.
	latest atomic.Pointer[calendarEdges]
}

// calendarEdges are the starts of five windows in a row; the second is the one
// that was asked for.
type calendarEdges [5]Micros

// NewCalendar returns the calendar of a zone that the IANA time zone database
// names, such as "Europe/Berlin"; "" means "UTC". The database is that of the
// machine, or of package time/tzdata in programs that import it.
func NewCalendar(unit CalendarUnit, zone string) (*Calendar, error) {
	if unit < CalendarDay || unit > CalendarYear {
		return nil, fmt.Errorf("unknown calendar unit %d; hint: one of day, week, month, year", uint8(unit))
	}
	zone = cmp.Or(zone, "UTC")
	if zone == "Local" {
		return nil, fmt.Errorf("time zone %q differs from machine to machine; hint: name the zone, such as Europe/Berlin or UTC", zone)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not in the database; hint: use an IANA name such as Europe/Berlin or UTC: %w", zone, err)
	}
	return &Calendar{Unit: unit, Zone: zone, location: location}, nil
}

// Window returns the window [start, end) that now is in. It does not allocate
// as long as the window stays the same.
func (c *Calendar) Window(now Micros) (start, end Micros) {
	edges := c.edges(Micros(clampInstant(int64(now))))
	return edges[1], edges[2]
}

// Around returns five edges in a row: the start of the window before that of
// now, the start and the end of the window of now, and the ends of the two
// windows after it. It is for a script that has a clock of its own but no time
// zones: with the edges around the caller's clock, it can decide at any instant
// in [edges[0], edges[3]), because deciding in a window takes its start, its end
// and the end of the next; outside, it must ask again.
func (c *Calendar) Around(now Micros) [5]Micros {
	return *c.edges(Micros(clampInstant(int64(now))))
}

// around is what fixed windows need: the window of now and the end of the next.
func (c *Calendar) around(now int64) (start, end, nextEnd int64) {
	edges := c.edges(Micros(now))
	return int64(edges[1]), int64(edges[2]), int64(edges[3])
}

func (c *Calendar) edges(now Micros) *calendarEdges {
	if latest := c.latest.Load(); latest != nil && latest[1] <= now && now < latest[2] {
		return latest
	}
	var edges calendarEdges
	edges[1], edges[2] = c.find(now)
	edges[0], _ = c.find(edges[1] - 1)
	_, edges[3] = c.find(edges[2])
	_, edges[4] = c.find(edges[3])
	c.latest.Store(&edges)
	return &edges
}

// find returns the window of now. The date of now names it, except where clocks
// that were set back over midnight show a date again after the next one began:
// that hour belongs to the later window, so that windows never overlap.
func (c *Calendar) find(now Micros) (start, end Micros) {
	date := c.firstDate(now.Time().In(c.location))
	start = c.begins(date)
	for {
		date = c.nextDate(date)
		end = c.begins(date)
		if end > now {
			return start, end
		}
		start = end
	}
}

// firstDate returns the first date of the unit that t is in, as midnight UTC.
func (c *Calendar) firstDate(t time.Time) time.Time {
	year, month, day := t.Date()
	switch c.Unit {
	case CalendarWeek:
		day -= (int(t.Weekday()) + 6) % 7
	case CalendarMonth:
		day = 1
	case CalendarYear:
		month, day = time.January, 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// nextDate returns the first date of the unit after the one that begins at date.
func (c *Calendar) nextDate(date time.Time) time.Time {
	switch c.Unit {
	case CalendarWeek:
		return date.AddDate(0, 0, 7)
	case CalendarMonth:
		return date.AddDate(0, 1, 0)
	case CalendarYear:
		return date.AddDate(1, 0, 0)
	}
	return date.AddDate(0, 0, 1)
}

// begins returns the first instant at which the zone's clocks show date or a
// later one. Where they skip midnight, time.Date does not say which side of the
// gap it picks, so this walks the zone's offsets, from an instant that is before
// date everywhere on earth. On the last day of a leap year ZoneBounds may say
// that an offset ended before now (it takes every year for 365 days); the walk
// then goes on in steps that no change of clocks falls between.
func (c *Calendar) begins(date time.Time) Micros {
	t := date.Add(-36 * time.Hour).In(c.location)
	for {
		_, offset := t.Zone()
		midnight := date.Add(-time.Duration(offset) * time.Second)
		_, until := t.ZoneBounds()
		if !until.IsZero() && !until.After(t) {
			until = t.Add(15 * time.Minute)
		}
		if until.IsZero() || midnight.Before(until) {
			if midnight.Before(t) {
				midnight = t
			}
			return MicrosOf(midnight)
		}
		t = until
	}
}
