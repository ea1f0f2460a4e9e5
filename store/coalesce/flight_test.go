package coalesce

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// What was asked and answered is not kept for the next flight, nor is the room of large copies,
// nor who has waited.
func TestNothingIsKeptOfAFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		land := make(chan struct{})
		c := New(Swaps(), func(_ context.Context, _ []store.Swap, answers []store.Swapped) {
			<-land
			for i := range answers {
				answers[i] = store.Swapped{Found: []byte("found"), Left: 1}
			}
		}, Options{Flights: 1, MaxCost: 2})
		var group sync.WaitGroup
		for range 4 { // one alone, two together, one alone
			group.Go(func() {
				swap := store.Swap{Key: []byte("key"), New: bytes.Repeat([]byte("x"), keptBytes), TTL: 1}
				_ = c.Ask(t.Context(), []store.Swap{swap}, make([]store.Swapped, 1))
			})
		}
		synctest.Wait()
		close(land)
		group.Wait()
		if s := c.Stats(); s.Flights != 3 || s.Largest != 2 {
			t.Fatalf("counted %+v", s)
		}
		for _, j := range c.mu.waiting[:cap(c.mu.waiting)] {
			if j != nil {
				t.Error("one who has waited is kept")
			}
		}
		for _, f := range c.mu.idle {
			for _, q := range f.questions[:cap(f.questions)] {
				if q.Key != nil || q.New != nil {
					t.Errorf("a question is kept: %d bytes", len(q.New))
				}
			}
			for _, a := range f.answers[:cap(f.answers)] {
				if a.Found != nil {
					t.Errorf("an answer is kept: %+v", a)
				}
			}
			for _, j := range f.jobs[:cap(f.jobs)] {
				if j != nil {
					t.Error("one who was aboard is kept")
				}
			}
			if cap(f.room) > keptBytes {
				t.Errorf("room for %d bytes is kept", cap(f.room))
			}
		}
	})
}

// Copies are apart: what Fly appends to one does not change the next, and they have just the
// room that their load asks for.
func TestCopiesAreApart(t *testing.T) {
	swaps := []store.Swap{{Key: []byte("a"), Old: []byte("before"), New: []byte("after")}, {Key: []byte("b"), New: []byte("c")}}
	takes := []store.Take{{Key: []byte("first"), Limit: perMinute}, {Key: []byte("second"), Limit: perMinute}}
	l := Swaps().Weigh(swaps)
	copied, room := Swaps().Copy(nil, make([]byte, 0, l.Bytes), swaps)
	if len(room) != l.Bytes {
		t.Errorf("swaps have %d bytes, and weigh %d", len(room), l.Bytes)
	}
	for _, one := range copied {
		for _, part := range [][]byte{one.Key, one.Old, one.New} {
			_ = append(part, '!')
		}
	}
	if got, want := fmt.Sprintf("%s", copied), fmt.Sprintf("%s", swaps); got != want {
		t.Errorf("copies are %s, want %s", got, want)
	}
	ofTakes := Takes(func(*limit.Limit) int { return 1 })
	l = ofTakes.Weigh(takes)
	others, room := ofTakes.Copy(nil, make([]byte, 0, l.Bytes), takes)
	if len(room) != l.Bytes {
		t.Errorf("takes have %d bytes, and weigh %d", len(room), l.Bytes)
	}
	_ = append(others[0].Key, '!')
	if string(others[1].Key) != "second" {
		t.Errorf("a copy is %q after another one has grown", others[1].Key)
	}
}

// A flight has at most MaxQuestions, whatever they cost.
func TestMaxQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{lasts: time.Millisecond}
		c := newTakes(s.fly, Options{Flights: 1, MaxCost: 10 * MaxQuestions})
		var group sync.WaitGroup
		come := func(n int) {
			group.Go(func() {
				takes := make([]store.Take, n)
				for i := range takes {
					takes[i] = store.Take{Key: []byte(strings.Repeat("k", n)), Limit: perMinute, Hits: 1}
				}
				if err := c.Ask(t.Context(), takes, make([]store.Result, n)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		come(1)
		come(300)
		come(MaxQuestions - 300 + 1) // one too many
		come(MaxQuestions - 300)
		group.Wait()
		if got, want := fmt.Sprint(s.sizes), "[1 512 213]"; got != want {
			t.Errorf("flights of %s takes, want %s", got, want)
		}
	})
}

// A caller who goes before its own flight has left, in which nobody else is, asks nothing and
// is not answered afterwards.
func TestNobodyFliesForWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := newTakes(func(context.Context, []store.Take, []store.Result) { asked++ }, Options{Flights: 1})
		come := func(results []store.Result) (*job[store.Take, store.Result], *flight[store.Take, store.Result]) {
			j := c.jobs.Get().(*job[store.Take, store.Result])
			takes := []store.Take{{Key: []byte("key"), Limit: perMinute, Hits: 1}}
			j.board(t.Context(), takes, results, c.cargo.Weigh(takes))
			f, err := c.queue(j)
			if err != nil {
				t.Fatal(err)
			}
			return j, f
		}
		_, first := come(make([]store.Result, 1))
		results := make([]store.Result, 1)
		gone, _ := come(results)
		c.finish(first) // gone is to fly, and has not looked yet
		if !c.leave(gone) {
			t.Error("it may not leave")
		}
		synctest.Wait()
		if s := c.Stats(); asked != 0 || results[0] != (store.Result{}) || s.Left != 1 || c.mu.flights != 0 || c.mu.aboard != 0 {
			t.Errorf("asked %d times, answered %+v, %d in the air, %+v", asked, results[0], c.mu.flights, s)
		}
	})
}

// A flight of several goes on whoever of them goes away, with a deadline and without one.
func TestAFlightOutlastsItsCallers(t *testing.T) {
	for _, patience := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			inAir, land := make(chan context.Context), make(chan struct{})
			c := newTakes(func(ctx context.Context, _ []store.Take, _ []store.Result) {
				inAir <- ctx
				<-land
			}, Options{Flights: 1})
			var group sync.WaitGroup
			come := func() context.CancelFunc {
				ctx, cancel := context.WithCancel(t.Context())
				if patience > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), patience)
				}
				group.Go(func() {
					_ = c.Ask(ctx, []store.Take{{Key: []byte("key"), Limit: perMinute, Hits: 1}}, make([]store.Result, 1))
				})
				synctest.Wait()
				return cancel
			}
			first := come()
			<-inAir
			second, third := come(), come()
			land <- struct{}{}
			ctx := <-inAir
			second()
			third()
			synctest.Wait()
			if err := ctx.Err(); err != nil {
				t.Errorf("with %v: the flight of others has ended: %v", patience, err)
			}
			land <- struct{}{}
			group.Wait()
			first()
		})
	}
}
