package overload

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// maxInFlight bounds what may be in flight of each kind: a threshold fits 21
// bits, three of them one word.
const maxInFlight = 1<<21 - 1

// counts is what is in flight at one instant; critical is counted apart.
type counts struct {
	critical, others int64
}

// thresholds says how much may be in flight.
type thresholds struct {
	// upTo is, for each priority but P0, the number in flight of all priorities
	// at which it is shed; it falls, or stays, with the priority.
	upTo [Priorities]int64
	// critical is the number of critical requests in flight at which all are shed.
	critical int64
}

// admits decides for one request. A priority that is shed here takes all below
// it along: upTo falls with the priority, and where critical is full nobody
// passes.
func (t thresholds) admits(c counts, p Priority) Reason {
	switch {
	case c.critical >= t.critical:
		return HardCap
	case p == P0:
		return Admitted
	case c.critical+c.others >= t.upTo[p.index()]:
		return WorkerLimit
	}
	return Admitted
}

// packThresholds puts upTo into one word, which is read at once.
func packThresholds(upTo [Priorities]int64) uint64 {
	return uint64(upTo[P1]) | uint64(upTo[P2])<<21 | uint64(upTo[P3])<<42
}

func unpackThresholds(w uint64) [Priorities]int64 {
	return [Priorities]int64{
		P1: int64(w & maxInFlight),
		P2: int64(w >> 21 & maxInFlight),
		P3: int64(w >> 42 & maxInFlight),
	}
}

// gauge counts what is in flight, both kinds in one word, so that a decision
// sees them at the same instant and the bounds hold for any number of callers.
type gauge struct {
	word atomic.Uint64
}

const oneCritical = 1 << 32

func (g *gauge) load() counts {
	w := g.word.Load()
	return counts{critical: int64(w >> 32), others: int64(uint32(w))}
}

// enter counts one request if t admits it, and returns what was in flight
// before.
func (g *gauge) enter(t thresholds, p Priority) (counts, Reason) {
	for {
		w := g.word.Load()
		c := counts{critical: int64(w >> 32), others: int64(uint32(w))}
		if reason := t.admits(c, p); reason != Admitted {
			return c, reason
		}
		one := uint64(1)
		if p == P0 {
			one = oneCritical
		}
		if g.word.CompareAndSwap(w, w+one) {
			return c, Admitted
		}
	}
}

// leave counts one request less. A count never falls below zero: a ticket that
// is given back twice must not make the other count run over.
func (g *gauge) leave(p Priority) {
	for {
		w := g.word.Load()
		one, present := uint64(1), uint32(w) > 0
		if p == P0 {
			one, present = oneCritical, w >= oneCritical
		}
		if !present || g.word.CompareAndSwap(w, w-one) {
			return
		}
	}
}

// latencies sums the logarithms of latencies and their number in one word: 40
// bits of sum, in 1/1024 of a doubling, and 24 of number, enough for 16 million
// within an interval.
type latencies struct {
	word atomic.Uint64
}

func (l *latencies) add(ns int64) {
	l.word.Add(1<<40 | logOf(uint64(max(ns, 1))))
}

// number is how many were added since the last take.
func (l *latencies) number() int64 { return int64(l.word.Load() >> 40) }

// take returns the number and the geometric mean in nanoseconds of what was
// added since the last take; 0, 0 when nothing was.
func (l *latencies) take() (number int64, mean float64) {
	w := l.word.Swap(0)
	number = int64(w >> 40)
	if number == 0 {
		return 0, 0
	}
	return number, fromLog(float64(w&(1<<40-1)) / float64(number))
}

// logOf is 1024 times the logarithm to base 2, straight between powers of two:
// at most 0.09 of a doubling below the true one, monotone, and inverted by
// fromLog.
func logOf(n uint64) uint64 {
	whole := bits.Len64(n) - 1
	fraction := n << (63 - whole) << 1 >> 54
	return uint64(whole)<<10 | fraction
}

func fromLog(v float64) float64 {
	whole, fraction := math.Modf(v / 1024)
	return math.Ldexp(1+fraction, int(whole))
}
