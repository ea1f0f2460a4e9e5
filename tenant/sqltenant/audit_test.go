package sqltenant_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// tamper runs a statement behind the back of the package.
func tamper(t testing.TB, dsn, statement string) {
	t.Helper()
	driver, source := "pgx", dsn
	if path, ok := strings.CutPrefix(dsn, "sqlite://"); ok {
		driver, source = "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestL2AuditChain(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		if n, err := d.Verify(t.Context()); n != 0 || err != nil {
			t.Errorf("an empty chain: %d, %v", n, err)
		}
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 1))
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 2))
		put(t, d, key("b"), "free")
		taken, err := d.Update(t.Context(), sqltenant.Change{
			Subject: key("a"), Actor: "bob", Version: sqltenant.Anyway, At: start,
			Edit: func(r *sqltenant.Record) error { r.Tiers, r.Overrides = nil, nil; return nil },
		})
		if err != nil || taken.Version != 0 {
			t.Errorf("an account that was taken out: %+v, %v", taken, err)
		}
		entries, err := d.Changes(t.Context(), 1, 10)
		if err != nil || len(entries) != 3 {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		if e := entries[0]; e.Version != 2 || e.Actor != "ann" || !e.At.Equal(start) || e.Subject != key("a") ||
			!strings.Contains(e.Before, `"requests_per_unit":1,`) || !strings.Contains(e.After, `"requests_per_unit":2,`) {
			t.Errorf("%+v", e)
		}
		if e := entries[2]; e.Actor != "bob" || e.After != "{}" {
			t.Errorf("%+v", e)
		}
		if n, err := d.Verify(t.Context()); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestL2VerifyFindsTampering(t *testing.T) {
	for name, test := range map[string]struct {
		statement string
		version   int64
	}{
		"an altered change":    {`UPDATE account_changes SET after_state = '{}' WHERE version = 2`, 2},
		"another actor":        {`UPDATE account_changes SET actor = 'eve' WHERE version = 1`, 1},
		"a change taken out":   {`DELETE FROM account_changes WHERE version = 2`, 3},
		"the first taken out":  {`DELETE FROM account_changes WHERE version = 1`, 2},
		"the last taken out":   {`DELETE FROM account_changes WHERE version = 3`, 3},
		"another end":          {`UPDATE tenant_state SET digest = 'x'`, 3},
		"the version set back": {`UPDATE tenant_state SET version = 2`, 3},
		"a hash of its own":    {`UPDATE account_changes SET hash = 'x' WHERE version = 3`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := "sqlite://" + t.TempDir() + "/tenants.db"
			d := open(t, dsn)
			for i := range 3 {
				put(t, d, key("a"), "pro", perMinute(tenant.Default, int64(i+1)))
			}
			tamper(t, dsn, test.statement)
			var broken *sqltenant.BrokenError
			if _, err := d.Verify(t.Context()); !errors.As(err, &broken) || broken.Version != test.version {
				t.Errorf("%v, want broken at %d", err, test.version)
			}
		})
	}
}
