package overload

import (
	"fmt"
	"strings"
)

// Priority says how late a request is shed: P0 last, P3 first.
//
// The zero value is P0. A front that sets no priority therefore sheds nothing
// but at the hard cap: it errs towards admitting. Values above P3 count as P3.
type Priority uint8

// The priorities, and what they are given to by default.
const (
	// P0 is critical traffic. The fleet shedder never sheds it; the worker
	// shedder sheds it at its own hard cap only.
	P0 Priority = iota
	// P1 is what changes something: POST, PUT, PATCH, DELETE.
	P1
	// P2 is what only reads: GET, HEAD.
	P2
	// P3 is test traffic and all else that nobody waits for.
	P3
)

// Priorities is the number of priorities.
const Priorities = 4

// String returns "P0" to "P3".
func (p Priority) String() string {
	return [Priorities]string{"P0", "P1", "P2", "P3"}[p.index()]
}

// index is the place of p in an array of all priorities.
func (p Priority) index() int { return int(min(p, P3)) }

// ParsePriority reads the word of a rule or of a header: p0 to p3, critical for
// P0 or test for P3, in any case, with spaces around it. The empty word is an
// error.
func ParsePriority(word string) (Priority, error) {
	p, ok := lookupPriority(word)
	if !ok {
		return P3, fmt.Errorf("overload: priority %.20q is none; it is p0, p1, p2, p3, critical or test", word)
	}
	return p, nil
}

// lookupPriority is ParsePriority without the error, which would allocate for
// each bad header of a client.
func lookupPriority(word string) (Priority, bool) {
	word = strings.TrimSpace(word)
	switch {
	case strings.EqualFold(word, "p0"), strings.EqualFold(word, "critical"):
		return P0, true
	case strings.EqualFold(word, "p1"):
		return P1, true
	case strings.EqualFold(word, "p2"):
		return P2, true
	case strings.EqualFold(word, "p3"), strings.EqualFold(word, "test"):
		return P3, true
	}
	return P3, false
}
