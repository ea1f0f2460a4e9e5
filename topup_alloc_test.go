//go:build !race

package headgate_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/tenant"
)

// A denial costs a tenant without top-ups and without a pool neither memory nor a
// second question to the store; and who passes by them, no memory either.
func TestTopUpsAllocateNothing(t *testing.T) {
	endless := topUp("a", "", 1<<40)
	ended := endless
	ended.ID, ended.Term.From, ended.Term.Until = "z", noon.Add(-2*time.Hour), noon.Add(-time.Hour)
	ofWrites := topUp("w", writes, 9)
	pooled := toppedUp("pooled")
	pooled.Tiers[0].Tier = "pool"
	for who, want := range map[string]struct {
		source tenant.Source
		calls  int
	}{"other": {tenant.FromTier, 1}, "plain": {tenant.FromTier, 1}, "past": {tenant.FromTier, 1}, "topped": {tenant.FromTopUp, 2}, "pooled": {tenant.FromTier, 2}} {
		seen := &recording{}
		b := newBench(t, toppedRules, headgate.Options{Store: seen})
		b.limiter.SetTenants(beyond(t, toppedUp("plain"), toppedUp("topped", endless), toppedUp("past", ended, ofWrites), pooled))
		requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:" + who)}}}
		b.admitted("api_key:"+who, 20)
		responses, ctx := make([]headgate.Response, 1), t.Context()
		seen.calls = 0
		if err := b.limiter.Check(ctx, requests, responses); err != nil {
			t.Fatal(err)
		}
		if v := responses[0].Verdicts[0]; v.Source != want.source || v.Decision.Allowed != v.Source.Beyond() || seen.calls != want.calls {
			t.Errorf("%s: %s in %d calls", who, answered(&responses[0]), seen.calls)
		}
		if allocs := alloctest.PerRun(200, func() {
			if err := b.limiter.Check(ctx, requests, responses); err != nil {
				t.Fatal(err)
			}
		}); allocs != 0 {
			t.Errorf("%s: a decision allocates %v times, want 0", who, allocs)
		}
	}
}
