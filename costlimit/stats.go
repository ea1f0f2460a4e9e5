package costlimit

import (
	"sync/atomic"

	"github.com/headgate/headgate/httplimit"
)

// Stats is what a Middleware has counted since it was made.
type Stats struct {
	// Limits are the outcomes of reservations, and what package httplimit counts.
	Limits httplimit.Stats
	// Passed counts requests for which nothing was reserved.
	Passed uint64
	// Unreadable counts requests whose body was not read, which were answered with 400,
	// 413 or 503.
	Unreadable uint64
	// Told counts answers that told what they used, and Guessed those of which some of it
	// was guessed.
	Told, Guessed uint64
	// Refused counts answers of 400 and above that told nothing, and cost nothing.
	Refused uint64
	// Unread counts answers that could not be read, of which the estimate stays.
	Unread uint64
	// Late counts commits that were tried again in the background, and Lost those that
	// were given up: the estimate stays.
	Late, Lost uint64
	// KeptBytes is the room that requests under way have now.
	KeptBytes int64
}

type counts struct {
	passed, unreadable, told, guessed, refused, unread, late, lost atomic.Uint64
}

// Stats returns the counts.
func (m *Middleware) Stats() Stats {
	n := &m.counts
	return Stats{
		Limits: m.limits.Stats(),
		Passed: n.passed.Load(), Unreadable: n.unreadable.Load(),
		Told: n.told.Load(), Guessed: n.guessed.Load(), Refused: n.refused.Load(), Unread: n.unread.Load(),
		Late: n.late.Load(), Lost: n.lost.Load(), KeptBytes: m.kept.Load(),
	}
}
