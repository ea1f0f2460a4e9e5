package coalesce

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/store"
)

// A flight ends by the earliest deadline aboard, whenever its caller came.
func TestTheEarliestDeadlineAboardCounts(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	aboard := func(left time.Duration) *job[store.Take, store.Result] {
		return &job[store.Take, store.Result]{questions: make([]store.Take, 1), deadline: now.Add(left), load: Load{Cost: 1}}
	}
	var f flight[store.Take, store.Result]
	for _, left := range []time.Duration{15 * time.Millisecond, 20 * time.Millisecond, 12 * time.Millisecond, 14 * time.Millisecond} {
		if !f.join(aboard(left), now, 16) {
			t.Fatalf("no room for one with %v left", left)
		}
	}
	if want := now.Add(12 * time.Millisecond); !f.deadline.Equal(want) {
		t.Errorf("the flight ends after %v, want 12ms", f.deadline.Sub(now))
	}
	if f.join(aboard(25*time.Millisecond), now, 16) {
		t.Error("one with more than twice the time left is aboard")
	}
}

// A caller whose context ends while its results are being written stays until they
// are: it may read and reuse them as soon as Take returns.
func TestACallerStaysWhileItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inAir, land := make(chan struct{}), make(chan struct{})
		c := newTakes(func(context.Context, []store.Take, []store.Result) {
			inAir <- struct{}{}
			<-land
		}, Options{Flights: 1})
		take := func(ctx context.Context) error {
			return c.Ask(ctx, []store.Take{{Key: []byte("key"), Limit: perMinute, Hits: 1}}, make([]store.Result, 1))
		}
		go take(t.Context())
		<-inAir
		second := make(chan error, 1)
		go func() { second <- take(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		third := make(chan error, 1)
		go func() { third <- take(ctx) }()
		synctest.Wait()
		passenger := c.mu.waiting[1]
		land <- struct{}{}
		<-inAir // the second flies for the third
		if !passenger.state.CompareAndSwap(boarded, answered) {
			t.Fatal("the third is not aboard")
		}
		// Its results are being written from here on.
		cancel()
		synctest.Wait()
		select {
		case err := <-third:
			t.Fatalf("returned %v while its results were being written", err)
		default:
		}
		passenger.wake <- nil
		if err := <-third; err != nil {
			t.Errorf("an answered caller got %v", err)
		}
		land <- struct{}{}
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}
