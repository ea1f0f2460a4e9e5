//go:build !race

package headgate_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/tenant"
)

// tenantRequest is one request on the rules and accounts of TestI2, by which rules
// and quotas count on two levels.
func tenantRequest(t testing.TB, match string) (*headgate.Limiter, []headgate.Request) {
	t.Helper()
	b := newBench(t, "match: "+match+tenants, headgate.Options{})
	return b.limiter, []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:raised,op:write"), on("api_key:raised,op:read,path:/a")}}}
}

func TestTenantsAllocateNothing(t *testing.T) {
	for _, match := range []string{"path", "leaf"} {
		limiter, requests := tenantRequest(t, match)
		limiter.SetTenants(snapshot(t, tenantAccounts()...))
		responses := make([]headgate.Response, 1)
		ctx := t.Context()
		if allocs := alloctest.PerRun(200, func() {
			if err := limiter.Check(ctx, requests, responses); err != nil {
				t.Fatal(err)
			}
		}); allocs != 0 {
			t.Errorf("%s: a decision allocates %v times, want 0", match, allocs)
		}
		if got := responses[0].Verdicts[1].Source; got != tenant.FromOverride {
			t.Errorf("%s: the second verdict is from the %v", match, got)
		}
	}
}

// A rule with a schedule and a candidate, and a quota of a tenant that a schedule scales.
func TestSchedulesAndCandidatesAllocateNothing(t *testing.T) {
	b := newBench(t, nights, headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tenantAccounts()...))
	b.now = night
	requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u"), on("api_key:pro,op:write")}}}
	responses := make([]headgate.Response, 1)
	ctx := t.Context()
	denied := 0
	if allocs := alloctest.PerRun(200, func() {
		if err := b.limiter.Check(ctx, requests, responses); err != nil {
			t.Fatal(err)
		}
		if !responses[0].Allowed {
			denied++
		}
	}); allocs != 0 {
		t.Errorf("a decision allocates %v times, want 0", allocs)
	}
	if r := b.limiter.Candidates()[0]; denied == 0 || r.Decided == 0 || r.Added != 1 {
		t.Errorf("%d denied, %+v", denied, r)
	}
}

// BenchmarkTenants compares a decision by rules alone with one in which quotas of
// tenants take their place, two limits each.
func BenchmarkTenants(b *testing.B) {
	for _, with := range []bool{false, true} {
		name := "rules"
		if with {
			name = "tenants"
		}
		b.Run(name, func(b *testing.B) {
			limiter, requests := tenantRequest(b, "path")
			if with {
				limiter.SetTenants(snapshot(b, tenantAccounts()...))
			}
			requests[0].Descriptors = requests[0].Descriptors[:1]
			responses := make([]headgate.Response, 1)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if err := limiter.Check(ctx, requests, responses); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
