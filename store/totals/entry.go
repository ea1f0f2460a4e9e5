package totals

import (
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// spanPart is which part of the time in which a hit weighs a span lasts, if its window does
	// not end before that. maxMarks bounds the spans: those of that time, and one more for each
	// of the windows that end in it.
	spanPart, maxMarks = 8, 12
	// maxHits is how many hits an entry counts; then it is forgotten.
	maxHits = 1 << 52
	// setBack is by how much a clock is behind what was counted, if it was set back: it is more than
	// the time between the reading of a clock and the note.
	setBack = limit.Micros(1_000_000)
)

// entry is what this process has counted of one bucket, and what each peer has heard of it.
type entry struct {
	key    []byte
	limit  *limit.Limit
	column store.Column
	row    *row
	count  store.Counts
	// marks divide the count into spans of time, the oldest first; what was counted before them
	// weighs nothing any more.
	marks []mark
	// heard is what each peer has heard of, for certain, behind since when it has not heard of
	// all that is worth telling, where that is so.
	heard  []store.Counts
	behind []limit.Micros
}

// mark begins a span.
type mark struct {
	from        store.Counts // what was counted before it
	since, last limit.Micros // when its first and its last hits were counted
}

// note adds c, which was counted at now. With a reset no peer needs to hear any more of what
// was counted before it.
func (e *entry) note(c store.Counts, now limit.Micros) {
	if c.Resets > 0 {
		for p := range e.heard {
			e.heard[p].Hits, e.heard[p].Back = e.count.Hits, e.count.Back
		}
		e.marks = e.marks[:0]
	}
	e.span(now)
	e.count = e.count.Plus(c)
}

// span sees to it that the last span is one of now, where something is about to be counted.
func (e *entry) span(now limit.Micros) {
	e.redate(now)
	for len(e.marks) > 0 && e.weightless(&e.marks[0], now) {
		e.marks = append(e.marks[:0], e.marks[1:]...)
	}
	for p := range e.heard {
		if e.heard[p] == e.count {
			e.behind[p] = now
		}
	}
	n := len(e.marks)
	if n == 0 || e.over(&e.marks[n-1], now) {
		if n == maxMarks {
			// Hits count as later than they were, so that none is left out too early.
			e.marks[1].from, e.marks[1].since = e.marks[0].from, e.marks[0].since
			e.marks = append(e.marks[:0], e.marks[1:]...)
			n--
		}
		e.marks = append(e.marks, mark{from: e.count, since: now, last: now})
		n++
	}
	e.marks[n-1].last = max(e.marks[n-1].last, now)
}

// redate lets nothing of e be later than now, where the clock was set back: until it were that late
// again, hits would weigh that do not any more, what is not heard would seem new, and e would be kept.
func (e *entry) redate(now limit.Micros) {
	n := len(e.marks)
	if n == 0 || e.marks[n-1].last < now+setBack {
		return
	}
	for i := range e.marks {
		m := &e.marks[i]
		m.since, m.last = min(m.since, now), min(m.last, now)
	}
	for p := range e.behind {
		e.behind[p] = min(e.behind[p], now)
	}
}

// over reports whether hits at now do not belong into the span of m: their window is another
// one, or it lasts for long enough.
func (e *entry) over(m *mark, now limit.Micros) bool {
	return time.Duration(now-m.since)*time.Microsecond > e.limit.Weighs()/spanPart || e.limit.Outstanding(m.last, now, 1) == 0
}

// known returns the part of the count of which a peer need not hear at now: it has heard of it,
// or it weighs nothing any more.
func (e *entry) known(peer int, now limit.Micros) store.Counts {
	heard := e.heard[peer]
	if len(e.marks) == 0 {
		return e.count
	}
	heard = heard.Max(e.marks[0].from)
	known := heard
	for i := range e.marks {
		m, to := &e.marks[i], e.count
		if i+1 < len(e.marks) {
			to = e.marks[i+1].from
		}
		known.Hits += e.light(to.Hits-max(m.from.Hits, heard.Hits), m, now)
		known.Back += e.light(to.Back-max(m.from.Back, heard.Back), m, now)
		if e.weightless(m, now) {
			known.Resets += max(to.Resets-max(m.from.Resets, heard.Resets), 0)
		}
	}
	return known
}

// weightless reports whether nothing of the span of m weighs at now.
func (e *entry) weightless(m *mark, now limit.Micros) bool {
	return time.Duration(now-m.last)*time.Microsecond > e.limit.Weighs()
}

// light returns how many of hits of the span of m weigh nothing at now.
func (e *entry) light(hits int64, m *mark, now limit.Micros) int64 {
	if hits <= 0 {
		return 0
	}
	heavy := e.limit.Outstanding(m.last, now, hits)
	if heavy > 0 && heavy < hits {
		heavy++ // it was rounded down
	}
	return hits - heavy
}

// hear notes that a peer has heard of a count that was told at sent.
func (e *entry) hear(peer int, c store.Counts, sent limit.Micros) {
	e.heard[peer] = e.heard[peer].Max(c)
	e.behind[peer] = sent
}

// lag returns for how long a peer has not heard of all that was counted and is worth telling; 0 if
// it has.
func (e *entry) lag(peer int, now limit.Micros) time.Duration {
	if e.heard[peer] == e.count {
		return 0
	}
	return max(time.Duration(now-e.behind[peer])*time.Microsecond, 0)
}

// idle reports whether nothing of e weighs at now, so that it can be forgotten.
func (e *entry) idle(now limit.Micros) bool {
	n := len(e.marks)
	return n == 0 || e.weightless(&e.marks[n-1], now)
}

// ended reports whether the window of the last hits of e has ended at now, so that none of them weighs
// in any window: others may have the place of e. It is not forgotten before it must be, because the
// peers keep a note of each column.
func (e *entry) ended(now limit.Micros) bool {
	n := len(e.marks)
	return n == 0 || e.limit.Algorithm == limit.FixedWindow && e.limit.Outstanding(e.marks[n-1].last, now, 1) == 0
}
