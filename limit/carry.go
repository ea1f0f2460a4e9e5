package limit

import "slices"

// Changing a limit keeps its counters.
//
// A state is in the form of the limit that wrote it. When that is another limit's
// (of another algorithm, another period of its windows) it is read as what it says
// of the past, hits and the latest instants at which they may have been made:
//
//	fixed_window    the count, at the end of its window or now
//	sliding_window  the two counts, each at the end of its window or now
//	sub_windows     each part, at its end or now
//	sliding_log     each stamp, at its instant
//	buckets         the hits that the backlog stands for, now
//
// and these hits are counted by the new limit as if they had been made then. That is
// the careful side: no hit counts earlier than it was made, so that it ages out of
// the new limit's windows no sooner than it should, and none counts twice. A window
// counts all of them, though they are more than its quota; a log keeps its newest
// Quota; a bucket gets no fuller than its burst, because nobody should owe because a
// rule was changed. A backlog is a time, that of the buckets are all one: it stays
// when a bucket becomes one of another algorithm, and is Quota hits per Period to
// what counts in windows, of the new limit, as the state does not say what it was.
//
// Slots of concurrency and denials that lead to a ban are no hits: they never
// become any, nor hits them, and count as unused to one another.
//
// The form is changed by the next hit, whether it passes or not (see Decide): what
// was counted late ages from then on.
//
// With CarryShare and CarryNothing the form is KindTerms: a state with what the
// limit was that wrote it. If that was the same limit the state is read as it is. Else
// it is unused, or each of its hits is taken for as many as are the same share of
// what the new limit admits at once, rounded up in sum.

// KindTerms is the Kind of a state with the terms under which it was written: A, B
// and C are these, and Wide has the state: its Kind and 256 times its Per, its A, B
// and C, and its Wide.
const KindTerms = 2 + uint8(Ban)

// TermWords is how many words of Wide a state of KindTerms has before the Wide of
// the state in it.
const TermWords = 4

// terms say what a limit is, as far as what was used is a share of it.
type terms struct {
	capacity int64 // as Decision.Limit
	// Of buckets num and den; of windows their length in µs and 0, of a calendar its
	// unit and 1.
	a, b int64
}

// terms returns what a state of KindTerms that l writes has in A, B and C.
func (l *Limit) terms() terms {
	switch {
	case l.Algorithm.IsBucket():
		return terms{l.capacity, l.num, l.den}
	case l.Calendar != nil:
		return terms{l.capacity, int64(l.Calendar.Unit), 1}
	}
	return terms{l.capacity, l.lengthAt(0), 0}
}

// form tells the states apart that a limit may decide on as they are.
type form uint32

// noForm is that of no state.
const noForm = 1 << 31

func formOf(s *State) form { return form(s.Kind)<<16 | form(s.Per) }

func (l *Limit) compileForm() {
	l.form = formOf(&State{Kind: 1 + uint8(l.Algorithm), Per: l.per})
	if l.Carry != CarryUsed {
		l.form, l.unused = noForm, noForm
	}
}

// decideForeign decides on a state that may have another form, or that holds more
// than l may have written.
func decideForeign(l *Limit, s *State, now, hits int64, d *Decision) {
	r := l.read(s, now)
	as := *l
	as.form = formOf(&r.own)
	before := r.own
	r.detach()
	DecideInPlace(&as, &r.own, Micros(now), hits, d)
	if hits == 0 || r.own.Kind == 0 {
		return
	}
	switch charged := d.Allowed || l.CountDenied; {
	case charged:
		l.write(s, &r, now, hits)
	case r.stale || len(r.beside) == 0 || !equal(&before, &r.own):
		l.write(s, &r, now, 0)
	}
}

func equal(a, b *State) bool {
	return a.Kind == b.Kind && a.Per == b.Per && a.A == b.A && a.B == b.B && a.C == b.C && slices.Equal(a.Wide, b.Wide)
}

// counts reports whether states of a kind hold hits.
func counts(kind uint8) bool { return kind >= kindSlidingWindow && kind <= 1+uint8(GCRA) }

func isTAT(kind uint8) bool { return kind > kindSlidingLog && kind <= 1+uint8(GCRA) }

// unpacked returns the state in one of KindTerms, unused if there is none. It
// shares the memory of its Wide.
func unpacked(s *State) State {
	if len(s.Wide) < TermWords || !counts(uint8(s.Wide[0])) {
		return State{}
	}
	own := State{Kind: uint8(s.Wide[0]), Per: Per(s.Wide[0] >> 8), A: s.Wide[1], B: s.Wide[2], C: s.Wide[3]}
	if len(s.Wide) > TermWords {
		own.Wide = s.Wide[TermWords:]
	}
	return own
}

