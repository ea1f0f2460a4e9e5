//go:build !race

package coalesce

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

func instant(_ context.Context, _ []store.Take, results []store.Result) {
	for i := range results {
		results[i] = store.Result{Decision: limit.Decision{Allowed: true}}
	}
	runtime.Gosched()
}

// crew is callers that take once each time they are told to.
type crew struct {
	start []chan struct{}
	done  sync.WaitGroup
}

func newCrew(t testing.TB, c *Coalescer[store.Take, store.Result], size int) *crew {
	crew := &crew{start: make([]chan struct{}, size)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	for id := range crew.start {
		crew.start[id] = make(chan struct{})
		t.Cleanup(func() { close(crew.start[id]) })
		go func() {
			takes := []store.Take{{Key: fmt.Appendf(nil, "key %d", id), Limit: perMinute, Hits: 1}}
			results := make([]store.Result, 1)
			for range crew.start[id] {
				if err := c.Ask(ctx, takes, results); err != nil || !results[0].Allowed {
					t.Errorf("%+v, %v", results[0], err)
				}
				crew.done.Done()
			}
		}()
	}
	return crew
}

func (c *crew) takeOnce() {
	c.done.Add(len(c.start))
	for _, start := range c.start {
		start <- struct{}{}
	}
	c.done.Wait()
}

func TestTakeDoesNotAllocate(t *testing.T) {
	c := newTakes(instant, Options{MaxCost: 8})
	takes, results := []store.Take{{Key: []byte("key"), Limit: perMinute, Hits: 1}}, make([]store.Result, 1)
	alone := alloctest.PerRun(1000, func() {
		if err := c.Ask(context.Background(), takes, results); err != nil {
			t.Error(err)
		}
	})
	if alone != 0 {
		t.Errorf("a caller alone costs %v allocations", alone)
	}
	crew := newCrew(t, c, 20)
	crew.takeOnce()
	before := c.Stats()
	// Pools that the collector empties are filled again: less than one for a
	// round of twenty.
	if n := alloctest.PerRun(2000, crew.takeOnce); n > 0 {
		t.Errorf("twenty callers cost %v allocations", n)
	}
	if s := c.Stats(); s.Flights-before.Flights >= s.Callers-before.Callers {
		t.Errorf("nobody shared a flight: %+v", s)
	}
}

// BenchmarkTake is what joining costs, with a store that costs nothing.
func BenchmarkTake(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := newTakes(instant, Options{})
			b.ReportAllocs()
			b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
			b.RunParallel(func(pb *testing.PB) {
				takes, results := []store.Take{{Key: []byte("key"), Limit: perMinute, Hits: 1}}, make([]store.Result, 1)
				for pb.Next() {
					if err := c.Ask(context.Background(), takes, results); err != nil {
						b.Error(err)
					}
				}
			})
			s := c.Stats()
			b.ReportMetric(float64(s.Questions)/float64(s.Flights), "takes/flight")
		})
	}
}
