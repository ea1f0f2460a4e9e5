package sqltenant_test

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// tamper runs a statement behind the back of the package.
func tamper(t testing.TB, dsn, statement string) {
	t.Helper()
	if err := execute(t, dsn, statement); err != nil {
		t.Fatal(err)
	}
}

// execute runs a statement that may be refused.
func execute(t testing.TB, dsn, statement string) error {
	t.Helper()
	db := raw(t, dsn)
	defer db.Close()
	_, err := db.ExecContext(t.Context(), timed(dsn, statement))
	return err
}

// timed puts instants in the place of microseconds in braces.
func timed(dsn, statement string) string {
	value := "(TIMESTAMPTZ 'epoch' + INTERVAL '1 microsecond' * ($1))"
	if strings.HasPrefix(dsn, "sqlite://") {
		value = "$1"
	}
	return regexp.MustCompile(`\{(-?\d+)\}`).ReplaceAllString(statement, strings.ReplaceAll(value, "$1", "${1}"))
}

// raw opens a database as somebody else does.
func raw(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	driver, source := "pgx", dsn
	if path, ok := strings.CutPrefix(dsn, "sqlite://"); ok {
		driver, source = "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	return db
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

// mixed makes a chain of one change of each kind, the account first and last.
func mixed(t *testing.T, d *sqltenant.DB) {
	t.Helper()
	put(t, d, key("a"), "pro", perMinute(tenant.Default, 1))
	putDocument(t, d, sqltenant.RulesDocument, "api", "domain: api")
	putDocument(t, d, sqltenant.TiersDocument, sqltenant.DefaultName, "tiers: {}")
	putDocument(t, d, sqltenant.SwitchDocument, "all", `{"target":"all"}`)
	putRow(t, d, sqltenant.RuleRowChange{Row: row("user", 1)})
	put(t, d, key("a"), "pro", perMinute(tenant.Default, 2))
}

//promise:admin-api
func TestL2VerifyFindsTampering(t *testing.T) {
	racetest.Serially(t)
	type tampering struct {
		statement string
		version   int64
	}
	tests := map[string]tampering{
		"a change taken out":   {`DELETE FROM account_changes WHERE version = 2`, 3},
		"the first taken out":  {`DELETE FROM account_changes WHERE version = 1`, 2},
		"the last taken out":   {`DELETE FROM account_changes WHERE version = 6`, 6},
		"another end":          {`UPDATE tenant_head SET digest = 'x'`, 6},
		"the version set back": {`UPDATE tenant_head SET version = 5`, 6},
		"a hash of its own":    {`UPDATE account_changes SET hash = 'x' WHERE version = 6`, 6},
		"no account":           {`UPDATE account_changes SET kind = 'rules' WHERE version = 1`, 1},
	}
	for i, kind := range []sqltenant.Kind{
		sqltenant.AccountEntry, sqltenant.RulesDocument, sqltenant.TiersDocument, sqltenant.SwitchDocument, sqltenant.RuleRowEntry,
	} {
		for column, value := range map[string]string{
			"at": "7", "actor": "'eve'", "subject": "'eve'", "subject_key": "'eve'", "before_state": "'x'", "after_state": "'x'", "kind": "'account'",
		} {
			if kind == sqltenant.AccountEntry && column == "kind" {
				continue
			}
			version := int64(i + 1)
			tests[fmt.Sprintf("%s of %s", column, kind)] = tampering{
				fmt.Sprintf(`UPDATE account_changes SET %s = %s WHERE version = %d AND kind = '%s'`, column, value, version, kind), version,
			}
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dsn := "sqlite://" + t.TempDir() + "/tenants.db"
			d := open(t, dsn)
			mixed(t, d)
			if n, err := d.Verify(t.Context()); n != 6 || err != nil {
				t.Fatalf("%d changes, %v", n, err)
			}
			tamper(t, dsn, test.statement)
			var broken *sqltenant.BrokenError
			if _, err := d.Verify(t.Context()); !errors.As(err, &broken) || broken.Version != test.version {
				t.Errorf("%v, want broken at %d", err, test.version)
			}
		})
	}
}
