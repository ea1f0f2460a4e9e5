package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

// A quarter of the time left is kept for the answer, and 5 ms at most. Who has no time left
// gets none.
func TestAnswerBy(t *testing.T) {
	now := time.Now()
	if end, ok := store.AnswerBy(t.Context(), now); ok {
		t.Errorf("for a caller who waits for ever: %v", end)
	}
	for left, want := range map[time.Duration]time.Duration{
		-time.Second:          -time.Second,
		0:                     0,
		time.Millisecond:      750 * time.Microsecond,
		12 * time.Millisecond: 9 * time.Millisecond,
		20 * time.Millisecond: 15 * time.Millisecond,
		24 * time.Millisecond: 19 * time.Millisecond,
		time.Hour:             time.Hour - 5*time.Millisecond,
	} {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(left))
		if end, ok := store.AnswerBy(ctx, now); !ok || end.Sub(now) != want {
			t.Errorf("with %v left: %v %t, want %v", left, end.Sub(now), ok, want)
		}
		cancel()
	}
}

func TestWithBudget(t *testing.T) {
	const budget = 20 * time.Millisecond
	now := time.Now()
	for left, want := range map[time.Duration]time.Duration{
		8 * time.Millisecond: 6 * time.Millisecond, budget: 15 * time.Millisecond,
		24 * time.Millisecond: 19 * time.Millisecond, time.Minute: budget,
	} {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(left))
		bounded, end := store.WithBudget(ctx, now, budget)
		if until, _ := bounded.Deadline(); until.Sub(now) != want {
			t.Errorf("a caller who waits %v: %v, want %v", left, until.Sub(now), want)
		}
		end()
		cancel()
	}
	bounded, end := store.WithBudget(t.Context(), now, budget)
	defer end()
	if until, _ := bounded.Deadline(); until.Sub(now) != budget {
		t.Errorf("a caller who waits for ever: %v, want %v", until.Sub(now), budget)
	}
}
