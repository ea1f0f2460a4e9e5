package store

import (
	"context"
	"time"
)

const (
	// answerPart is the part of the time left that is kept for the answer, as a divisor.
	answerPart = 4
	// maxAnswerTime bounds that: an answer needs no more, however long its caller waits.
	maxAnswerTime = 5 * time.Millisecond
)

// AnswerBy returns until when, at the latest, somebody may wait who at now begins to decide for
// the caller of ctx; ok is false if that caller waits for ever. It is a quarter of the time
// left, and 5 ms at most, before the deadline of ctx, because the answer by the failure mode
// has yet to reach the caller. A Store that waits for a server waits no longer than that.
func AnswerBy(ctx context.Context, now time.Time) (end time.Time, ok bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}, false
	}
	left := max(deadline.Sub(now), 0)
	return deadline.Add(-min(left/answerPart, maxAnswerTime)), true
}

// WithBudget returns ctx for who at now begins to decide for its caller, and may wait for a
// budget, or until AnswerBy if that is sooner.
func WithBudget(ctx context.Context, now time.Time, budget time.Duration) (context.Context, context.CancelFunc) {
	end := now.Add(budget)
	if by, ok := AnswerBy(ctx, now); ok && by.Before(end) {
		end = by
	}
	return context.WithDeadline(ctx, end)
}
