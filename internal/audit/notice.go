package audit

import (
	"time"

	"github.com/headgate/headgate/internal/view"
)

// notice is what an event is about that is about no request.
type notice interface {
	// event completes e, which has what all events have.
	event(e view.Event) view.Event
}

// noteAll leaves the event of n for Run; it counts as a decision that is always recorded. It
// never waits.
func (r *Recorder) noteAll(n notice) {
	if r.closing.Load() {
		r.refused.Add(1)
		return
	}
	rec := r.records.Get().(*record)
	*rec = record{text: rec.text[:0], asked: rec.asked[:0], askedText: rec.askedText[:0], notice: n}
	r.leave(rec)
}

// Outcomes of events about drills.
const (
	outcomeDrill      = "drill"
	outcomeDrillEnded = "drill_ended"
)

// Drill is what events tell of a drill that begins on this node, or has ended.
type Drill struct {
	// Fault is what is rehearsed, in words.
	Fault string
	// Until is when it ends by itself.
	Until time.Time
	// Actor is who has ordered it or ended it, Reason why.
	Actor, Reason string
	// Ended says that it has ended.
	Ended bool
}

// Drilled leaves the event of a drill for Run, as Raised does.
func (r *Recorder) Drilled(d Drill) { r.noteAll(&d) }

func (x *Drill) event(e view.Event) view.Event {
	e.Outcome, e.Allowed, e.Actor, e.Until = outcomeDrill, true, x.Actor, x.Until.UnixMilli()
	if x.Ended {
		e.Outcome = outcomeDrillEnded
	}
	e.Reason = x.Fault
	if x.Reason != "" {
		e.Reason += ": " + x.Reason
	}
	return e
}
