package limit

import "slices"

// While nodes disagree on a limit, a bucket keeps a tally for each limit in force.
//
// One change converts a state once (carry.go). Nodes that disagree, in a rolling
// deploy or for the moment of a reload, would convert it there and back with every
// request, and what is lost or rounded up in one conversion would multiply. So the
// state that another limit wrote is kept beside the one that is made of it, and
// both go on counting:
//
//   - A limit decides, charges and gives back in its own tally only.
//   - What it charges or gives back is noted in all others, as hits since these were
//     last touched (since). Their own limits count them when they come again, as made
//     when any limit touched its own last: later than they were made, never earlier.
//   - A limit without a tally gets one by the conversion of carry.go, once, from the
//     tally of which most comes of it; of equal ones that was touched last, because it
//     knows best when. None has hits that were not made, but a bucket that is full
//     and a log forget some. A share (CarryShare) is that of the tally touched last.
//
// Hence whoever lets a hit pass has counted all hits since its tally began, whoever
// let them pass, and nothing that did not happen.
//
// A tally ends once its limit has not touched it for as long as it looks back; if its
// limit comes all the same, it converts anew, but counts no more than since; a bucket
// goes on, because what was in it delays what came after. So a tally stays
// for as long again as others look back, where that is longer: what they count of a day
// would be news to a limit of a second whenever it is asked. When one is
// left, the state is as if there had never been another. A state with one tally stores no
// word more than it does without all this.
//
// A bucket algorithm's plain state is a time and does not say under which rate it was
// written: buckets share it, each hit counts for the time that it takes where it
// passes. A limit that finds it beyond its own tolerance (a larger burst elsewhere,
// or a clock that stepped back) makes a tally of its own beside it. In a tally the
// rate is known, so that one bucket is converted to another by hits, exactly.

// KindTallies is the Kind of a state with the tallies of several limits, one after the
// other in Wide, the one that was touched last first: its Kind and 256 times its Per,
// its terms as in KindTerms (-1, 0 and 0 where they are not known), its A, B and C,
// until when it is kept, the hits since it was touched, the length of its Wide, and
// that.
const KindTallies = 1 + KindTerms

// maxTallies bounds the tallies of a state: two versions of a rule meet in a deploy, a
// third and a fourth when it is taken back or followed by another before the first has
// ended, and callers who name limits may each have one of their own for the same key. Of
// more, one goes that the others know all of (spare). Its limit is converted again when
// it asks, so that no more passes than if it had stayed; but what was converted there and
// back counts as made later than it was, each time.
const maxTallies = 8

// tallyWords is how many words of Wide a tally has before the Wide of its state.
const tallyWords = 10

// logKept is how long a log is kept whose period is not known, in µs: an hour.
const logKept = 3_600_000_000

// unknownTerms are those of a plain state.
var unknownTerms = terms{capacity: -1}

// tally is what one limit has counted.
type tally struct {
	state State
	terms terms
	until int64 // the first instant at which it may be dropped; 0: not known
	since int64 // hits charged elsewhere since it was touched, less those given back
	last  int64 // when any of the bucket's tallies was touched last: no hit is later; not stored
}

// reading is what a state is to a limit.
type reading struct {
	own    State   // in the form of the limit, but for the terms
	beside []tally // of other limits
	found  bool    // own was there, and not made of another tally
	later  int64   // for how long what is charged may still pass, in µs
	// stale says that own is not what is stored: the next hit stores it, whether it
	// passes or not, because what was counted late ages from then on.
	stale bool
}

