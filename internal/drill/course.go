package drill

import (
	"fmt"
	"time"
)

const (
	// damageOver is the time over which the share of errors is taken, and damageOf how
	// many requests it takes for one: a single error among three says nothing.
	damageOver, damageOf = 10 * time.Second, 20
	// damageSteps bounds the samples that are kept for that.
	damageSteps = 128
)

// Sample is how many requests a node has decided since its drill began, and how many of them
// were errors.
type Sample struct{ Decided, Errors uint64 }

// Course is a drill on one node. It goes by a monotonic clock, so that no step of the wall
// clock and no silence of the admin process makes it last longer.
type Course struct {
	lasts      time.Duration // from its begin here
	abortAbove float64
	samples    []timed // of the last damageOver, the oldest first
}

type timed struct {
	at time.Duration // since the begin
	Sample
}

// NewCourse begins o on a node that has heard of it at heard, by the wall clock of the node.
// A node that hears late lasts shorter by that, and never longer than the order says,
// whatever its wall clock is. ok is false where nothing is left.
func NewCourse(o *Order, heard time.Time) (c *Course, ok bool) {
	late := min(max(heard.Sub(o.BeganAt), 0), o.Lasts())
	c = &Course{lasts: o.Lasts() - late, abortAbove: o.AbortAbove, samples: []timed{{}}}
	return c, c.lasts > 0
}

// Left is how long it still lasts after it has lasted for that long, 0 where it is over.
func (c *Course) Left(lasted time.Duration) time.Duration { return max(c.lasts-lasted, 0) }

// Step says whether the drill ends after it has lasted for that long, and why; s is what has
// been counted by then. Steps come in their order.
func (c *Course) Step(lasted time.Duration, s Sample) (why Why, detail string) {
	if lasted >= c.lasts {
		return Expired, ""
	}
	c.note(lasted, s)
	first := c.samples[0]
	decided, errors := s.Decided-first.Decided, s.Errors-first.Errors
	if decided < damageOf || float64(errors) <= c.abortAbove*float64(decided) {
		return "", ""
	}
	return Aborted, fmt.Sprintf("%d of %d requests were errors within %v, more than %s", errors, decided,
		(lasted - first.at).Round(time.Millisecond), Percent(c.abortAbove))
}

// note keeps a sample, and forgets those that are older than need be.
func (c *Course) note(lasted time.Duration, s Sample) {
	old := 0
	for old+1 < len(c.samples) && c.samples[old+1].at <= lasted-damageOver {
		old++
	}
	c.samples = append(c.samples[:0], c.samples[old:]...)
	if len(c.samples) < damageSteps {
		c.samples = append(c.samples, timed{lasted, s})
		return
	}
	c.samples[len(c.samples)-1] = timed{lasted, s}
}

// Percent is a share as people read it, such as "1%".
func Percent(share float64) string { return fmt.Sprintf("%.4g%%", 100*share) }
