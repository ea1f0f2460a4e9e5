//go:build !race

// The race detector empties pools at random, so allocations are counted
// without it.

package headgate_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

func TestCheckAllocatesNothing(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:k,op:write"), on("api_key:j")}}}
	responses := make([]headgate.Response, 1)
	ctx := t.Context()
	if allocs := testing.AllocsPerRun(200, func() {
		if err := b.limiter.Check(ctx, requests, responses); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("a decision allocates %v times, want 0", allocs)
	}
}

func TestKeyedAllocatesNothing(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := headgate.NewKeyed(buckets, limit.Must(limit.PerMinute(2)))
	ctx := t.Context()
	if allocs := testing.AllocsPerRun(200, func() { k.Take(ctx, "user", 1) }); allocs != 0 {
		t.Errorf("a take allocates %v times, want 0", allocs)
	}
}
