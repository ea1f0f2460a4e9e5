package headgate

import "time"

// NotTimed is what observers are told of a call that was not timed. Any negative time is
// one.
const NotTimed time.Duration = -1

// Two readings of the clock take longer than all that observers do with a decision in
// memory. So where a call was faster than fastCall, the next ones of its processor are
// not timed, up to one in timedOf. Whether a call is timed does not depend on how long it
// takes itself, so that those which are stand for the others.
const (
	fastCall = 20 * time.Microsecond
	timedOf  = 16
)

// epoch is what times are measured from: the time since then is read from the monotonic
// clock alone, which takes half as long as time.Now.
var epoch = time.Now()

// stopwatch times calls. The zero value times the next one.
type stopwatch struct {
	// skip is how many calls from now on are not timed.
	skip  int
	began time.Duration
	runs  bool
}

// start begins to time a call, if it is one that is timed; always says that it is, since
// its trace is recorded.
func (w *stopwatch) start(always bool) {
	if w.skip > 0 && !always {
		w.skip--
		return
	}
	w.runs, w.began = true, time.Since(epoch)
}

// traced reports whether a caller records a trace that one of the requests is part of.
func traced(requests []Request) bool {
	for i := range requests {
		if requests[i].Origin.Trace.Sampled {
			return true
		}
	}
	return false
}

// stop returns how long the call took, NotTimed where that was not measured.
func (w *stopwatch) stop() time.Duration {
	if !w.runs {
		return NotTimed
	}
	took := time.Since(epoch) - w.began
	w.runs, w.skip = false, 0
	if took < fastCall {
		w.skip = timedOf - 1
	}
	return took
}
