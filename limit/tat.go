package limit

import (
	"math"
	"time"
)

// The calculus of the bucket family: token_bucket, leaky_bucket, leaky_queue
// and gcra are one and the same in different words, and their only state is the
// theoretical arrival time (TAT), the instant at which the bucket is as if
// unused. All of it is exact: with Period/Quota = num/den in lowest terms, a
// TAT is a number of whole microseconds A and B/den of another.
//
//	increment = hits*num/den               time in which the hits drain
//	TAT'      = max(now, TAT) + increment
//	allowed  iff  TAT' - now <= tolerance
//
// State: A is the whole part of the TAT in µs, B the numerator of the rest, in
// [0, den). When quota or period change so that B is no longer below den, A is
// rounded up and B dropped.
//
// A bucket that owes hits (Charge) has its TAT beyond the tolerance. A clock that
// stepped back makes it look so too; only what was charged on purpose is to be
// paid back. So A is negative, -1 times the whole part, when the bucket owed at
// its last change: such a TAT may be ahead by debtBursts tolerances and
// debtMicros more, or by what MaxDebt hits take to drain.
//
// A state of one algorithm of the family is one of all.

const (
	// debtBursts and debtMicros bound what a bucket owes: enough for every node
	// of a fleet to have passed a burst that the others did not know of, and for
	// what a slow exchange lets pass at a limit with next to no burst.
	debtBursts = 64
	debtMicros = 3_600_000_000
)

// span is a time of whole + part/den microseconds with 0 <= part < den, where
// den belongs to the limit.
type span struct{ whole, part int64 }

// exceeds reports whether a > b; both have the same den.
func (a span) exceeds(b span) bool {
	return a.whole > b.whole || (a.whole == b.whole && a.part > b.part)
}

// plus returns a + b.
func (a span) plus(b span, den int64) span {
	sum := span{a.whole + b.whole, a.part + b.part}
	if sum.part >= den {
		return span{sum.whole + 1, sum.part - den}
	}
	return sum
}

// less returns a - b, or 0 if that is negative.
func (a span) less(b span, den int64) span {
	if !a.exceeds(b) {
		return span{}
	}
	return a.minus(b, den)
}

// minus returns a - b.
func (a span) minus(b span, den int64) span {
	rest := span{a.whole - b.whole, a.part - b.part}
	if rest.part < 0 {
		return span{rest.whole - 1, rest.part + den}
	}
	return rest
}

// up returns the span rounded up to the microsecond.
func (a span) up() int64 {
	if a.part > 0 {
		return a.whole + 1
	}
	return a.whole
}

// drainTime returns the time in which hits drain, exactly.
func (l *Limit) drainTime(hits int64) span {
	switch hits {
	case 0:
		return span{}
	case 1:
		return l.emission
	}
	whole, part := muldivmod(hits, l.num, l.den)
	return span{whole, part}
}

// hitsIn returns how many hits drain in t, rounded down: floor(t*den/num).
func (l *Limit) hitsIn(t span) int64 {
	if l.den == 1 {
		hits, _ := l.byNum.divmod(t.whole)
		return hits
	}
	hits, rest := muldivmod(t.whole, l.den, l.num)
	if rest += t.part; rest >= l.num {
		hits += rest / l.num
	}
	return hits
}

// Owed returns how many hits a bucket that drains holds beyond its burst, at least, given
// the time until it is as if unused (Decision.ResetAfter, which is rounded up to the
// microsecond). It is 0 for other algorithms.
func (l *Limit) Owed(reset time.Duration) int64 {
	beyond := reset.Microseconds() - 1 - l.tolerance.whole
	if !l.Algorithm.IsBucket() || beyond <= 0 {
		return 0
	}
	hits, rest := muldivmod(beyond, l.den, l.num)
	if rest > l.tolerance.part {
		return hits + 1
	}
	return hits - (l.tolerance.part-rest)/l.num
}

// mostOwed is how far ahead of now the TAT of a bucket that owes may be: by its
// MaxDebt, or else by the constants above.
func (l *Limit) mostOwed() span {
	if l.MaxDebt > 0 {
		return l.tolerance.plus(l.drainTime(l.MaxDebt), l.den)
	}
	debt := min(debtBursts*l.tolerance.whole+debtMicros, maxDrain)
	return span{l.tolerance.whole + debt, l.tolerance.part}
}

// backlogAt reads TAT-now from s: how long the bucket needs to drain. It is
// never above the tolerance unless the bucket owes: a TAT further ahead was
// written by a clock that has stepped back, or under a larger burst, and is moved
// to the tolerance, so that the lock-out is bounded by one burst; what it was is kept
// beside (tally.go).
func (l *Limit) backlogAt(s *State, now int64) (backlog span, moved bool) {
	if s.Kind != 1+uint8(l.Algorithm) {
		return span{}, false
	}
	tat, most := s.A, l.tolerance
	if tat < 0 { // the bucket owed at its last change
		tat, most = -max(tat, -math.MaxInt64), l.owed
	}
	whole, part := clampStored(tat), max(s.B, 0)
	if part >= l.den {
		whole, part = whole+1, 0
	}
	if whole < now {
		return span{}, false
	}
	backlog = span{whole - now, part}
	if backlog.exceeds(most) {
		return most, true
	}
	return backlog, false
}

// saveTAT writes the TAT that is backlog after now.
func (l *Limit) saveTAT(s *State, now int64, backlog span) {
	tat := now + backlog.whole
	if backlog.exceeds(l.tolerance) {
		tat = -tat
	}
	s.set(1+uint8(l.Algorithm), tat, backlog.part, 0)
}

// decideTAT decides for the whole family. Remaining is how many hits more fit
// under the tolerance; RetryAfter is TAT'-tolerance-now and ResetAfter TAT-now,
// rounded up.
func decideTAT(l *Limit, s *State, now, hits int64, d *Decision) {
	backlog, moved := l.backlogAt(s, now)
	if moved && s.A > 0 && hits > 0 {
		decideForeign(l, s, now, hits, d)
		return
	}
	d.Limit = l.capacity
	if hits > l.capacity {
		d.Never = true
	} else {
		after := backlog.plus(l.drainTime(hits), l.den)
		if after.exceeds(l.tolerance) {
			d.RetryAfter = duration(after.minus(l.tolerance, l.den).up())
		} else {
			d.Allowed = true
			backlog = after
		}
	}
	if !backlog.exceeds(l.tolerance) {
		d.Remaining = l.hitsIn(l.tolerance.minus(backlog, l.den))
	}
	d.ResetAfter = duration(backlog.up())
	if hits > 0 && (d.Allowed || moved) {
		l.saveTAT(s, now, backlog)
	}
}

// refundTAT lowers the TAT by the drain time of the hits, but not below now.
func refundTAT(l *Limit, s *State, now, hits int64) {
	backlog, _ := l.backlogAt(s, now)
	if rest := backlog.less(l.drainTime(hits), l.den); rest != (span{}) {
		l.saveTAT(s, now, rest)
		return
	}
	*s = State{}
}

// chargeTAT raises the TAT by the drain time of the hits, past the tolerance if
// need be.
func chargeTAT(l *Limit, s *State, now, hits int64) {
	backlog, _ := l.backlogAt(s, now)
	l.saveTAT(s, now, l.filled(backlog, hits, l.owed))
}

// filled returns a backlog with hits poured in; what is more than most flows over.
func (l *Limit) filled(backlog span, hits int64, most span) span {
	if more := l.drainTime(hits); !more.exceeds(most) {
		if backlog = backlog.plus(more, l.den); !backlog.exceeds(most) {
			return backlog
		}
	}
	return most
}
