package turns

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
)

// takes has a turn of its own that lasts, and returns how long it waited for that and whether it
// had a place.
func takes(ctx context.Context, places *Turns, lasts time.Duration) (waited time.Duration, had bool) {
	var turn Turn
	defer turn.End()
	start := time.Now()
	turn.Take(ctx, places)
	waited, had = time.Since(start), turn.of != nil
	_ = sleep.For(context.WithoutCancel(ctx), lasts)
	return waited, had
}

// free returns how many of n places are free.
func free(places *Turns, n int) (found int) {
	for ; found < n && places.places.TryAcquire(1); found++ {
	}
	places.places.Release(int64(found))
	return found
}

func TestPlacesForABudget(t *testing.T) {
	for _, tc := range []struct {
		budget time.Duration
		want   int // for each processor
	}{
		{time.Millisecond, 64},
		{6400 * time.Microsecond, 64},
		{20 * time.Millisecond, 200},
		{time.Second, 10_000},
	} {
		want := tc.want * runtime.GOMAXPROCS(0)
		if got := free(New(tc.budget), want+1); got != want {
			t.Errorf("%v: %d places, want %d", tc.budget, got, want)
		}
	}
}

// Who comes when all places are taken waits for the first that is given back.
func TestOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		places := newTurns(2)
		var all sync.WaitGroup
		come := func(lasts, wait time.Duration) {
			all.Go(func() {
				if waited, had := takes(t.Context(), places, lasts); waited != wait || !had {
					t.Errorf("turn of %v: waited %v, want %v; place: %t", lasts, waited, wait, had)
				}
			})
			synctest.Wait()
		}
		come(10*ms, 0)
		come(13*ms, 0)
		come(5*ms, 10*ms) // until 15
		come(1*ms, 13*ms) // until 14
		come(7*ms, 14*ms)
		come(6*ms, 15*ms)
		if got := places.Stats(); got != (Stats{Waiting: 4, Waited: 4}) {
			t.Errorf("at first %+v", got)
		}
		all.Wait()
		if got := places.Stats(); got != (Stats{Waited: 4}) {
			t.Errorf("at the end %+v", got)
		}
		if n := free(places, 3); n != 2 {
			t.Errorf("%d places are free at the end, want 2", n)
		}
	})
}

// Who has gone waits no longer, and gives back nothing.
func TestWhoHasGoneWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := newTurns(1)
		var there Turn
		there.Take(t.Context(), places)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if waited, had := takes(ctx, places, 0); waited != time.Millisecond || had {
			t.Errorf("waited %v, place: %t", waited, had)
		}
		if n := free(places, 1); n != 0 {
			t.Errorf("%d places are free, want none", n)
		}
	})
}

// What goes on after the end takes no place: nobody would give it back.
func TestNothingIsTakenAfterTheEnd(t *testing.T) {
	places := newTurns(1)
	var over Turn
	over.End()
	over.Take(t.Context(), places)
	if n := free(places, 2); n != 1 {
		t.Errorf("%d places are free, want 1", n)
	}
}

// Several goroutines that decide for one request take one place.
func TestOneRequestHasOnePlace(t *testing.T) {
	places := newTurns(4)
	var one Turn
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { one.Take(t.Context(), places) })
	}
	all.Wait()
	if n := free(places, 5); n != 3 {
		t.Errorf("%d places are free, want 3", n)
	}
	one.End()
	one.End()
	if n := free(places, 5); n != 4 {
		t.Errorf("%d places are free at the end, want 4", n)
	}
}

// Who rests has no place, and gets the next one when it goes on.
func TestWhoRestsHasNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := newTurns(1)
		ctx, end := places.Begin(t.Context())
		store.Rests(ctx) // there is nothing to give back
		store.Waits(ctx)
		if n := free(places, 2); n != 0 {
			t.Errorf("%d places are free while it waits for the store, want none", n)
		}
		store.Rests(ctx)
		store.Rests(ctx)
		if n := free(places, 2); n != 1 {
			t.Errorf("%d places are free while it rests, want 1", n)
		}
		var other Turn
		other.Take(t.Context(), places)
		goesOn := false
		go func() {
			store.Waits(ctx)
			goesOn = true
		}()
		if synctest.Wait(); goesOn {
			t.Error("it goes on without a place")
		}
		other.End()
		if synctest.Wait(); !goesOn || free(places, 2) != 0 {
			t.Error("it does not go on when there is a place")
		}
		end()
		store.Rests(ctx)
		if n := free(places, 2); n != 1 {
			t.Errorf("%d places are free at the end, want 1", n)
		}
	})
}

func TestNilHasPlacesForAll(t *testing.T) {
	if _, had := takes(t.Context(), nil, 0); had {
		t.Error("there is a place of nobody")
	}
}
