package overload

import (
	"math"
	"time"
)

// What the calculator of the worker shedder moves by. They are steps of one
// interval and not settings: the tests hold them together.
const (
	// minSamples is how many completions an interval needs to say something.
	minSamples = 20
	// maxHold is how many intervals one may be prolonged for want of them.
	maxHold = 10
	// leastGradient bounds what one interval can take off: half.
	leastGradient = 0.5
	// limitWeight is the weight of the newest interval in the limit, and
	// latencyWeight that in the latency.
	limitWeight   = 0.5
	latencyWeight = 0.3
	// overloadedShare of completions that were told to be overloaded makes the
	// gradient at most overloadedGradient, however fast they came.
	overloadedShare    = 0.05
	overloadedGradient = 0.8
	// floorIntervals at the floor are needed to forget the best latency, or a
	// limit that was halved and took off less than descentGain of the latency.
	floorIntervals = 5
	descentGain    = 0.2
	// probeIntervals of a probe: two to drain what waits, one to measure, at
	// probeShare of what is needed to keep the server busy.
	probeIntervals = 3
	probeShare     = 0.75
	// A probe that finds a best latency lower by probeGain is followed by
	// another one after probeSoon intervals: the first was not low enough.
	probeGain = 0.1
	probeSoon = 10
	// shedStep and restoreStep move the share of a priority within an interval.
	// Away in some ten intervals, back in some twenty.
	shedStep    = 0.1
	restoreStep = 0.04
	// calm is the part of the threshold above that may be filled while a share
	// is restored: between it and the threshold nothing moves.
	calm = 0.8
)

// restingShare is the part of the limit that each priority may fill when all is
// well. The steps between them are a reserve: a burst of one priority passes
// while the next lower one fills its part.
var restingShare = [Priorities]float64{P0: 1, P1: 1, P2: 0.9, P3: 0.8}

// sample is what one interval showed.
type sample struct {
	// elapsed since the last one.
	elapsed time.Duration
	// finished counts completions that say how fast the server is, latency is
	// the geometric mean of theirs in nanoseconds.
	finished int64
	latency  float64
	// waited is the mean time of these in a queue in nanoseconds, as far as the
	// fronts know it.
	waited float64
	// overloaded counts completions that were told to be overloaded.
	overloaded int64
	// peak is the most that was in flight.
	peak int64
	// arrived and shed count requests by priority.
	arrived, shed [Priorities]int64
}

// worker is the state of the worker shedder.
type worker struct {
	// limit of what may be in flight.
	limit float64
	// share of it that each priority may fill; falls, or stays, with the priority.
	share [Priorities]float64
	// latency smoothed over some three intervals, in nanoseconds; 0 is none yet.
	latency float64
	// best latency of this half of the window and of the one before, in
	// nanoseconds; 0 is none.
	best [2]float64
	// age of this half of the window.
	age time.Duration
	// atFloor counts intervals that were slow though the limit was at its floor.
	atFloor int
	// descent is the fall of the limit that is going on.
	descent descent
	// probing counts the intervals that are left of a probe, at probeLimit;
	// untilProbe is the time to the next one.
	probing    int
	probeLimit float64
	untilProbe time.Duration
	// probeSpares says that the probe leaves P1 the limit.
	probeSpares bool
}

// descent is a fall of the limit, which should take latency along.
type descent struct {
	// from is what was in flight at its begin; 0 is no descent. Not the limit,
	// which may have been far from used.
	from float64
	// worst latency since, in nanoseconds.
	worst float64
	age   time.Duration
}

func newWorker(o Options) worker {
	return worker{limit: float64(o.InitialLimit), share: restingShare, untilProbe: o.BaseWindow / 2}
}

// base is the best latency seen, in nanoseconds; 0 is none.
func (w worker) base() float64 {
	switch {
	case w.best[0] == 0:
		return w.best[1]
	case w.best[1] == 0:
		return w.best[0]
	}
	return min(w.best[0], w.best[1])
}

// next is the state after an interval that showed m. It reads no clock; o has
// its defaults.
func (w worker) next(o Options, m sample) worker {
	if w.probing == 0 {
		w = w.restored(o, m)
	}
	if m.finished == 0 && m.overloaded == 0 {
		return w
	}
	if w.probing > 0 {
		w = w.probed(o, m)
	} else {
		w = w.observed(m).moved(o, m)
	}
	return w.rotated(o, m).probes(o, m)
}

// observed takes the latency of m into the best one seen.
func (w worker) observed(m sample) worker {
	switch {
	case m.finished == 0:
		return w
	case w.latency == 0:
		w.latency = m.latency
	default:
		w.latency += latencyWeight * (m.latency - w.latency)
	}
	return w.lowered(w.latency)
}

// probed goes on with a probe. Its first intervals still show what waited before
// it; the last one counts alone, for an average would carry the queue into it.
func (w worker) probed(o Options, m sample) worker {
	w.probing--
	if m.finished == 0 || w.probing > 0 {
		return w
	}
	before := w.base()
	w.latency = m.latency
	if w = w.lowered(m.latency); w.base() < (1-probeGain)*before {
		w.untilProbe = probeSoon * o.Interval
	}
	return w
}

// lowered lowers the best latency of this half of the window to latency.
func (w worker) lowered(latency float64) worker {
	if w.best[0] == 0 || latency < w.best[0] {
		w.best[0] = latency
	}
	return w
}

