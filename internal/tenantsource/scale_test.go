package tenantsource

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestScale measures what docs/tenants.md says of very many accounts. It is for people:
//
//	HEADGATE_SCALE_ACCOUNTS=10000000 go test ./internal/tenantsource -run TestScale -v -timeout 2h
//
// Ten million take half an hour and 10 GB of disk.
func TestScale(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("HEADGATE_SCALE_ACCOUNTS"))
	if err != nil || n < 1 {
		t.Skip("HEADGATE_SCALE_ACCOUNTS says of how many accounts")
	}
	server := testserver.Postgres(t)
	db, err := sqltenant.Open(t.Context(), server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fill(t, server.DSN, n)
	dir := t.TempDir()
	waits := func(s *Source, name, want string) time.Duration {
		began := time.Now()
		for s.tierOf(name) != want {
			if time.Since(began) > time.Hour {
				t.Fatalf("%s is %s", name, s.tierOf(name))
			}
			time.Sleep(time.Millisecond)
		}
		return time.Since(began)
	}
	s, stop := diskSource(t, server.DSN, dir, time.Time{})
	t.Logf("all read of the database and in force after %v, %v of CPU; %s", waits(s, "t1", "pro"), cpu(), memory())
	looksUp(t, s, n)
	t.Logf("after looking up 100,000 accounts: %s", memory())
	give(t, db, "max", 1, 1)
	t.Logf("a changed account is in force after %v", waits(s, "t1", "max"))

	// A restore to an older state: the last change is gone, and what it changed is as before.
	execute(t, server.DSN, `DELETE FROM account_changes`, `UPDATE tenant_head SET version = 0, digest = ''`,
		`UPDATE account_tiers SET tier = 'pro' WHERE subject = 't1'`)
	t.Logf("an older state of the database is in force after %v", waits(s, "t1", "pro"))
	stop()
	if info, err := os.Stat(dir + "/" + s.disk.names()[0]); err == nil {
		t.Logf("the file has %d bytes, %.1f for each account", info.Size(), float64(info.Size())/float64(n))
	}
	s = nil
	again, stop := diskSource(t, server.DSN, dir, time.Time{})
	t.Logf("in force after a start with the file: %v; %s", waits(again, "t2", "pro"), memory())
	stop()
}

func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// fill makes n accounts with a tier; a hundredth of them have an override.
func fill(t *testing.T, dsn string, n int) {
	began := time.Now()
	at := `(TIMESTAMPTZ 'epoch' + INTERVAL '1 microsecond')`
	for from := 1; from <= n; from += 1_000_000 {
		to := min(from+999_999, n)
		series := fmt.Sprintf(` FROM generate_series(%d, %d) i`, from, to)
		execute(t, dsn,
			`INSERT INTO accounts (subject_key, subject, last4, version, updated_at) SELECT 'tenant', 't' || i, '', 1, `+at+series,
			`INSERT INTO account_tiers (subject_key, subject, tier, effective_at) SELECT 'tenant', 't' || i, 'pro', TIMESTAMPTZ 'epoch'`+series,
			`INSERT INTO quota_overrides (id, subject_key, subject, descriptor, requests_per_unit, unit, algorithm, burst, effective_at, created_at, updated_at, created_by)
			SELECT 'id' || i, 'tenant', 't' || i, '', 1000 + i % 100000, 'minute', 'sliding_window', 0, TIMESTAMPTZ 'epoch', `+at+`, `+at+`, 'ann'`+series+` WHERE i % 100 = 0`)
	}
	execute(t, dsn, `ANALYZE`)
	t.Logf("%d accounts were made in %v", n, time.Since(began))
}

// looksUp times look-ups of 100,000 accounts: from the file, and from memory.
func looksUp(t *testing.T, s *Source, n int) {
	s.mu.Lock()
	accounts := s.mu.accounts
	s.mu.Unlock()
	for _, from := range []string{"from the file", "from memory", "from memory"} {
		began := cpu()
		for i := range 100_000 {
			accounts.Standing(tenant.Subject{Key: "tenant", Value: "t" + strconv.Itoa(1+i*(n/100_000))}, limit.Micros(1<<50))
		}
		t.Logf("a look-up takes %v of CPU (%s); %d were read of the file", (cpu()-began)/100_000, from, accounts.Lookups().Misses)
	}
}

// cpu returns the time of processors that this process has had: the machine has other work.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// memory says what the process takes.
func memory() string {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	resident := ""
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
				resident += " " + strings.Join(strings.Fields(line), " ")
			}
		}
	}
	return fmt.Sprintf("heap %d MB,%s", m.HeapAlloc>>20, resident)
}