// read returns what s is to l at now. It leaves s alone, but may share the memory of
// its Wide.
func (l *Limit) read(s *State, now int64) reading {
	if f := formOf(s); (f == l.form || f == l.unused) && l.fits(s, now) {
		return reading{own: *s, found: true}
	}
	kind := 1 + uint8(l.Algorithm)
	if !counts(kind) {
		return reading{stale: true}
	}
	var room [maxTallies]tally
	all := talliesOf(s, room[:0])
	setLast(all, now)
	i := slices.IndexFunc(all, func(t tally) bool { return l.owns(&t) && t.terms != unknownTerms })
	if i < 0 {
		i = slices.IndexFunc(all, func(t tally) bool { return l.owns(&t) })
	}
	var mine tally
	r, stays, most := reading{stale: true}, false, int64(maxCount)
	if i >= 0 {
		mine = all[i]
		if kind == kindSlidingLog && mine.terms == unknownTerms && mine.until > 0 {
			mine.until += l.periodMicros - logKept // it did not say how far it looks back
		}
		if mine.since <= 0 || !mine.ended(now) || isTAT(kind) {
			r, stays = l.claim(&mine, now)
		}
		most = mine.since
		if !stays {
			all = slices.Delete(all, i, i+1)
		}
	}
	all = l.withoutGone(all, now)
	if !r.found {
		r.own = l.convertedMost(all, now, most)
	}
	if len(all) == 0 {
		return r
	}
	for i := range all {
		if t := &all[i]; t.until == 0 {
			t.until = l.keptUntil(&t.state, now)
		}
	}
	r.beside = slices.Clone(all)
	return r
}

// detach is for who changes own: what is beside keeps the memory that they share.
func (r *reading) detach() {
	if len(r.beside) > 0 {
		r.own.Wide = slices.Clone(r.own.Wide)
	}
}

// ended reports whether the limit of t has not touched it for as long as it remembers.
func (t *tally) ended(now int64) bool { return t.until > 0 && t.until <= now }

// fits reports whether l may decide on a state of its form as it is.
func (l *Limit) fits(s *State, now int64) bool {
	switch {
	case s.Kind == kindSubWindows:
		return l.sameParts(s)
	case isTAT(s.Kind) && s.A > 0:
		_, moved := l.backlogAt(s, now)
		return !moved
	}
	return true
}

// sameParts reports whether a state of sub_windows has the parts of l.
func (l *Limit) sameParts(s *State) bool {
	return s.B == l.partMicros && len(s.Wide) == l.SubWindows+1 && clampStored(s.A)%l.partMicros == 0
}

// owns reports whether l counts in t.
func (l *Limit) owns(t *tally) bool {
	kind, known := 1+uint8(l.Algorithm), t.terms != unknownTerms
	switch {
	case isTAT(kind) && isTAT(t.state.Kind):
		return !known || t.terms == l.terms() && (l.Carry == CarryUsed || t.state.Kind == kind)
	case t.state.Kind != kind:
		return false
	case known && (l.Carry != CarryUsed || kind == kindSlidingLog) && t.terms != l.terms():
		return false // a log holds no more than its quota when it is brought up to date
	case kind == kindSubWindows && !t.state.isNone():
		return l.sameParts(&t.state)
	case t.state.Per == 0 && known:
		mine := l.terms()
		return t.terms.a == mine.a && t.terms.b == mine.b
	}
	return t.state.Per == l.per || t.state.Per == 0
}

// claim brings the tally of l up to date. A bucket's or a log's whose terms are not known
// may be that of several: l begins its own with what it says, and it stays beside, where
// it is beside others already or beyond the tolerance of l.
func (l *Limit) claim(t *tally, now int64) (r reading, stays bool) {
	r = reading{own: t.state, found: true, stale: t.since != 0}
	kind := 1 + uint8(l.Algorithm)
	stays = t.terms == unknownTerms && t.until > 0 && (isTAT(kind) || kind == kindSlidingLog)
	if isTAT(kind) {
		r.stale = r.stale || r.own.Kind != kind
		r.own.Kind = kind
		if backlog, moved := l.backlogAt(&r.own, now); moved {
			owed := r.own.A < 0
			l.saveTAT(&r.own, now, backlog)
			r.stale = true
			stays = stays || t.terms == unknownTerms && !owed
		}
	}
	if (t.terms != unknownTerms) == (l.Carry == CarryUsed) {
		r.own.Per = l.per // it will be written anew
	}
	switch {
	case t.since != 0:
		r.own = l.upToDate(&r.own, t.since, now, t.last)
	case r.own.isNone():
		r.own = State{}
	}
	return r, stays
}

