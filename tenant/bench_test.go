package tenant_test

import (
	"fmt"
	"iter"
	"runtime"
	"testing"

	"github.com/headgate/headgate/tenant"
)

// many yields accounts with a tier and one override each.
func many(n int) iter.Seq[tenant.Account] {
	raised := quota(70)
	return func(yield func(tenant.Account) bool) {
		for i := range n {
			if !yield(tenant.Account{
				Subject:   key(fmt.Sprintf("%022d", i)),
				Tiers:     []tenant.Assignment{{Tier: "pro"}},
				Overrides: []tenant.Override{{Descriptor: "endpoint:POST /v1/orders", Quota: raised}},
			}) {
				return
			}
		}
	}
}

// BenchmarkSnapshot loads a million accounts; B/account is what they keep.
func BenchmarkSnapshot(b *testing.B) {
	const n = 1_000_000
	tiers := mustTiers(b)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var s *tenant.Snapshot
	for b.Loop() {
		s = tenant.NewSnapshot(tiers, many(n))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/account")
	runtime.KeepAlive(s)
}

func BenchmarkWith(b *testing.B) {
	s := tenant.NewSnapshot(mustTiers(b), many(1_000_000))
	changed := tenant.Account{Subject: key("0000000000000000000007"), Tiers: []tenant.Assignment{{Tier: "free"}}}
	for b.Loop() {
		s = s.With(changed)
	}
}

func BenchmarkResolve(b *testing.B) {
	s := tenant.NewSnapshot(mustTiers(b), many(1_000_000))
	rest, subject := orders(), key("0000000000000000000007")
	for b.Loop() {
		s.Resolve(subject, rest, 0)
	}
}
