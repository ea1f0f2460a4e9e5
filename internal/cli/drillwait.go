package cli

import (
	"time"

	"github.com/headgate/headgate/internal/drill"
)

const (
	// reportsFor bounds the wait for nodes that see whether all is back.
	reportsFor = 75 * time.Second
	// hearFor is within what nodes hear of the end, and partFor within what one that takes part
	// has said so, or has put back an order that the store has lost.
	hearFor, partFor = 3 * time.Second, 10 * time.Second
)

// drillWait is the wait for the end of the drill id. It reads no clock.
type drillWait struct {
	id string
	// began is when it was begun, or when it was tried last to end it because of nobody.
	began time.Time
	// known is when the store had the order last, over when it had ended first.
	known, over time.Time
}

// drillNext is what comes next for who waits.
type drillNext uint8

const (
	drillGoesOn drillNext = iota
	// drillDone: it is over, and the nodes have said all that is to be waited for.
	drillDone
	// drillGone: the store has lost it, and no node has put it back.
	drillGone
	// drillOfNobody: it lasts, and nobody takes part.
	drillOfNobody
)

// next says what comes next after w was seen at now.
func (d *drillWait) next(w *drill.Whole, now time.Time) drillNext {
	switch {
	case w.Order == nil || w.Order.ID != d.id:
		if now.Sub(d.known) >= partFor {
			return drillGone
		}
		return drillGoesOn
	case w.UnderWay && w.Nobody() && now.Sub(d.began) > partFor:
		d.known, d.began = now, now
		return drillOfNobody
	case !w.UnderWay && d.over.IsZero():
		d.over = now
	}
	d.known = now
	since := now.Sub(d.over)
	if !w.UnderWay && (since > reportsFor || since > hearFor && !waiting(w)) {
		return drillDone
	}
	return drillGoesOn
}

// waiting reports whether some node is not done.
func waiting(w *drill.Whole) bool {
	for i := range w.Nodes {
		if s := w.Nodes[i].State; s == drill.Running || s == drill.Healing {
			return true
		}
	}
	return false
}
