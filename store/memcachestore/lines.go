package memcachestore

import (
	"context"
	"slices"
	"sync/atomic"
)

// lineCount is the number of lines of a server.
const lineCount = 256

// lines are where the calls of this process wait that have lost a race for a
// bucket: one of them at a time tries again. Calls that race for none do not
// wait; those that come while others do, do.
type lines [lineCount]line

// line is a lock with a deadline. Several buckets share one.
type line struct {
	waiting atomic.Int32
	turn    chan struct{} // has room for one
}

func (l *lines) init() {
	for i := range l {
		l[i].turn = make(chan struct{}, 1)
	}
}

// of returns the line of a bucket.
func (l *lines) of(bucket uint64) *line { return &l[bucket%lineCount] }

// queue holds the turn of a call in several lines.
type queue struct {
	lines []*line
	held  int // of lines, in their order
}

// contended reports whether somebody waits in one of the lines.
func (q *queue) contended() bool {
	return slices.ContainsFunc(q.lines, func(l *line) bool { return l.waiting.Load() > 0 })
}

// join waits for the turn in all lines, from the first to the last, and reports
// whether it came before ctx ended. Everyone joins lines in one order.
func (q *queue) join(ctx context.Context) bool {
	for _, l := range q.lines[q.held:] {
		l.waiting.Add(1)
		select {
		case l.turn <- struct{}{}:
			q.held++
		case <-ctx.Done():
			l.waiting.Add(-1)
			return false
		}
	}
	return true
}

// leave gives all turns back.
func (q *queue) leave() {
	for _, l := range q.lines[:q.held] {
		<-l.turn
		l.waiting.Add(-1)
	}
	q.held = 0
}
