package limit

// Fixed window counter.
//
// Time is cut into windows [start, end) that do not depend on the bucket: plain
// windows start at whole multiples of Period since the Unix epoch,
// start = floor(now/Period)*Period; calendar windows are days, weeks, months or
// years of a time zone. A window admits Quota hits:
//
//	allowed  iff  count + hits <= Quota
//
// This is the counter of envoyproxy/ratelimit and of most gateways. Its known
// weakness: Quota hits at the end of one window and Quota at the start of the
// next all pass.
//
// State: A is the start of the window in which the count was made, in µs; B is
// the count; Per is how long the window is.
//
// When Period changes, the count goes to the present window if some of it may have
// been made there (carry.go). Where Per is 0, it does if its window started inside
// the present one.

// fixedWindow is the window that a state counts in at some instant.
type fixedWindow struct {
	start, end int64 // µs
	count      int64
	// moved says that the stored start cannot be of this clock and that the
	// count was pulled back into the present window.
	moved bool
}

// plainWindow returns the plain window that now is in, and the end of the next.
func (l *Limit) plainWindow(now int64) (start, end, nextEnd int64) {
	_, into := l.byPeriod.divmod(now)
	start = now - into
	return start, start + l.periodMicros, start + 2*l.periodMicros
}

// fixedWindowAt reads s at now. A clock that stepped back over a window's edge
// leaves the stored window in the future: the next window is taken to have
// begun already; a start beyond that is bogus, and its count goes to the present
// window. So a step neither frees a burst nor locks out for much more than one
// window.
func (l *Limit) fixedWindowAt(s *State, now int64) fixedWindow {
	var start, end, nextEnd int64
	if l.Calendar != nil {
		start, end, nextEnd = l.Calendar.around(now)
	} else {
		start, end, nextEnd = l.plainWindow(now)
	}
	w := fixedWindow{start: start, end: end}
	if s.Kind != kindFixedWindow {
		return w
	}
	stored := clampStored(s.A)
	switch {
	case stored >= nextEnd:
		w.count, w.moved = clampCount(s.B), true
	case stored >= end:
		w.start, w.end, w.count = end, nextEnd, clampCount(s.B)
	case stored >= start:
		w.count = clampCount(s.B)
	}
	return w
}

func (w fixedWindow) save(l *Limit, s *State) {
	s.set(kindFixedWindow, w.start, w.count, 0)
	s.Per = l.per
}

func decideFixedWindow(l *Limit, s *State, now, hits int64, d *Decision) {
	w := l.fixedWindowAt(s, now)
	d.Limit = l.Quota
	d.Allowed = w.count+hits <= l.Quota
	charge := hits > 0 && (d.Allowed || l.CountDenied)
	if charge {
		w.count = addCount(w.count, hits)
	}
	d.Remaining = max(l.Quota-w.count, 0)
	if w.count > 0 {
		d.ResetAfter = duration(w.end - now)
	}
	if !d.Allowed {
		if hits > l.Quota {
			d.Never = true
		} else {
			d.RetryAfter = duration(w.end - now)
		}
	}
	if charge || (w.moved && hits > 0) {
		w.save(l, s)
	}
}

func refundFixedWindow(l *Limit, s *State, now, hits int64) {
	w := l.fixedWindowAt(s, now)
	w.count -= min(hits, w.count)
	w.save(l, s)
}
