package quotas

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// BenchmarkFile writes and reads a million accounts with a tier and an override each.
func BenchmarkFile(b *testing.B) {
	const n = 1_000_000
	l := limit.Must(limit.PerMinute(70))
	quota := &tenant.Quota{Limits: []tenant.Limit{{Limit: l, Name: tenant.LimitName(tenant.Default, l)}}}
	accounts := func(yield func(tenant.Account) bool) {
		for i := range n {
			if !yield(tenant.Account{
				Subject: tenant.Subject{Key: apiKeyEntry, Value: fmt.Sprintf("%022d", i)},
				Tiers:   []tenant.Assignment{{Tier: "pro"}}, Overrides: []tenant.Override{{Quota: quota}},
			}) {
				return
			}
		}
	}
	s := tenant.NewSnapshot(new(tenant.Tiers), accounts)
	path := filepath.Join(b.TempDir(), "accounts.jsonl")
	var writing, reading time.Duration
	for b.Loop() {
		start := time.Now()
		if err := WriteFile(path, s, Head{}); err != nil {
			b.Fatal(err)
		}
		written := time.Now()
		list, _, err := ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		if s := tenant.NewSnapshot(new(tenant.Tiers), slices.Values(list)); s.Len() != n {
			b.Fatalf("%d accounts", s.Len())
		}
		writing, reading = written.Sub(start), time.Since(written)
	}
	b.ReportMetric(writing.Seconds(), "s/write")
	b.ReportMetric(reading.Seconds(), "s/read")
}
