package sqltenant_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// BenchmarkLoad reads a million accounts with a tier and an override each, as a node
// does that starts. B/account is what they keep, peak-MB what the process took of
// the system while it read.
func BenchmarkLoad(b *testing.B) {
	const n = 1_000_000
	b.Run("sqlite", func(b *testing.B) { benchmarkLoad(b, "sqlite://"+filepath.Join(b.TempDir(), "tenants.db"), n) })
	b.Run("postgres", func(b *testing.B) { benchmarkLoad(b, testserver.Postgres(b).DSN, n) })
}

func benchmarkLoad(b *testing.B, dsn string, n int) {
	db := open(b, dsn)
	numbers := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)`, n)
	for _, statement := range []string{
		`INSERT INTO accounts (subject_key, subject, last4, version, updated_at) ` + numbers + ` SELECT 'api_key', 'abcdefghijklmnop' || (i + 100000000), 'wxyz', i, 1 FROM n`,
		`INSERT INTO account_tiers (subject_key, subject, tier, effective_at) ` + numbers + ` SELECT 'api_key', 'abcdefghijklmnop' || (i + 100000000), 'pro', 0 FROM n`,
		`INSERT INTO quota_overrides (id, subject_key, subject, descriptor, requests_per_unit, unit, algorithm, burst, effective_at, created_at, updated_at, created_by) ` +
			numbers + ` SELECT 'id' || i, 'api_key', 'abcdefghijklmnop' || (i + 100000000), '', 1000 + i % 1000, 'minute', 'sliding_window', 0, 0, 1, 1, 'ann' FROM n`,
	} {
		tamper(b, dsn, statement)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := sqltenant.NewWatcher(db, someTiers(b), sqltenant.WatcherOptions{})
	var took time.Duration
	for b.Loop() {
		start := time.Now()
		if err := w.Load(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = time.Since(start)
	}
	runtime.ReadMemStats(&after)
	peak := after.HeapSys
	runtime.GC()
	runtime.ReadMemStats(&after)
	if s, _ := w.Snapshot(); s.Len() != n {
		b.Fatalf("%d accounts", s.Len())
	}
	b.ReportMetric(took.Seconds(), "s/load")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/account")
	b.ReportMetric(float64(peak)/1e6, "peak-MB")
}