// upToDate returns the state s of l with hits charged, or given back if they are
// negative, as if at last. A bucket may owe them, so that what others let pass delays
// it, but no more than one Period: nobody is to wait for longer than it remembers.
func (l *Limit) upToDate(s *State, hits, now, last int64) State {
	if !isTAT(s.Kind) {
		var room [mostUses + 1]made
		return l.counted(withSince(l.usesOf(s, now, last, room[:0]), hits, last), now)
	}
	backlog, _ := l.backlogAt(s, last)
	if hits < 0 {
		backlog = backlog.less(l.drainTime(-hits), l.den)
	} else {
		most := span{l.tolerance.whole + l.periodMicros, l.tolerance.part}
		if most.exceeds(l.owed) {
			most = l.owed
		}
		if backlog.exceeds(most) {
			most = backlog
		}
		backlog = l.filled(backlog, hits, most)
	}
	var after State
	if backlog != (span{}) {
		l.saveTAT(&after, last, backlog)
	}
	return after
}

// withSince adds hits made last to uses, or takes them from the latest if they are
// negative.
func withSince(uses []made, hits, last int64) []made {
	if hits > 0 {
		return slices.Insert(uses, 0, made{last, clampCount(hits)})
	}
	for i := range uses {
		taken := min(-hits, uses[i].hits)
		uses[i].hits -= taken
		hits += taken
	}
	return uses
}

// convertedMost returns what those of other limits that have not ended are to l by the
// one of which most comes, the first of equal ones.
func (l *Limit) convertedMost(all []tally, now, most int64) (own State) {
	weight := span{whole: -1}
	for i := range all {
		if all[i].ended(now) {
			continue
		}
		other := l.converted(&all[i], now, most)
		if l.Carry != CarryUsed {
			return other
		}
		if w := l.weightOf(&other, now); w.exceeds(weight) {
			own, weight = other, w
		}
	}
	return own
}

// weightOf returns how much of l a state is that counted has made: hits, or of a bucket
// the time in which it drains.
func (l *Limit) weightOf(s *State, now int64) span {
	switch s.Kind {
	case 0:
		return span{}
	case kindSlidingWindow:
		w, _ := l.slidingWindowAt(s, now)
		return span{whole: w.used(l.periodMicros)}
	case kindFixedWindow:
		return span{whole: s.B}
	case kindSubWindows:
		sum := int64(0)
		for _, hits := range s.Wide {
			sum += hits
		}
		return span{whole: sum}
	case kindSlidingLog:
		return span{whole: int64(len(s.Wide))}
	}
	backlog, _ := l.backlogAt(s, now)
	return backlog
}

// converted returns what another limit's tally is to l, of which it counts the latest
// hits, and no more than most.
func (l *Limit) converted(t *tally, now, most int64) State {
	same := t.state.Kind == 1+uint8(l.Algorithm) && t.terms == l.terms()
	var room [mostUses + 1]made
	uses := room[:0]
	switch known := t.terms != unknownTerms; {
	case known && !same && l.Carry == CarryNothing:
		return State{}
	case known && !same && l.Carry == CarryShare:
		return l.share(t, now)
	case known && isTAT(t.state.Kind):
		uses = append(uses, made{t.last, clampCount(t.terms.hitsIn(backlogOf(&t.state, t.last)))})
	default:
		uses = l.usesOf(&t.state, now, t.last, uses)
	}
	uses = withSince(uses, t.since, t.last)
	for i := range uses {
		uses[i].hits = min(uses[i].hits, most)
		most -= uses[i].hits
	}
	return l.counted(uses, now)
}

// hitsIn returns the hits of a bucket with these terms that a backlog stands for,
// rounded up.
func (t terms) hitsIn(backlog int64) int64 {
	if t.a < 1 || t.b < 1 {
		return 0
	}
	return muldivCeil(backlog, t.b, t.a)
}

// keptUntil returns until when to keep a tally of s that l has touched now, or another
// limit of which s does not say how far it looks back. It is while hits may be in the
// window that the limit looks back on, or a bucket is not empty.
func (l *Limit) keptUntil(s *State, now int64) int64 {
	kept := l.memory()
	if s.Per.micros() > 0 {
		kept = s.Per.micros()
	}
	switch {
	case s.Kind == kindSubWindows && len(s.Wide) > 0 && s.B > 0:
		kept = min(s.B, maxPeriodMicros) * int64(min(len(s.Wide), mostUses)-1)
	case s.Kind == kindSlidingLog && l.Algorithm != SlidingLog:
		kept = max(kept, logKept)
	case isTAT(s.Kind):
		kept = max(kept, min(backlogOf(s, now), maxPeriodMicros))
	}
	return now + kept + 1
}

