package tenant

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
)

// The units of quotas, as in envoyproxy/ratelimit: a month is 30 days, a year 365.
var units = []struct {
	name   string
	length time.Duration
}{
	{"second", time.Second},
	{"minute", time.Minute},
	{"hour", time.Hour},
	{"day", 24 * time.Hour},
	{"week", 7 * 24 * time.Hour},
	{"month", 30 * 24 * time.Hour},
	{"year", 365 * 24 * time.Hour},
}

// ParseUnit returns the length of a unit of quotas: second, minute, hour, day,
// week, month, year, or a whole number of seconds, minutes, hours or days such as
// 10s, 5m, 36h, 7d.
func ParseUnit(text string) (time.Duration, error) {
	for _, u := range units {
		if u.name == text {
			return u.length, nil
		}
	}
	for i, suffix := range []string{"s", "m", "h", "d"} {
		digits, found := strings.CutSuffix(text, suffix)
		n, err := strconv.ParseUint(digits, 10, 31)
		if found && err == nil && n > 0 && n <= uint64(limit.MaxPeriod/units[i].length) {
			return time.Duration(n) * units[i].length, nil
		}
	}
	return 0, fmt.Errorf("unit %.40q; hint: second, minute, hour, day, week, month, year or a length such as 10s, 5m, 36h, 7d, up to 366d", text)
}

// UnitText is the inverse of ParseUnit.
func UnitText(length time.Duration) string {
	for _, u := range units {
		if u.length == length {
			return u.name
		}
	}
	for i := 3; i > 0; i-- {
		if length%units[i].length == 0 {
			return strconv.FormatInt(int64(length/units[i].length), 10) + units[i].name[:1]
		}
	}
	return strconv.FormatInt(int64(length/time.Second), 10) + "s"
}
