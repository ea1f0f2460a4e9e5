package spread_test

import (
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/spread"
)

// Those that a denied group holds back are asked again in the same way, by which a part
// finds their buckets: with their mode, and as dry runs that take part in no group.
func TestHeldBackInADryRunKeepTheirMode(t *testing.T) {
	now := func() limit.Micros { return 1_780_000_000_000_000 }
	parts := []store.Store{open(t, now), open(t, now)}
	mode := &store.Mode{SubBuckets: 8}
	five, none := limit.Must(limit.PerMinute(5)), limit.Must(limit.PerMinute(0))
	takes := dry([]store.Take{
		{Key: []byte("passes"), Limit: five, Hits: 2, Group: 1, Mode: mode},
		{Key: []byte("denies"), Limit: none, Hits: 1, Group: 1, Mode: mode},
	})
	results := make([]store.Result, len(takes))
	peeks := 0
	spread.Plan{
		Part: func(i int) int { return i },
		Ask: func(asked []spread.Part) {
			for _, p := range asked {
				for _, take := range p.Takes {
					if take.Mode != mode || !take.DryRun {
						t.Errorf("asked %+v", take)
					}
					if take.Hits == 0 {
						peeks++
					}
				}
				parts[p.ID].Take(t.Context(), p.Takes, p.Results)
			}
		},
	}.Take(takes, results)
	if peeks != 1 || !results[0].Allowed || results[0].Remaining != 5 || results[1].Allowed {
		t.Errorf("after %d peeks: %+v", peeks, results)
	}
}
