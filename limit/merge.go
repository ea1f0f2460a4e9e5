package limit

import (
	"cmp"
	"slices"
)

// Merge returns a state of the bucket that holds at least as much as a and as b.
// It is for a store that has lost its latest writes (a is what it still holds)
// and a node that remembers them (b is what it saw last): when one of the two
// states came out of the other by charges alone, the result is that one. Merging
// again changes nothing, and the order of a and b does not matter, unless their
// kinds differ; then a counts, or b where a is unused.
//
// What was refunded, released or reset between the two states may come back: the
// result is never too generous.
//
// Of the tallies of several limits each is merged with its own; a state that has none
// beside it with that of l.
func Merge(l *Limit, a, b State) State {
	switch {
	case a.Kind == 0:
		return b
	case b.Kind != 0 && (a.Kind == KindTallies || b.Kind == KindTallies):
		return mergeTallies(l, a, b)
	case a.Kind != b.Kind:
		return a
	}
	switch a.Kind {
	case kindFixedWindow:
		return mergeFixedWindows(a, b)
	case kindSlidingWindow:
		return mergeSlidingWindows(l.periodMicros, a, b)
	case kindSubWindows:
		return mergeSubWindows(a, b)
	case kindSlidingLog:
		return mergeSlidingLogs(a, b)
	case kindConcurrency:
		return mergeSlots(a, b)
	case kindBan:
		return mergeBans(l.periodMicros, a, b)
	case KindTerms:
		return mergeTerms(l, a, b)
	default:
		return mergeTATs(a, b)
	}
}

// mergeTallies merges those that are of one limit, and keeps the others, the latest to
// end if there are too many.
func mergeTallies(l *Limit, a, b State) State {
	all := talliesOf(&a, nil)
	for _, t := range talliesOf(&b, nil) {
		i := slices.IndexFunc(all, func(u tally) bool { return sameForm(&u.state, &t.state) && u.terms == t.terms })
		told := t.state.Kind < kindSlidingLog // whose it is, by the form
		if i < 0 && (told || t.until == 0 || len(all) == 1 && all[0].until == 0) {
			i = slices.IndexFunc(all, func(u tally) bool {
				return sameForm(&u.state, &t.state) &&
					(u.terms == unknownTerms || t.terms == unknownTerms || l.owns(&u) && l.owns(&t))
			})
		}
		if i < 0 {
			all = append(all, t)
			continue
		}
		u, of := &all[i], *l
		if period := t.state.Per.micros(); period > 0 {
			of.setPeriod(period)
		}
		merged := Merge(&of, u.state, t.state)
		// What came later has counted what was noted for it before.
		switch first, second := equal(&merged, &u.state), equal(&merged, &t.state); {
		case first == second:
			u.since = max(u.since, t.since)
		case second:
			u.since = t.since
		}
		u.state = merged
		if u.terms == unknownTerms {
			u.terms = t.terms
		}
		u.until = max(u.until, t.until)
	}
	if len(all) > maxTallies {
		slices.SortStableFunc(all, func(x, y tally) int { return cmp.Compare(y.until, x.until) })
		all = all[:maxTallies]
	}
	longest := int64(0)
	for i := range all {
		longest = max(longest, all[i].until)
	}
	s := State{Kind: KindTallies}
	for i := range all {
		if all[i].until == 0 { // a plain one, which does not say
			all[i].until = longest
		}
		s.Wide = all[i].append(s.Wide)
	}
	return s
}

// sameForm reports whether a and b may be of one limit.
func sameForm(a, b *State) bool {
	return formOf(a) == formOf(b) && (a.Kind != kindSubWindows || a.B == b.B && len(a.Wide) == len(b.Wide))
}

// mergeFixedWindows takes the later window, and the larger count of one window.
func mergeFixedWindows(a, b State) State {
	if c := cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)); c < 0 {
		return b
	}
	return a
}

// mergeSlidingWindows takes the larger count of each window. The current window
// of one may be the previous one of the other.
func mergeSlidingWindows(period int64, a, b State) State {
	if a.A < b.A {
		a, b = b, a
	}
	switch {
	case a.A == b.A:
		a.B, a.C = max(a.B, b.B), max(a.C, b.C)
	case a.A-b.A == period:
		a.C = max(a.C, b.B)
	}
	return a
}

// mergeSubWindows takes the larger count of each part. Parts of another length or
// number cannot be told apart; of those the later state counts.
func mergeSubWindows(a, b State) State {
	if a.A < b.A {
		a, b = b, a
	}
	if a.B != b.B || a.B < 1 || len(a.Wide) != len(b.Wide) {
		return a
	}
	shift := (a.A - b.A) / a.B
	if shift >= int64(len(a.Wide)) || (a.A-b.A)%a.B != 0 {
		return a
	}
	a.Wide = slices.Clone(a.Wide)
	for i := range b.Wide[:len(b.Wide)-int(shift)] {
		a.Wide[i+int(shift)] = max(a.Wide[i+int(shift)], b.Wide[i])
	}
	return a
}

// mergeSlidingLogs takes the log with the later hit, of equals the longer one.
func mergeSlidingLogs(a, b State) State {
	last := func(s State) int64 {
		if len(s.Wide) == 0 {
			return 0
		}
		return s.Wide[len(s.Wide)-1]
	}
	if c := cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(len(a.Wide), len(b.Wide))); c < 0 {
		return b
	}
	return a
}

// mergeSlots takes the slots of both, each until the later of its ends; of more
// than a bucket may have those that end last. It puts those that end at one instant
// in the order of their holds, which says nothing.
func mergeSlots(a, b State) State {
	type slot struct{ until, hold int64 }
	var all []slot
	for _, pairs := range [...][]int64{a.Wide, b.Wide} {
		for i := slotWords - 1; i < len(pairs); i += slotWords {
			all = append(all, slot{pairs[i-1], pairs[i]})
		}
	}
	slices.SortFunc(all, func(x, y slot) int {
		return cmp.Or(cmp.Compare(x.hold, y.hold), cmp.Compare(y.until, x.until))
	})
	all = slices.CompactFunc(all, func(x, y slot) bool { return x.hold == y.hold })
	slices.SortFunc(all, func(x, y slot) int {
		return cmp.Or(cmp.Compare(x.until, y.until), cmp.Compare(x.hold, y.hold))
	})
	merged := State{Kind: kindConcurrency}
	for _, s := range all[max(len(all)-mostSlots, 0):] {
		merged.Wide = append(merged.Wide, s.until, s.hold)
	}
	return merged
}

// mergeBans takes the later ban, unless a count has begun after it, or the later
// count. Of counts that are no Period apart it takes the larger number too: they
// have parted, or there was a short ban between them, which is then forgotten on the
// safe side.
func mergeBans(period int64, a, b State) State {
	last := func(s State) int64 { return max(s.A, s.C) }
	if c := cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a.A, b.A)); c < 0 {
		a, b = b, a
	}
	if a.C == 0 && b.C == 0 && a.A-b.A < period {
		a.B = max(a.B, b.B)
	}
	return a
}

// mergeTATs takes the later TAT; the sign only says whether the bucket owes.
func mergeTATs(a, b State) State {
	magnitude := func(n int64) int64 { return max(n, -n) }
	c := cmp.Or(cmp.Compare(magnitude(a.A), magnitude(b.A)), cmp.Compare(a.B, b.B), cmp.Compare(b.A, a.A))
	if c < 0 {
		return b
	}
	return a
}
