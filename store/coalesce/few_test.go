package coalesce

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
)

// While few callers are aboard nobody waits; when many are, those who come wait until there
// are few again, or fewer flights.
func TestNobodyWaitsForFew(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name  string
		few   int
		come  []time.Duration // when callers come
		back  []time.Duration // and when each is answered
		sizes string
	}{
		{"the third waits for one of two", 0, []time.Duration{0, ms, 2 * ms}, []time.Duration{10 * ms, 11 * ms, 20 * ms}, "[1 1 1]"},
		{"the fifth waits", 4, []time.Duration{0, ms, 2 * ms, 3 * ms, 4 * ms}, []time.Duration{10 * ms, 11 * ms, 12 * ms, 13 * ms, 20 * ms}, "[1 1 1 1 1]"},
		// Five leave together at 10 ms. Who comes then has to wait until all the others but
		// these are back.
		{"many aboard leave no place", 4,
			[]time.Duration{0, ms, 2 * ms, 3 * ms, 4 * ms, 5 * ms, 6 * ms, 7 * ms, 8 * ms, 10*ms + 1},
			[]time.Duration{10 * ms, 11 * ms, 12 * ms, 13 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 23 * ms},
			"[1 1 1 1 5 1]"},
		{"places are free again", 3,
			[]time.Duration{0, ms, 2 * ms, 3 * ms, 4 * ms, 5 * ms, 30 * ms, 31 * ms, 32 * ms},
			[]time.Duration{10 * ms, 11 * ms, 12 * ms, 20 * ms, 20 * ms, 20 * ms, 40 * ms, 41 * ms, 42 * ms},
			"[1 1 1 3 1 1 1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{lasts: 10 * ms}
				c := newTakes(s.fly, Options{Flights: 2, Few: tc.few})
				start := time.Now()
				var group sync.WaitGroup
				for id, after := range tc.come {
					group.Go(func() {
						_ = sleep.For(t.Context(), after)
						takes := []store.Take{{Key: fmt.Append(nil, id), Limit: perMinute, Hits: 1}}
						if err := c.Ask(t.Context(), takes, make([]store.Result, 1)); err != nil {
							t.Error(err)
						}
						if took := time.Since(start); took != tc.back[id] {
							t.Errorf("caller %d was answered after %v, want %v", id, took, tc.back[id])
						}
					})
				}
				group.Wait()
				if got := fmt.Sprint(s.sizes); got != tc.sizes {
					t.Errorf("flights of %s takes, want %s", got, tc.sizes)
				}
			})
		})
	}
}

// Callers who wait and may not leave together leave side by side, where there is room.
func TestAllWhoMayLeaveDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{lasts: time.Millisecond}
		c := newTakes(s.fly, Options{Flights: 1, Few: 2, MaxCost: 2})
		start := time.Now()
		var group sync.WaitGroup
		come := func(takes int, want time.Duration) {
			group.Go(func() {
				batch := make([]store.Take, takes)
				for i := range batch {
					batch[i] = store.Take{Key: []byte("key"), Limit: perMinute, Hits: 1}
				}
				if err := c.Ask(t.Context(), batch, make([]store.Result, takes)); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != want {
					t.Errorf("%d takes were answered after %v, want %v", takes, took, want)
				}
			})
			synctest.Wait()
		}
		const ms = time.Millisecond
		come(1, ms)
		come(1, ms)
		come(1, 2*ms) // these two together
		come(1, 2*ms)
		come(3, 3*ms) // each of these alone, but both at once
		come(4, 3*ms)
		group.Wait()
	})
}