// pack makes s what l stores of own, in the memory of its Wide where own is there
// already.
func (l *Limit) pack(s, own *State) {
	if l.Carry == CarryUsed || own.Kind == 0 {
		*s = *own
		return
	}
	n, wide := TermWords+len(own.Wide), s.Wide
	switch {
	case s.Kind != KindTerms || cap(wide) < n:
		wide = slices.Concat(make([]int64, TermWords), own.Wide)
	case len(own.Wide) > 0:
		wide = wide[:n]
		copy(wide[TermWords:], own.Wide)
	default:
		wide = wide[:n]
	}
	wide[0], wide[1], wide[2], wide[3] = int64(own.Kind)|int64(own.Per)<<8, own.A, own.B, own.C
	t := l.terms()
	s.set(KindTerms, t.capacity, t.a, t.b)
	s.Wide = wide
}

// made is hits that were made at an instant or before.
type made struct{ at, hits int64 }

// mostUses is how many uses a state has, as far as they are told apart, but for a log
// that another log reads.
const mostUses = MaxSubWindows + 1

// usesOf appends the uses of s that may matter to l at now, the latest first. None
// is later than last, when the latest hits were made.
func (l *Limit) usesOf(s *State, now, last int64, uses []made) []made {
	add := func(at, hits int64) {
		if hits = clampCount(hits); hits > 0 {
			uses = append(uses, made{min(max(at, 0), last), hits})
		}
	}
	switch start := clampStored(s.A); s.Kind {
	case kindFixedWindow:
		add(start+l.periodOf(s, now)-1, s.B)
	case kindSlidingWindow:
		add(start+l.periodOf(s, now)-1, s.B)
		add(start-1, s.C)
	case kindSubWindows:
		if s.B < 1 || s.B > maxPeriodMicros {
			return uses
		}
		for i, hits := range s.Wide[:min(len(s.Wide), mostUses)] {
			add(start-int64(i-1)*s.B-1, hits)
		}
	case kindSlidingLog:
		l.usesOfLog(s.Wide, now, last, add)
	default:
		add(last, l.hitsOf(s, now, last))
	}
	return uses
}

// periodOf returns the length of the windows of s. One that is not known is taken
// for that of l.
func (l *Limit) periodOf(s *State, now int64) int64 {
	if period := s.Per.micros(); period > 0 {
		return period
	}
	return l.lengthAt(now)
}

// lengthAt returns how long l remembers a hit, in µs: the period, or the length of all
// parts, or of the calendar's window at now, or the time in which a bucket drains.
func (l *Limit) lengthAt(now int64) int64 {
	switch {
	case l.Algorithm.IsBucket():
		return l.tolerance.whole + 1
	case l.Algorithm == SubWindows:
		return l.partMicros * int64(l.SubWindows)
	case l.Calendar != nil:
		start, end, _ := l.Calendar.around(now)
		return end - start
	}
	return l.periodMicros
}

// usesOfLog adds stamps together that l cannot tell apart.
func (l *Limit) usesOfLog(stamps []int64, now, last int64, add func(at, hits int64)) {
	from, width := l.cells(now)
	for i := len(stamps); i > 0; {
		at := min(clampStored(stamps[i-1]), last)
		if at < from {
			return
		}
		cell := from
		if width > 0 {
			cell = at - at%width
		}
		first := min(firstAfter(stamps, cell-1), i-1)
		add(at, int64(i-first))
		i = first
	}
}

// cells returns the earliest instant at which hits matter to l at now, and the
// width of the cells, aligned to the epoch, that it counts them in: 0 for one.
func (l *Limit) cells(now int64) (from, width int64) {
	switch l.Algorithm {
	case FixedWindow:
		return l.fixedWindowAt(&State{}, now).start, 0
	case SlidingWindow:
		return now - now%l.periodMicros - l.periodMicros, l.periodMicros
	case SubWindows:
		return now - now%l.partMicros - int64(l.SubWindows)*l.partMicros, l.partMicros
	case SlidingLog:
		return now - l.periodMicros + 1, 1
	}
	// What was made earlier has drained, or was no more than what is left of it.
	return now - l.tolerance.whole, 0
}

// backlogOf returns how far the TAT of s is ahead of now, rounded up.
func backlogOf(s *State, now int64) int64 {
	whole := clampStored(max(s.A, -max(s.A, -2*maxInstant)))
	if s.B > 0 {
		whole++
	}
	return max(whole-now, 0)
}

