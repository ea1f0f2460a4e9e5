package sqltenant_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// BenchmarkImport writes accounts with a tier and two overrides each, then the same
// ones with another quota, as an import does that is run again.
func BenchmarkImport(b *testing.B) {
	const n = 10_000
	b.Run("sqlite", func(b *testing.B) { benchmarkImport(b, "sqlite://"+filepath.Join(b.TempDir(), "tenants.db"), n) })
	b.Run("postgres", func(b *testing.B) { benchmarkImport(b, testserver.Postgres(b).DSN, n) })
}

func benchmarkImport(b *testing.B, dsn string, n int) {
	db := open(b, dsn)
	imported := func(quota int64) time.Duration {
		begun := time.Now()
		for from := 0; from < n; from += sqltenant.MaxChanges {
			var changes []sqltenant.Change
			for i := from; i < min(from+sqltenant.MaxChanges, n); i++ {
				changes = append(changes, sqltenant.Change{
					Subject: key(fmt.Sprintf("abcdefghijklmnop%09d", i)), Actor: "ann", Version: sqltenant.Anyway, At: start,
					Edit: func(r *sqltenant.Record) error {
						r.Last4, r.Tiers = "wxyz", []tenant.Assignment{{Tier: "pro"}}
						r.Overrides = []sqltenant.Override{perMinute(tenant.Default, quota), perMinute("op:x", 10)}
						return nil
					},
				})
			}
			if _, err := db.UpdateAll(b.Context(), changes); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(begun)
	}
	var quota int64
	var fresh, again time.Duration
	for b.Loop() {
		if quota++; quota == 1 {
			fresh = imported(quota)
		} else {
			again = imported(quota)
		}
	}
	b.ReportMetric(float64(n)/fresh.Seconds(), "new/s")
	if again > 0 {
		b.ReportMetric(float64(n)/again.Seconds(), "changed/s")
	}
}

// BenchmarkLoad reads accounts with a tier and an override each, as a node does that
// starts, and then follows changes of one of them. B/account is what they keep, peak-MB
// what the process took of the system while it read. Ten million take minutes.
func BenchmarkLoad(b *testing.B) {
	b.Run("sqlite/1000000", func(b *testing.B) { benchmarkLoad(b, "sqlite://"+filepath.Join(b.TempDir(), "tenants.db"), 1_000_000) })
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint("postgres/", n), func(b *testing.B) { benchmarkLoad(b, testserver.Postgres(b).DSN, n) })
	}
}

func benchmarkLoad(b *testing.B, dsn string, n int) {
	db := open(b, dsn)
	numbers := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)`, n)
	for _, statement := range []string{
		`INSERT INTO accounts (subject_key, subject, last4, version, updated_at) ` + numbers + ` SELECT 'api_key', 'abcdefghijklmnop' || (i + 100000000), 'wxyz', i, {1} FROM n`,
		`INSERT INTO account_tiers (subject_key, subject, tier, effective_at) ` + numbers + ` SELECT 'api_key', 'abcdefghijklmnop' || (i + 100000000), 'pro', {0} FROM n`,
		`INSERT INTO quota_overrides (id, subject_key, subject, descriptor, requests_per_unit, unit, algorithm, burst, effective_at, created_at, updated_at, created_by) ` +
			numbers + ` SELECT 'id' || i, 'api_key', 'abcdefghijklmnop' || (i + 100000000), '', 1000 + i % 1000, 'minute', 'sliding_window', 0, {0}, {1}, {1}, 'ann' FROM n`,
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
	const changes = 20
	var following time.Duration
	for i := range changes {
		if _, err := db.Update(b.Context(), sqltenant.Change{Subject: key("changed"), Actor: "ann", Version: sqltenant.Anyway, At: start, Edit: func(r *sqltenant.Record) error {
			r.Tiers, r.Overrides = []tenant.Assignment{{Tier: "pro"}}, []sqltenant.Override{perMinute(tenant.Default, int64(i+1))}
			return nil
		}}); err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		if err := w.Follow(b.Context()); err != nil {
			b.Fatal(err)
		}
		following += time.Since(begun)
	}
	b.ReportMetric(following.Seconds()*1e3/changes, "ms/change")
	b.ReportMetric(took.Seconds(), "s/load")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(n), "B/account")
	b.ReportMetric(float64(peak)/1e6, "peak-MB")
}
