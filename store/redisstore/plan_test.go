package redisstore

import (
	"testing"

	"github.com/headgate/headgate/store"
)

// TestWhatIsJoined: takes and groups that say the same are one operation, and those that say
// something else, or that others of their buckets stand between, are not.
func TestWhatIsJoined(t *testing.T) {
	one := func(key string, group uint32, changes ...func(*store.Take)) store.Take {
		take := store.Take{Key: []byte(key), Limit: tenPerHour, Hits: 2, Group: group}
		for _, change := range changes {
			change(&take)
		}
		return take
	}
	shadow := func(t *store.Take) { t.Shadow = true }
	refund := func(t *store.Take) { t.Op = store.Refund }
	more := func(t *store.Take) { t.Hits++ }
	peek := func(t *store.Take) { t.Hits = 0 }
	for name, c := range map[string]struct {
		takes          []store.Take
		alone, grouped int
	}{
		"hits":                     {[]store.Take{one("a", 0), one("b", 0), one("a", 0), one("a", 0)}, 1, 0},
		"shadows":                  {[]store.Take{one("a", 0, shadow), one("a", 0, shadow)}, 1, 0},
		"groups":                   {[]store.Take{one("a", 1), one("b", 1), one("c", 0), one("a", 2), one("b", 2)}, 0, 2},
		"groups with a peek":       {[]store.Take{one("a", 1), one("b", 1, peek), one("a", 2), one("b", 2, peek)}, 0, 2},
		"a hit and its shadow":     {[]store.Take{one("a", 0), one("a", 0, shadow)}, 0, 0},
		"other hits":               {[]store.Take{one("a", 0), one("a", 0, more)}, 0, 0},
		"peeks":                    {[]store.Take{one("a", 0, peek), one("a", 0, peek)}, 0, 0},
		"refunds":                  {[]store.Take{one("a", 0, refund), one("a", 0, refund)}, 0, 0},
		"a refund between":         {[]store.Take{one("a", 0), one("a", 0, refund), one("a", 0)}, 0, 0},
		"a group and a hit":        {[]store.Take{one("a", 1), one("a", 0)}, 0, 0},
		"groups with a shadow":     {[]store.Take{one("a", 1), one("b", 1, shadow), one("a", 2), one("b", 2, shadow)}, 0, 0},
		"groups with a refund":     {[]store.Take{one("a", 1), one("b", 1, refund), one("a", 2), one("b", 2, refund)}, 0, 0},
		"groups that hit twice":    {[]store.Take{one("a", 1), one("a", 1), one("a", 2), one("a", 2)}, 0, 0},
		"groups in another order":  {[]store.Take{one("a", 1), one("b", 1), one("b", 2), one("a", 2)}, 0, 0},
		"groups of another length": {[]store.Take{one("a", 1), one("b", 1), one("a", 2)}, 0, 0},
		"a hit between groups":     {[]store.Take{one("a", 1), one("b", 1), one("b", 0), one("a", 2), one("b", 2)}, 0, 0},
	} {
		if alone, grouped := countJoined(c.takes); alone != c.alone || grouped != c.grouped {
			t.Errorf("%s: %d takes and %d in groups come several times, want %d and %d", name, alone, grouped, c.alone, c.grouped)
		}
	}
}
