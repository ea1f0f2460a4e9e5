package headgate_test

import (
	"testing"

	"github.com/headgate/headgate"
)

// TestDetours: requests are known beforehand whose answers may take more than one trip to the
// store.
func TestDetours(t *testing.T) {
	const limit = "rate_limit: {unit: minute, requests_per_unit: 5}"
	for _, c := range []struct {
		rule string
		want bool
	}{
		{limit, false},
		{limit + ", secondary_limits: [{unit: hour, requests_per_unit: 50}]", false},
		{limit + ", ban: {after: 2, within: 1m, for: 2m}", true},
		{limit + ", concurrency: {limit: 1, hold: id}", true},
		{"unlimited: true", false},
	} {
		b := newBench(t, "domain: d\ndescriptors:\n- {key: a, "+c.rule+"}\n", headgate.Options{})
		door := b.limiter.Door(headgate.DoorOptions{})
		for domain, want := range map[string]bool{"d": c.want, "other": false} {
			req := &headgate.Request{Domain: domain, Descriptors: []headgate.Descriptor{on("a:1")}}
			if b.limiter.Detours(req) != want || door.Detours(req) != want {
				t.Errorf("%s in domain %s: %v, want %v", c.rule, domain, !want, want)
			}
		}
	}
	tenants := newBench(t, toppedRules, headgate.Options{})
	pooled := toppedUp("pooled")
	pooled.Tiers[0].Tier = "pool"
	tenants.limiter.SetTenants(beyond(t, toppedUp("plain"), toppedUp("topped", topUp("a", "", 2)), pooled))
	for text, want := range map[string]bool{"api_key:plain": false, "api_key:topped": true, "api_key:pooled": true, "plain:1": false, "api_key:nobody": false} {
		if got := tenants.limiter.Detours(&headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on(text)}}); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	none := newBench(t, "", headgate.Options{})
	if none.limiter.Detours(&headgate.Request{Domain: "d"}) {
		t.Error("without rules there is a detour")
	}
}
