//go:build !race

// The race detector empties pools at random, so allocations are counted
// without it.

package accuracy_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
)

// Measuring allocates nothing, whether a key is sampled or not, unless that takes one more
// call: where limits decide together, and to put a reference right.
func TestMeasuringAllocatesNothing(t *testing.T) {
	for _, share := range []float64{1e-12, 1} {
		b := newBench(t, "domain: d\nconsumption: independent\ndescriptors: [{key: api_key, rate_limit: &l {unit: minute, requests_per_unit: 1000000}, descriptors: [{key: op, rate_limit: *l}]}]",
			share, headgate.Options{})
		requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:k,op:write"), on("api_key:j")}}}
		responses := make([]headgate.Response, 1)
		ctx := t.Context()
		if allocs := alloctest.PerRun(200, func() {
			if err := b.limiter.Check(ctx, requests, responses); err != nil {
				t.Fatal(err)
			}
		}); allocs != 0 {
			t.Errorf("a share of %v: a decision allocates %v times, want 0", share, allocs)
		}
	}
}
