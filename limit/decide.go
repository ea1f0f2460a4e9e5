package limit

import "time"

// The kinds of State: 1 + Algorithm.
const (
	kindSlidingWindow = 1 + uint8(SlidingWindow)
	kindFixedWindow   = 1 + uint8(FixedWindow)
	kindSubWindows    = 1 + uint8(SubWindows)
	kindSlidingLog    = 1 + uint8(SlidingLog)
	kindConcurrency   = 1 + uint8(Concurrency)
	kindBan           = 1 + uint8(Ban)
)

// Decide says whether hits may pass at now, given what state holds, and
// returns the state to store. It is total and deterministic: every Limit made
// by New, every State, every now and every hits has an answer; hits outside
// [0, MaxQuota] count as the nearest end of that range, instants before 1970 or
// after 2112 as the nearest end of that one. hits == 0 is a peek. Hits take no slot
// of concurrency (see Acquire) and are no denials that lead to a ban (see Charge):
// there Decide only tells.
//
// A peek returns state unchanged, and so does a denial, unless the limit counts
// denied hits. There is one exception: when state cannot be of this clock or is
// not in terms of this limit (an instant so far ahead that the clock must have
// stepped back, a bucket fuller than its burst, parts of another length, windows of
// another period, another algorithm), a
// denial too returns it in the terms in which it was judged. Not storing that
// would judge it so again, later, and lock the bucket out.
func Decide(l *Limit, s State, now Micros, hits int64) (_ State, d Decision) {
	DecideInPlace(l, &s, now, hits, &d)
	return s, d
}

// DecideInPlace is Decide with the state to store written over s and the
// decision into d, for stores that have both in memory: copying structs that
// have just been written in parts costs more than deciding. The caller clears d.
func DecideInPlace(l *Limit, s *State, now Micros, hits int64, d *Decision) {
	at := clampInstant(int64(now))
	hits = min(max(hits, 0), MaxQuota)
	if f := formOf(s); f != l.form && f != l.unused {
		decideForeign(l, s, at, hits, d)
		return
	}
	switch l.Algorithm {
	case FixedWindow:
		decideFixedWindow(l, s, at, hits, d)
	case SubWindows:
		decideSubWindows(l, s, at, hits, d)
	case SlidingLog:
		decideSlidingLog(l, s, at, hits, d)
	case TokenBucket, LeakyBucket, GCRA:
		decideTAT(l, s, at, hits, d)
	case LeakyQueue:
		decideLeakyQueue(l, s, at, hits, d)
	case Concurrency:
		decideConcurrency(l, s, at, hits, d)
	case Ban:
		decideBan(l, s, at, hits, d)
	default:
		decideSlidingWindow(l, s, at, hits, d)
	}
}

// set writes a state that is not wide.
func (s *State) set(kind uint8, a, b, c int64) {
	s.Kind, s.Per, s.A, s.B, s.C = kind, 0, a, b, c
	s.Wide = nil
}

// Refund gives hits back, to a ban denials, and returns the state to store and what a peek would
// say of it. It never makes a bucket emptier than unused and never fails. What
// has expired since it was charged cannot be given back, no refund lifts a ban, and
// slots of concurrency are given back by Release.
func Refund(l *Limit, s State, now Micros, hits int64) (State, Decision) {
	if hits < 1 || l.Algorithm == Concurrency {
		return Decide(l, s, now, 0)
	}
	at := clampInstant(int64(now))
	hits = min(hits, MaxQuota)
	r := l.read(&s, at)
	r.detach()
	refund(l, &r.own, at, hits)
	l.write(&s, &r, at, -hits)
	s, d := Decide(l, s, now, 0)
	if d.ResetAfter == 0 && s.Kind != KindTallies {
		s = State{}
	}
	return s, d
}

func refund(l *Limit, s *State, now, hits int64) {
	switch l.Algorithm {
	case FixedWindow:
		refundFixedWindow(l, s, now, hits)
	case SubWindows:
		refundSubWindows(l, s, now, hits)
	case SlidingLog:
		refundSlidingLog(l, s, now, hits)
	case TokenBucket, LeakyBucket, LeakyQueue, GCRA:
		refundTAT(l, s, now, hits)
	case Ban:
		refundBan(l, s, now, hits)
	default:
		refundSlidingWindow(l, s, now, hits)
	}
}

// Lifetime returns how long s must be kept after now so that dropping it then
// changes no decision, rounded up to the microsecond, and 0 if it may be dropped
// at once; stores add a margin. It is the ResetAfter of a peek, or longer where s holds
// the tallies of several limits.
func Lifetime(l *Limit, s State, now Micros) time.Duration {
	_, d := Decide(l, s, now, 0)
	return max(d.ResetAfter, duration(talliesLast(&s, clampInstant(int64(now)))))
}
