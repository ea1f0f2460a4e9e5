package sqltenant_test

import (
	"database/sql"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// firstEntries are what the first version of the tables had after three changes of
// two accounts.
const firstEntries = `
INSERT INTO accounts (subject_key, subject, last4, version, updated_at) VALUES
	('api_key', 'a', 'wxyz', 3, 1767268800123456), ('api_key', 'b', 'wxyz', 2, 1767268800123456);
INSERT INTO account_tiers (subject_key, subject, tier, effective_at) VALUES ('api_key', 'a', 'enterprise', 0), ('api_key', 'b', 'free', 0);
INSERT INTO quota_overrides (id, subject_key, subject, descriptor, requests_per_unit, unit, algorithm, burst, effective_at, created_at, updated_at, created_by)
	VALUES ('i', 'api_key', 'a', '', 3000, 'minute', 'sliding_window', 0, 0, 1767268800123456, 1767268800123456, 'ann');
INSERT INTO account_changes (version, at, actor, subject_key, subject, before_state, after_state, hash) VALUES
	(1, 1767268800123456, 'ann', 'api_key', 'a', '{}', '{"last4":"wxyz","tiers":[{"tier":"pro"}],"overrides":[{"descriptor":"","requests_per_unit":2000,"unit":"minute","algorithm":"sliding_window"},{"descriptor":"op:x","requests_per_unit":7,"unit":"minute","algorithm":"sliding_window"}]}', '2d506a9b98128f4e4dad3c3a6a22433dbc12fa0a335fa4341f21783fd3fa47d6'),
	(2, 1767268800123456, 'ann', 'api_key', 'b', '{}', '{"last4":"wxyz","tiers":[{"tier":"free"}]}', '5fa5a1eb51d4f5f736267627f555293ce9f1bc7ff13e13369cdcdcfc24ff431d'),
	(3, 1767268800123456, 'ann', 'api_key', 'a', '{"last4":"wxyz","tiers":[{"tier":"pro"}],"overrides":[{"descriptor":"","requests_per_unit":2000,"unit":"minute","algorithm":"sliding_window"},{"descriptor":"op:x","requests_per_unit":7,"unit":"minute","algorithm":"sliding_window"}]}', '{"last4":"wxyz","tiers":[{"tier":"enterprise"}],"overrides":[{"descriptor":"","requests_per_unit":3000,"unit":"minute","algorithm":"sliding_window"}]}', '2d57b851d291868f28a751cd7d8973d61778a5d256f9219be26ffc580855b86e');
UPDATE tenant_state SET version = 3, digest = '2d57b851d291868f28a751cd7d8973d61778a5d256f9219be26ffc580855b86e'`

// migrateTo makes the tables of a version of the past.
func migrateTo(t *testing.T, dsn string, version int64) {
	t.Helper()
	driver, source, dialect := "pgx", dsn, goose.DialectPostgres
	if path, ok := strings.CutPrefix(dsn, "sqlite://"); ok {
		driver, source, dialect = "sqlite", "file:"+path, goose.DialectSQLite3
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	provider, err := goose.NewProvider(dialect, db, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
}

// TestMigrationKeepsTheChain: a database of the first version is whole after the
// migration, and its chain goes on.
func TestMigrationKeepsTheChain(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		migrateTo(t, dsn, 1)
		for statement := range strings.SplitSeq(firstEntries, ";\n") {
			tamper(t, dsn, statement)
		}
		for range 2 { // the second time there is nothing to do
			d := open(t, dsn)
			if n, err := d.Verify(t.Context()); n != 3 || err != nil {
				t.Fatalf("%d changes, %v", n, err)
			}
		}
		d := open(t, dsn)
		entries, err := d.Changes(t.Context(), 0, 10)
		if err != nil || len(entries) != 3 || entries[0].Kind != sqltenant.AccountEntry {
			t.Errorf("%+v, %v", entries, err)
		}
		r, err := d.Get(t.Context(), key("a"))
		if err != nil || r.Version != 3 || r.Tiers[0].Tier != "enterprise" || r.Overrides[0].RequestsPerUnit != 3000 || r.Overrides[0].ID != "i" || r.Overrides[0].More != nil {
			t.Errorf("%+v, %v", r, err)
		}
		putDocument(t, d, sqltenant.RulesDocument, "api", "domain: api")
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 9))
		if n, err := d.Verify(t.Context()); n != 5 || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}

// TestOrderIsThatOfBytes: whatever the locale of the database, accounts stand in the
// order in which Go compares their subjects.
func TestOrderIsThatOfBytes(t *testing.T) {
	server := testserver.Postgres(t)
	server.Exec(`CREATE DATABASE folded LOCALE_PROVIDER icu ICU_LOCALE 'en' TEMPLATE template0`)
	dsn := strings.Replace(server.DSN, "/postgres?", "/folded?", 1)
	migrateTo(t, dsn, 1)
	want := []string{"B", "Z", "a", "b", "ß", "é", "😀"}
	for _, name := range []string{"é", "b", "Z"} {
		tamper(t, dsn, `INSERT INTO accounts (subject_key, subject, last4, version, updated_at) VALUES ('api_key', '`+name+`', '', 1, 1)`)
	}
	d := open(t, dsn)
	for _, name := range slices.Backward(want) {
		put(t, d, key(name), "pro")
	}
	var listed []string
	for after := (tenant.Subject{}); ; {
		page, err := d.List(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			listed = append(listed, r.Subject.Value)
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Subject
	}
	if !slices.Equal(listed, want) {
		t.Errorf("listed %s, want %s", listed, want)
	}
}