// hitsOf returns the hits that the backlog of s at last stands for under l, at most its
// quota.
func (l *Limit) hitsOf(s *State, now, last int64) int64 {
	backlog, period := backlogOf(s, last), l.lengthAt(now)
	if backlog >= period {
		return l.Quota
	}
	return muldivCeil(backlog, l.Quota, period)
}

// share returns what t, of another limit, is to l if the share that was used stays
// the same.
func (l *Limit) share(t *tally, now int64) State {
	before, own := t.terms, &t.state
	if before.capacity < 1 || isTAT(own.Kind) && (before.a < 1 || before.b < 1) {
		return State{}
	}
	var room [mostUses + 1]made
	var uses []made
	if isTAT(own.Kind) {
		hits := before.capacity
		if backlog := backlogOf(own, t.last); backlog < muldivFloor(before.capacity, before.a, before.b) {
			hits = min(hits, before.hitsIn(backlog))
		}
		uses = append(room[:0], made{t.last, hits})
	} else {
		uses = l.usesOf(own, now, t.last, room[:0])
	}
	uses = withSince(uses, t.since, t.last)
	sum, scaled := int64(0), int64(0)
	for i := range uses {
		sum = min(sum+uses[i].hits, before.capacity)
		total := muldivCeil(sum, l.capacity, before.capacity)
		uses[i].hits, scaled = total-scaled, total
	}
	return l.counted(uses, now)
}

// counted returns the state of l at now in which only uses have been counted.
func (l *Limit) counted(uses []made, now int64) State {
	var s State
	switch l.Algorithm {
	case FixedWindow:
		w := l.fixedWindowAt(&s, now)
		for _, u := range uses {
			if u.at >= w.start {
				w.count = addCount(w.count, u.hits)
			}
		}
		if w.count > 0 {
			w.save(l, &s)
		}
	case SlidingWindow:
		w, _ := l.slidingWindowAt(&s, now)
		for _, u := range uses {
			switch {
			case u.at >= w.start:
				w.current = addCount(w.current, u.hits)
			case u.at >= w.start-l.periodMicros:
				w.previous = addCount(w.previous, u.hits)
			}
		}
		if w.current > 0 || w.previous > 0 {
			w.save(l, &s)
		}
	case SubWindows:
		l.countParts(&s, uses, now)
	case SlidingLog:
		l.countStamps(&s, uses, now)
	default:
		l.countBacklog(&s, uses, now)
	}
	return s
}

// countParts is counted for sub_windows.
func (l *Limit) countParts(s *State, uses []made, now int64) {
	p := l.partsAt(s, now)
	wide := make([]int64, l.SubWindows+1)
	for _, u := range uses {
		if i := (p.start - (u.at - u.at%l.partMicros)) / l.partMicros; i < int64(len(wide)) {
			added := min(u.hits, maxCount-p.total)
			wide[i] += added
			p.total += added
		}
	}
	if p.total > 0 {
		s.set(kindSubWindows, p.start, l.partMicros, 0)
		s.Wide = wide
	}
}

// countStamps is counted for sliding_log.
func (l *Limit) countStamps(s *State, uses []made, now int64) {
	var stamps []int64
	for _, u := range uses {
		if u.at > now-l.periodMicros {
			for range min(u.hits, l.Quota-int64(len(stamps))) {
				stamps = append(stamps, u.at)
			}
		}
	}
	if len(stamps) > 0 {
		slices.Reverse(stamps)
		s.set(kindSlidingLog, 0, 0, 0)
		s.Wide = stamps
	}
}

// countBacklog is counted for the buckets: the hits were poured in one after the
// other, and what flowed over is forgotten.
func (l *Limit) countBacklog(s *State, uses []made, now int64) {
	var backlog span
	last := int64(0)
	for _, u := range slices.Backward(uses) {
		backlog = backlog.less(span{whole: u.at - last}, l.den)
		backlog = l.filled(backlog, min(u.hits, l.capacity+1), l.tolerance)
		last = u.at
	}
	if backlog = backlog.less(span{whole: now - last}, l.den); backlog != (span{}) {
		l.saveTAT(s, now, backlog)
	}
}

// mergeTerms merges the states in two of KindTerms that the same limit wrote; of
// others a counts.
func mergeTerms(l *Limit, a, b State) State {
	x, y := unpacked(&a), unpacked(&b)
	if a.A != b.A || a.B != b.B || a.C != b.C || x.Kind != y.Kind || x.Kind == 0 {
		return a
	}
	merged := Merge(l, x, y)
	a.Wide = slices.Concat([]int64{int64(merged.Kind) | int64(merged.Per)<<8, merged.A, merged.B, merged.C}, merged.Wide)
	return a
}
