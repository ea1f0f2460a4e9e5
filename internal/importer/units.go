package importer

import (
	"strconv"
	"time"
)

const day = 24 * time.Hour

// wordUnits are the periods that have a word in rule files.
var wordUnits = []struct {
	name   string
	length time.Duration
}{
	{"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}, {"day", day},
	{"week", 7 * day}, {"month", 30 * day}, {"year", 365 * day},
}

// per writes the period of l as a word where there is one, else as a length.
func (l oneLimit) per(period time.Duration) oneLimit {
	for _, u := range wordUnits {
		if period == u.length {
			l.unit = u.name
			return l
		}
	}
	l.window = length(period)
	return l
}

// length is a duration as rule files write it, in one unit.
func length(d time.Duration) string {
	for _, u := range []struct {
		name string
		of   time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if d%u.of == 0 {
			return strconv.FormatInt(int64(d/u.of), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(d/time.Microsecond), 10) + "us"
}

// count reads a whole number from 0 to what fits, in decimal digits alone.
func count(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil
}
