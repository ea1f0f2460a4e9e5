// Package linelimit keeps one cause from filling a log.
package linelimit

import (
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
)

// Limiter limits the lines of one cause in a log, and counts
// those that were not written. The zero value is ready for use.
type Limiter struct {
	mu struct {
		sync.Mutex
		lines limit.State
		// untold is the number of events since the last line that got none.
		untold int
	}
}

// PerMinute returns the limit of so many lines a minute, and of burst at once.
func PerMinute(lines, burst int64) *limit.Limit {
	return limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: lines, Period: time.Minute, Burst: burst})
}

// MayTell reports whether a line may be written at now, and how many were not
// since the last.
func (l *Limiter) MayTell(lines *limit.Limit, now time.Time) (untold int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, d := limit.Decide(lines, l.mu.lines, limit.MicrosOf(now), 1)
	l.mu.lines = state
	if !d.Allowed {
		l.mu.untold++
		return 0, false
	}
	untold, l.mu.untold = l.mu.untold, 0
	return untold, true
}
