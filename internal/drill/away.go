package drill

import (
	"slices"
	"strings"
	"time"
)

// maxAway bounds the things that a report names as away.
const maxAway = 64

// Away is something that was away during a drill: a server of a store, the database, a sink
// of events.
type Away struct {
	Name string `json:"name"`
	// Times is how often it went, ForMS for how long it was away altogether, in
	// milliseconds.
	Times int   `json:"times"`
	ForMS int64 `json:"for_ms"`
	// AfterMS is how long after the begin it went first, BackMS how long after the end of
	// the drill it was back, 0 where it was back before; both in milliseconds.
	AfterMS int64 `json:"after_ms"`
	BackMS  int64 `json:"back_ms"`
	// Still says that it was not back when it was looked at last.
	Still bool `json:"still,omitempty"`
}

// Absences sums up what is away, from looks at it. Its zero value has seen nothing.
type Absences struct {
	last  time.Duration
	known map[string]*Away
}

// Look notes which things there are, by name, and whether they are away, after the drill has
// lasted for that long; ended is when it ended, negative while it has not. The time since
// the look before counts for what is away now, and was then.
func (a *Absences) Look(lasted, ended time.Duration, away map[string]bool) {
	if a.known == nil {
		a.known = map[string]*Away{}
	}
	for name, is := range away {
		seen := a.known[name]
		switch {
		case seen == nil && !is, seen == nil && len(a.known) == maxAway:
		case seen == nil:
			a.known[name] = &Away{Name: name, Times: 1, AfterMS: lasted.Milliseconds(), Still: true}
		case is && seen.Still:
			seen.ForMS += (lasted - a.last).Milliseconds()
		case is:
			seen.Times++
			seen.Still = true
		case seen.Still:
			seen.ForMS += (lasted - a.last).Milliseconds()
			seen.Still = false
			if ended >= 0 {
				seen.BackMS = max(lasted-ended, 0).Milliseconds()
			}
		}
	}
	a.last = lasted
}

// Any reports whether something is away.
func (a *Absences) Any() bool {
	for _, one := range a.known {
		if one.Still {
			return true
		}
	}
	return false
}

// List returns what was away, in the order of the names.
func (a *Absences) List() []Away {
	list := make([]Away, 0, len(a.known))
	for _, one := range a.known {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(x, y Away) int { return strings.Compare(x.Name, y.Name) })
	return list
}
