package rls

import (
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/limit"
)

// Units of time, numbered as in RateLimitResponse.RateLimit.Unit. An override
// numbers its unit by envoy.type.v3.RateLimitUnit, which is the same up to year
// and has no week; a week is understood all the same.
const (
	unitUnknown int32 = iota
	unitSecond
	unitMinute
	unitHour
	unitDay
	unitMonth
	unitYear
	unitWeek
)

// unitPeriods are the lengths of the units in envoyproxy/ratelimit: a month is
// 30 days and a year 365.
var unitPeriods = [...]time.Duration{
	unitSecond: time.Second,
	unitMinute: time.Minute,
	unitHour:   time.Hour,
	unitDay:    24 * time.Hour,
	unitMonth:  30 * 24 * time.Hour,
	unitYear:   365 * 24 * time.Hour,
	unitWeek:   7 * 24 * time.Hour,
}

// unitsByLength are the units from the longest to the shortest.
var unitsByLength = [...]int32{unitYear, unitMonth, unitWeek, unitDay, unitHour, unitMinute, unitSecond}

// calendarUnits are the units of calendar windows.
var calendarUnits = [...]int32{
	limit.CalendarDay:   unitDay,
	limit.CalendarWeek:  unitWeek,
	limit.CalendarMonth: unitMonth,
	limit.CalendarYear:  unitYear,
}

// wireUnit expresses the period of l as a multiple of the longest unit that
// divides it. A period that is not made of whole seconds is unitUnknown: Envoy
// then leaves the window out of its header.
func wireUnit(l *limit.Limit) (unit int32, multiplier uint32) {
	if l.Calendar != nil {
		return calendarUnits[l.Calendar.Unit], 1
	}
	for _, unit := range unitsByLength {
		if l.Period%unitPeriods[unit] == 0 {
			return unit, uint32(l.Period / unitPeriods[unit])
		}
	}
	return unitUnknown, 1
}

// maxOverrides bounds how many compiled limits are remembered. Callers choose
// the numbers, so there could be any number of them.
const maxOverrides = 4096

// overrides compiles the limits that callers name and remembers them. It is
// safe for concurrent use.
type overrides struct {
	// spec holds what the caller does not name: how the limit counts.
	spec  limit.Spec
	known *memo.Memo[override, *limit.Limit]
}

func newOverrides(spec limit.Spec) *overrides {
	o := &overrides{spec: spec}
	o.known = memo.New(maxOverrides, o.compile)
	return o
}

// limit returns the compiled limit of want. Errors are the caller's fault.
func (o *overrides) limit(want override) (*limit.Limit, error) {
	if !want.hasMultiplier {
		want.multiplier = 1
	}
	want.hasMultiplier = true
	return o.known.Get(want)
}

func (o *overrides) compile(want override) (*limit.Limit, error) {
	if want.unit <= unitUnknown || int(want.unit) >= len(unitPeriods) {
		return nil, fmt.Errorf("limit override: unknown unit %d; hint: SECOND 1, MINUTE 2, HOUR 3, DAY 4, MONTH 5, YEAR 6, WEEK 7", want.unit)
	}
	unit := unitPeriods[want.unit]
	if want.multiplier == 0 || int64(want.multiplier) > math.MaxInt64/int64(unit) {
		return nil, fmt.Errorf("limit override: unit_multiplier %d is out of range; hint: at least 1, and a period of at most %v", want.multiplier, limit.MaxPeriod)
	}
	spec := o.spec
	spec.Quota = int64(want.requests)
	spec.Period = unit * time.Duration(want.multiplier)
	l, err := limit.New(spec)
	if err != nil {
		return nil, fmt.Errorf("limit override: %w", err)
	}
	return l, nil
}
