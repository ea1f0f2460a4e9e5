package redisstore

import "github.com/headgate/headgate/limit"

// A window counter of a usual limit fits into one integer, which Redis keeps without
// memory beside the key's and adds to in one command. From the high bits on:
//
//	 3  the form: algorithm and period, as packedForms has them; never 0
//	 6  the number of the window since 1970, modulo 64
//	22  the count of the window before it; 0 of fixed_window
//	22  its count
//
// So it is below 2^53, which a Lua number holds, and has 16 digits, as no other value
// has. What it cannot say (larger counts, other periods, calendars, the terms of a limit)
// stays text.
//
// Six bits tell the window because the key expires at most two windows and a second after
// that began, by the clock that is read with it: it is the present one, one of the three
// before, or up to 60 ahead, which is of a clock that stepped back; how far ahead does not
// matter then. A step back of 61, 62 or 63 windows, or of 64 more, may make a count pass
// for one that is over.
const (
	packedDigits      = 16
	packedFormShift   = 50
	packedWindowShift = 44
	packedCountShift  = 22
	packedCounts      = 1 << packedCountShift
	packedWindows     = 64
	packedBehind      = 3 // windows that may be over while the key is there
)

// packedForms are the algorithms and periods that have a form, by its number.
var packedForms = [...]struct {
	algorithm limit.Algorithm
	per       limit.Per
	period    int64 // µs
}{
	1: {limit.SlidingWindow, perOf("1s"), 1_000_000},
	2: {limit.SlidingWindow, perOf("1m"), 60_000_000},
	3: {limit.SlidingWindow, perOf("1h"), 3_600_000_000},
	4: {limit.SlidingWindow, perOf("1d"), 86_400_000_000},
	5: {limit.FixedWindow, perOf("1s"), 1_000_000},
	6: {limit.FixedWindow, perOf("1m"), 60_000_000},
	7: {limit.FixedWindow, perOf("1h"), 3_600_000_000},
}

func perOf(word string) limit.Per {
	per, err := limit.ParsePer(word)
	if err != nil {
		panic(err) // a word of this file
	}
	return per
}

// unpack returns the state that n says at now, as unpack.lua does; the unused state for
// what is none.
func unpack(n int64, now limit.Micros) limit.State {
	form := n >> packedFormShift
	if form < 1 || form >= int64(len(packedForms)) {
		return limit.State{}
	}
	f := &packedForms[form]
	s := limit.State{Kind: 1 + uint8(f.algorithm), B: n % packedCounts, C: n >> packedCountShift % packedCounts}
	if f.algorithm == limit.FixedWindow && s.C != 0 {
		return limit.State{}
	}
	present := min(max(int64(now), 0), maxInstant) / f.period
	ahead := (n>>packedWindowShift-present+packedBehind)&(packedWindows-1) - packedBehind
	s.A = max(present+ahead, 0) * f.period
	s.Per = f.per
	return s
}

// formOf returns the number of the form of the states of l, 0 if they have none.
func formOf(l *limit.Limit) int {
	if !packable(l) {
		return 0
	}
	period := l.PeriodMicros()
	for form := 1; form < len(packedForms); form++ {
		if f := &packedForms[form]; f.algorithm == l.Algorithm && f.period == period {
			return form
		}
	}
	return 0
}

// packable reports whether the states of l may be packed.
func packable(l *limit.Limit) bool { return l.Algorithm <= limit.FixedWindow && l.Calendar == nil }

// isPacked reports whether an answer to a take by a limit of which states may be packed is
// such a state, below 0 if the take was denied. All else that a script says first of these
// is nearer to 0, or verdictNever.
func isPacked(n int64) bool {
	return max(n, -n) >= 1<<packedFormShift && n != verdictNever
}
