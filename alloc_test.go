//go:build !race

// The race detector empties pools at random, so allocations are counted
// without it.

package headgate_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

func TestCheckAllocatesNothing(t *testing.T) {
	down := &recording{Store: memory(t), fails: func(t *store.Take) bool { return t.Limit.Quota == 2 }}
	for name, b := range map[string]*bench{
		"exact": newBench(t, orders, headgate.Options{}),
		"modes": newBench(t, "domain: d\ndescriptors: [{key: api_key, consistency: leased, rate_limit: {unit: minute, requests_per_unit: 5}}]", headgate.Options{}),
		// Independent, so that nothing has to be given back.
		"fallback": newBench(t, "consumption: independent\n"+strings.TrimSpace(localRules), headgate.Options{Store: down, Fallback: memory(t)}),
	} {
		requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:k,op:write"), on("api_key:j"), on("own:x"), on("a:x,b:y")}}}
		responses := make([]headgate.Response, 1)
		ctx := t.Context()
		if allocs := alloctest.PerRun(200, func() {
			if err := b.limiter.Check(ctx, requests, responses); err != nil {
				t.Fatal(err)
			}
		}); allocs != 0 {
			t.Errorf("%s: a decision allocates %v times, want 0", name, allocs)
		}
		if got := responses[0].Degraded() != store.NoReason; got != (name == "fallback") {
			t.Errorf("%s: degraded is %v", name, got)
		}
	}
}

// A request that holds a slot, by its own Hold or by an entry, may be banned and
// counts its time, and its renewal and release.
func TestHoldingAllocatesNothing(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 1000000}
  concurrency: {limit: 20, hold: request_id}
  secondary_limits: [{concurrency: 10, over: 1h}]
  ban: {after: 20, within: 1m, for: 15m}
  soft_limit: {at: 1%, action: delay, delay: 1s}
`, headgate.Options{})
	requests := []headgate.Request{
		{Domain: "d", Hold: 7, Descriptors: []headgate.Descriptor{on("user:u")}},
		{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u,request_id:6c1f7d1e-8d3c-4b92-a6a5-0a8c3f2d9b11")}},
		{Domain: "d", Hold: 7, Descriptors: []headgate.Descriptor{on("user:u")}},
		{Domain: "d", Hold: 7, Descriptors: []headgate.Descriptor{on("user:u")}},
	}
	requests[2].Turn(store.Renew, 0)
	requests[3].Turn(store.Release, 0)
	responses := make([]headgate.Response, len(requests))
	ctx := t.Context()
	if allocs := alloctest.PerRun(200, func() {
		if err := b.limiter.Check(ctx, requests, responses); err != nil {
			t.Fatal(err)
		}
		_ = responses[0].Delay()
	}); allocs != 0 {
		t.Errorf("a decision allocates %v times, want 0", allocs)
	}
	for i, want := range []bool{true, true, true, false} {
		if !responses[i].Allowed || (responses[i].Hold != 0) != want {
			t.Errorf("request %d: %+v", i, responses[i])
		}
	}
	if allocs := alloctest.PerRun(200, func() { limit.NewHold() }); allocs != 0 {
		t.Errorf("drawing a hold allocates %v times, want 0", allocs)
	}
}

func TestKeyedAllocatesNothing(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := headgate.NewKeyed(buckets, limit.Must(limit.PerMinute(2)))
	ctx := t.Context()
	if allocs := alloctest.PerRun(200, func() { k.Take(ctx, "user", 1) }); allocs != 0 {
		t.Errorf("a take allocates %v times, want 0", allocs)
	}
}

func TestDoorAllocatesNothing(t *testing.T) {
	b := newBench(t, rightsRules, headgate.Options{})
	door := b.limiter.Door(headgate.DoorOptions{Name: "front", Rights: headgate.Rights{Check: true}})
	requests, responses := bound(on("user:u"), on("slot:s")), make([]headgate.Response, 1)
	ctx := t.Context()
	if allocs := alloctest.PerRun(200, func() {
		if err := door.Check(ctx, requests, responses); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("a decision through a door allocates %v times, want 0", allocs)
	}
}
