// Package stopwatch times calls, but not each of them: where calls are fast, to read the
// clock twice takes longer than all that is done with what they took.
package stopwatch

import "time"

// NotTimed is what a call took that was not timed.
const NotTimed time.Duration = -1

// Where a call was faster than fast, the next ones by the same Watch are not timed, up to
// one in oneOf. Whether a call is timed does not depend on how long it takes itself, so
// that those which are stand for the others.
const (
	fast  = 20 * time.Microsecond
	oneOf = 16
)

// epoch is what times are measured from: the time since then is read from the monotonic
// clock alone, which takes half as long as time.Now.
var epoch = time.Now()

// Watch times calls, one after another. The zero value times the next one.
type Watch struct {
	// skip is how many calls from now on are not timed.
	skip  int
	began time.Duration
	runs  bool
}

// Skips reports whether the next call is not timed, unless it is said to be timed.
func (w *Watch) Skips() bool { return w.skip > 0 }

// Start begins to time a call, if it is one that is timed; always says that it is.
func (w *Watch) Start(always bool) {
	if w.skip > 0 && !always {
		w.skip--
		return
	}
	w.runs, w.began = true, time.Since(epoch)
}

// Stop returns how long the call took, NotTimed where that was not measured.
func (w *Watch) Stop() time.Duration {
	if !w.runs {
		return NotTimed
	}
	took := time.Since(epoch) - w.began
	w.runs, w.skip = false, 0
	if took < fast {
		w.skip = oneOf - 1
	}
	return took
}