// gradient is how the limit should change by what m showed, from leastGradient
// to 1, which is no congestion.
func (w worker) gradient(o Options, m sample) float64 {
	g := 1.0
	if base := w.base(); base > 0 && w.latency > 0 {
		fine := base + max((o.Tolerance-1)*base, float64(o.QueueTarget))
		g = min(g, fine/w.latency)
	}
	if m.waited > 0 && o.QueueTarget > 0 {
		g = min(g, float64(o.QueueTarget)/m.waited)
	}
	if float64(m.overloaded) > overloadedShare*float64(m.finished+m.overloaded) {
		g = min(g, overloadedGradient)
	}
	return max(g, leastGradient)
}

// moved is w with the limit that follows from m. A limit of which less than half
// is used says nothing and is left alone: then the server is not slow for want
// of a smaller one, nor does it need a larger one.
func (w worker) moved(o Options, m sample) worker {
	if float64(m.peak) < w.limit/2 {
		w.atFloor, w.descent = 0, descent{}
		return w
	}
	g := w.gradient(o, m)
	goal := g*w.limit + math.Sqrt(w.limit)
	w.limit += limitWeight * (goal - w.limit)
	w.limit = min(max(w.limit, float64(o.MinLimit)), float64(o.MaxInFlight))
	return w.rebased(o, m, g)
}

// rebased forgets the best latency where a lower limit does not help, for then
// it is not our queue but the server itself that has become slower. Critical
// traffic passes the limit; while it fills more of it than there is, the queue
// may be its own, and nothing is forgotten.
func (w worker) rebased(o Options, m sample, g float64) worker {
	if g == 1 || m.finished == 0 {
		w.atFloor, w.descent = 0, descent{}
		return w
	}
	var slower bool
	if w, slower = w.descended(m); !slower {
		w, slower = w.stuckAtFloor(o, m)
	}
	if slower {
		w.atFloor, w.descent = 0, descent{}
		w.best = [2]float64{w.latency, 0}
		w.age, w.untilProbe = 0, probeSoon*o.Interval
	}
	return w
}

// descended follows a fall of the limit and reports whether it has halved, for
// long enough to show, without taking latency along. By Little's law half as
// many in flight before a busy server wait half as long.
func (w worker) descended(m sample) (worker, bool) {
	if w.descent.from == 0 {
		w.descent.from = min(w.limit, float64(m.peak))
	}
	w.descent.worst = max(w.descent.worst, m.latency)
	w.descent.age += m.elapsed
	half := w.descent.from / 2
	if w.limit > half || w.descent.age < 3*time.Duration(m.latency) {
		return w, false
	}
	slower := m.latency > (1-descentGain)*w.descent.worst && float64(m.peak) <= w.descent.from
	w.descent = descent{}
	return w, slower
}

// stuckAtFloor reports whether latency is not fine though the limit has been at
// its floor for some intervals.
func (w worker) stuckAtFloor(o Options, m sample) (worker, bool) {
	// At a gradient of one half the limit settles at 4, where the square root
	// makes up for it, and comes near it only slowly.
	floor := max(float64(o.MinLimit), 4) + 1
	if w.limit > floor || float64(m.peak) > floor+1 {
		w.atFloor = 0
		return w, false
	}
	w.atFloor++
	return w, w.atFloor >= floorIntervals
}

// rotated lets the best latency grow old.
func (w worker) rotated(o Options, m sample) worker {
	w.age += m.elapsed
	if w.age >= o.BaseWindow/2 && w.best[0] > 0 {
		w.age = 0
		w.best = [2]float64{0, w.best[0]}
	}
	return w
}

// probes begins a probe when its time has come. A server under load shows no
// latency without a queue, so twice in a window the limit is lowered for an
// instant to where the queue drains and the server is still nearly busy: below
// what it needs by Little's law, which is the limit times the best latency over
// the present one.
func (w worker) probes(o Options, m sample) worker {
	w.untilProbe -= m.elapsed
	if w.untilProbe > 0 || w.latency == 0 {
		return w
	}
	w.untilProbe = o.BaseWindow / 2
	if float64(m.peak) < w.limit/2 {
		return w
	}
	w.probing = probeIntervals
	// While P1 is not shed, it and P0 do not fill the server, and without the
	// others there is no queue.
	w.probeSpares = !shedding(m.shed[P1], m.arrived[P1])
	w.probeLimit = max(float64(o.MinLimit), probeShare*w.limit*min(1, w.base()/w.latency))
	return w
}

// restored is w with the shares that follow from m: those of the lower
// priorities give way when a higher one was shed, and come back in small steps
// while the process has room.
func (w worker) restored(o Options, m sample) worker {
	steps := min(max(float64(m.elapsed)/float64(o.Interval), 1), 1/restoreStep)
	higherShed, higherArrived := m.shed[P1], m.arrived[P1]
	for p := P2; p <= P3; p++ {
		above := w.share[p-1]
		switch {
		case shedding(higherShed, higherArrived):
			w.share[p] -= shedStep
		case float64(m.peak) < calm*above*w.limit:
			w.share[p] += restoreStep * steps
		}
		w.share[p] = min(max(w.share[p], 0), restingShare[p], above)
		higherShed += m.shed[p]
		higherArrived += m.arrived[p]
	}
	return w
}

// shedding reports whether more than 1 % was shed.
func shedding(shed, arrived int64) bool {
	return float64(shed) > 0.01*float64(arrived)
}

// thresholds are the numbers in flight up to which each priority is admitted.
func (w worker) thresholds() [Priorities]int64 {
	var upTo [Priorities]int64
	for p := P1; p <= P3; p++ {
		limit := w.limit
		if w.probing > 0 && (p > P1 || !w.probeSpares) {
			limit = min(limit, w.probeLimit)
		}
		upTo[p] = int64(math.Round(w.share[p] * limit))
	}
	upTo[P1] = max(upTo[P1], 1)
	return upTo
}
