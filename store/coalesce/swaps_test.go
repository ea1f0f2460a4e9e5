package coalesce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/store"
)

// What concurrent callers are told of their swaps is what they would have been told one after
// the other, in the order of the flights.
func TestSwapsEqualOneAtATime(t *testing.T) {
	together := fixedStore(t)
	var (
		mu    sync.Mutex
		order []store.Swap // as they were asked
		most  int
	)
	c := New(Swaps(), func(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
		mu.Lock()
		defer mu.Unlock()
		together.Swap(ctx, swaps, answers)
		for _, one := range swaps {
			one.Key, one.Old, one.New = slices.Clone(one.Key), slices.Clone(one.Old), slices.Clone(one.New)
			order = append(order, one)
		}
		most = max(most, len(swaps))
		runtime.Gosched()
	}, Options{})
	// No two swaps have the same TTL: so it names the swap.
	const callers, rounds = 32, 60
	told := make([]store.Swapped, 1+callers*rounds*3)
	var group sync.WaitGroup
	for id := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(id), 11))
			for r := range rounds {
				first := 1 + (id*rounds+r)*3
				swaps := make([]store.Swap, 1+random.IntN(3))
				for i := range swaps {
					swaps[i] = store.Swap{Key: fmt.Appendf(nil, "key %d", random.IntN(20)), TTL: time.Duration(first+i) * time.Microsecond}
					if old := random.IntN(4); old > 0 {
						swaps[i].Old = fmt.Appendf(nil, "value %d", old)
					}
					if after := random.IntN(4); after > 0 {
						swaps[i].New = fmt.Appendf(nil, "value %d", after)
					}
				}
				if err := c.Ask(t.Context(), swaps, told[first:first+len(swaps)]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	alone := fixedStore(t)
	done := 0
	for i, one := range order {
		want := make([]store.Swapped, 1)
		alone.Swap(t.Context(), []store.Swap{one}, want)
		n := int(one.TTL / time.Microsecond)
		if got := told[n]; got.Done != want[0].Done || string(got.Found) != string(want[0].Found) || got.Left != want[0].Left || got.Err != nil {
			t.Fatalf("swap %d: got %+v, one at a time %+v", n, got, want[0])
		}
		if i > 0 && (n-1)%3 > 0 && order[i-1].TTL != one.TTL-time.Microsecond {
			t.Fatalf("swap %d stands apart from those of its caller", n)
		}
		if want[0].Done {
			done++
		}
	}
	if done == 0 || done == len(order) || most < 6 {
		t.Errorf("%d of %d were done, at most %d together: not all cases were met", done, len(order), most)
	}
}

// A caller that has gone may use its bytes again: a flight with several aboard has copies of
// keys and of values. That of its own alone needs none.
func TestSwapsAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inAir, land := make(chan []store.Swap), make(chan struct{})
		c := New(Swaps(), func(_ context.Context, swaps []store.Swap, _ []store.Swapped) {
			inAir <- swaps
			<-land
		}, Options{Flights: 1})
		var group sync.WaitGroup
		come := func(ctx context.Context, swap store.Swap) {
			group.Go(func() { _ = c.Ask(ctx, []store.Swap{swap}, make([]store.Swapped, 1)) })
			synctest.Wait()
		}
		come(t.Context(), store.Swap{Key: []byte("first")})
		<-inAir
		ctx, cancel := context.WithCancel(t.Context())
		come(t.Context(), store.Swap{Key: []byte("second"), New: []byte("a"), TTL: 1})
		gone := store.Swap{Key: []byte("third"), Old: []byte("before"), New: []byte("after"), TTL: 2}
		come(ctx, gone)
		land <- struct{}{}
		aboard := <-inAir
		cancel()
		synctest.Wait()
		for _, bytes := range [][]byte{gone.Key, gone.Old, gone.New} {
			for i := range bytes {
				bytes[i] = '!'
			}
		}
		if got, want := fmt.Sprintf("%s", aboard), "[{second  a 1ns} {third before after 2ns}]"; got != want {
			t.Errorf("aboard are %s, want %s", got, want)
		}
		land <- struct{}{}
		group.Wait()
	})
}

// No swap is like another, so each costs its part of a flight.
func TestSwapsAreNotAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		land := make(chan struct{})
		c := New(Swaps(), func(_ context.Context, swaps []store.Swap, _ []store.Swapped) {
			sizes = append(sizes, len(swaps))
			<-land
		}, Options{Flights: 1, MaxCost: 3})
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() { _ = c.Ask(t.Context(), []store.Swap{{Key: []byte("same")}}, make([]store.Swapped, 1)) })
		}
		synctest.Wait()
		close(land)
		group.Wait()
		if got, want := fmt.Sprint(sizes), "[1 3 3 1]"; got != want {
			t.Errorf("flights of %s swaps, want %s", got, want)
		}
	})
}

// Errors of callers that are not asked for are in their answers.
func TestSwapsAreRefused(t *testing.T) {
	c := New(Swaps(), func(context.Context, []store.Swap, []store.Swapped) { t.Error("asked") }, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers := []store.Swapped{{Done: true, Found: []byte("x"), Left: 1}}
	if err := c.Ask(ctx, make([]store.Swap, 1), answers); err == nil || answers[0].Err != err || answers[0].Done || answers[0].Found != nil {
		t.Errorf("%v, %+v", err, answers[0])
	}
}
