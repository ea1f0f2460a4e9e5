package limit

import "slices"

// How far the limits of tallies (tally.go) look back, and how much these hold, says which
// of them is of no more use.

// spare returns which tally the others can do without: one that another covers, whose
// limit looks back as far and which has room for as many hits. Of several it is that of the
// limit that looks back least, then of the smallest, then that not touched for longest; if
// none is covered, of all.
func spare(all []tally) (least int) {
	for i := range all {
		back, held := all[i].reach()
		b, h := all[least].reach()
		less := back < b || back == b && held <= h
		if c := covered(all, i); c == covered(all, least) && less || c && !covered(all, least) {
			least = i
		}
	}
	return least
}

// covered reports whether another tally knows all that one does.
func covered(all []tally, i int) bool {
	back, held := all[i].reach()
	for j := range all {
		if b, h := all[j].reach(); j != i && b >= back && h >= held {
			return true
		}
	}
	return false
}

// reach returns how long the limit of t looks back, in µs, and how many hits t has room
// for. That of a state whose terms are not known may be anybody's, for as long as any.
func (t *tally) reach() (back, held int64) {
	switch {
	case t.terms == unknownTerms:
		return maxInstant, maxCount
	case isTAT(t.state.Kind) && t.terms.b > 0:
		return min(muldivFloor(t.terms.capacity, max(t.terms.a, 0), t.terms.b), maxInstant), t.terms.capacity
	case t.state.Kind == kindSlidingLog:
		return t.terms.a, t.terms.capacity
	case t.state.Kind == kindFixedWindow && t.terms.b == 1:
		return (perCalendar<<perShift | Per(min(max(t.terms.a, 0), perMost))).micros(), maxCount
	}
	return t.terms.a, maxCount
}

// setLast finds out when any of the tallies was touched last. What none of them says was
// now.
func setLast(all []tally, now int64) {
	last := int64(-1)
	for i := range all {
		if t := &all[i]; t.terms != unknownTerms && t.until > 0 {
			back, _ := t.reach()
			last = max(last, t.until-back-1)
		}
	}
	if last < 0 || last > now {
		last = now
	}
	for i := range all {
		all[i].last = last
	}
}

// withoutGone drops those that have ended and that nobody misses any more: neither l nor
// another that has not ended looks back longer, or they have been there for as long again.
func (l *Limit) withoutGone(all []tally, now int64) []tally {
	own := tally{state: State{Kind: 1 + uint8(l.Algorithm)}, terms: l.terms()}
	longest, _ := own.reach()
	for i := range all {
		if back, _ := all[i].reach(); !all[i].ended(now) {
			longest = max(longest, back)
		}
	}
	return slices.DeleteFunc(all, func(t tally) bool {
		back, _ := t.reach()
		return t.ended(now) && (longest <= back || t.until+longest <= now)
	})
}
