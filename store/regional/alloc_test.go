package regional_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// What passes by rights that are held makes nothing.
func TestRightsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	inPlace(t, func(p *place) {
		takes := []store.Take{{Key: []byte("k"), Hits: 1, Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10_000_000, Period: time.Minute})}}
		results := make([]store.Result, 1)
		for p.store.Stats().Held < 10_000 {
			for range 3000 {
				p.store.Take(p.t.Context(), takes, results)
			}
			p.later(100 * time.Millisecond)
		}
		if n := alloctest.PerRun(1000, func() { p.store.Take(p.t.Context(), takes, results) }); n >= 1 {
			t.Errorf("%v allocations", n)
		}
		if results[0].Basis != store.OnAdvance {
			t.Error("it was not decided by rights")
		}
	})
}
