package app

import (
	"sync"

	"github.com/headgate/headgate/limit"
)

// lineLimit keeps one cause from writing the log full: it limits lines, and counts
// those that were not written. The zero value is ready for use.
type lineLimit struct {
	mu struct {
		sync.Mutex
		lines limit.State
		// untold is the number of events since the last line that got none.
		untold int
	}
}

// mayTell reports whether a line may be written at now, and how many were not
// since the last.
func (l *lineLimit) mayTell(lines *limit.Limit, now limit.Micros) (untold int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, d := limit.Decide(lines, l.mu.lines, now, 1)
	l.mu.lines = state
	if !d.Allowed {
		l.mu.untold++
		return 0, false
	}
	untold, l.mu.untold = l.mu.untold, 0
	return untold, true
}