// memory returns how long l looks back, in µs; of a calendar the most that it does.
func (l *Limit) memory() int64 {
	if l.Calendar != nil {
		return l.per.micros()
	}
	return l.lengthAt(0)
}

// write stores in s what r has become at now, when hits were charged to it or, below
// 0, given back.
func (l *Limit) write(s *State, r *reading, now, hits int64) {
	if len(r.beside) == 0 {
		l.pack(s, &r.own)
		return
	}
	own := r.own
	if hits < 0 && own.Kind != 0 && l.unusedAt(own, now) {
		own = State{}
	}
	if own.Kind == 0 {
		own = l.none()
	}
	own.Per = l.per
	mine := tally{state: own, terms: l.terms(), until: l.keptUntil(&own, now) + r.later}
	wide := mine.append(nil)
	if len(r.beside) == maxTallies {
		i := spare(r.beside)
		r.beside = slices.Delete(r.beside, i, i+1)
	}
	for i := range r.beside {
		t := &r.beside[i]
		t.since = min(max(t.since+hits, -maxCount), maxCount)
		wide = t.append(wide)
	}
	s.set(KindTallies, 0, 0, 0)
	s.Wide = wide
}

// unusedAt reports whether a state of l's form counts nothing.
func (l *Limit) unusedAt(s State, now int64) bool {
	as := *l
	as.form = formOf(&s)
	var d Decision
	DecideInPlace(&as, &s, Micros(now), 0, &d)
	return d.ResetAfter == 0
}

// none is the state of a tally that has counted nothing.
func (l *Limit) none() State {
	s := State{Kind: 1 + uint8(l.Algorithm)}
	if l.Algorithm == SubWindows {
		s.Wide = []int64{0} // there is no text without one
	}
	return s
}

func (s *State) isNone() bool {
	return s.A == 0 && s.B == 0 && s.C == 0 && (len(s.Wide) == 0 || s.Kind == kindSubWindows)
}

// append appends the words of t.
func (t *tally) append(wide []int64) []int64 {
	s := &t.state
	wide = append(wide, int64(s.Kind)|int64(s.Per)<<8, t.terms.capacity, t.terms.a, t.terms.b,
		s.A, s.B, s.C, t.until, t.since, int64(len(s.Wide)))
	return append(wide, s.Wide...)
}

// talliesOf appends the tallies in s, which share the memory of its Wide. What is no
// state that counts hits has none.
func talliesOf(s *State, all []tally) []tally {
	switch {
	case s.Kind == KindTerms:
		own := unpacked(s)
		if own.Kind == 0 || s.A < 0 {
			return all
		}
		return append(all, tally{state: own, terms: terms{s.A, s.B, s.C}})
	case s.Kind != KindTallies:
		if counts(s.Kind) {
			all = append(all, tally{state: *s, terms: unknownTerms})
		}
		return all
	}
	for wide := s.Wide; len(wide) >= tallyWords && len(all) < maxTallies; {
		n := wide[tallyWords-1]
		if n < 0 || n > int64(len(wide)-tallyWords) || !counts(uint8(wide[0])) {
			break
		}
		t := tally{
			state: State{Kind: uint8(wide[0]), Per: Per(wide[0] >> 8), A: wide[4], B: wide[5], C: wide[6]},
			terms: terms{wide[1], wide[2], wide[3]},
			until: max(wide[7], 1),
			since: min(max(wide[8], -maxCount), maxCount),
		}
		if t.terms.capacity < 0 {
			t.terms = unknownTerms
		}
		wide = wide[tallyWords:]
		if n > 0 {
			t.state.Wide = wide[:n:n]
		}
		all, wide = append(all, t), wide[n:]
	}
	return all
}

// talliesLast returns how long the tallies in s are to be kept after now, in µs; 0
// if it has none.
func talliesLast(s *State, now int64) int64 {
	last := int64(0)
	if s.Kind == KindTallies {
		var room [maxTallies]tally
		for _, t := range talliesOf(s, room[:0]) {
			last = max(last, t.until-now)
		}
	}
	return last
}
