package sqltenant_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestInstantsOutOfRange: rows with instants that no text can show are left out one by
// one, named by account, table and column; all else of the account can be read and shown.
// PostgreSQL refuses them.
func TestInstantsOutOfRange(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		if !strings.HasPrefix(dsn, "sqlite") {
			put(t, d, key("a"), "pro", perMinute(tenant.Default, 5))
			for _, wrong := range []string{
				`UPDATE quota_overrides SET expires_at = 'infinity'`, `UPDATE quota_overrides SET expires_at = '10000-01-01Z'`,
				`UPDATE account_tiers SET effective_at = '-infinity'`, `UPDATE accounts SET updated_at = '1969-12-31Z'`,
			} {
				if err := execute(t, dsn, wrong); err == nil || !strings.Contains(err.Error(), "check constraint") {
					t.Errorf("%s: %v", wrong, err)
				}
			}
			return
		}
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 5), perMinute("op:x", 6))
		put(t, d, key("b"), "pro")
		tamper(t, dsn, `UPDATE quota_overrides SET expires_at = 300000000000000000 WHERE descriptor = 'op:x'`)
		tamper(t, dsn, `UPDATE account_tiers SET effective_at = -99000000000000000 WHERE subject = 'b'`)
		tamper(t, dsn, `UPDATE accounts SET updated_at = 300000000000000000`)
		list, err := d.List(t.Context(), tenant.Subject{}, 10)
		if err != nil || len(list) != 2 || len(list[0].Overrides) != 1 || len(list[0].Tiers) != 1 || len(list[0].Invalid) != 1 || len(list[1].Invalid) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if _, err := json.Marshal([]any{list[0].UpdatedAt, list[0].Overrides, list[0].Tiers}); err != nil {
			t.Errorf("what is left cannot be shown: %v", err)
		}
		var named []string
		w := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{OnError: func(err error) { named = append(named, err.Error()) }})
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, _ := w.Snapshot()
		if r := s.Resolve(key("a"), nil, 0); r.Tier != "pro" || r.Quota.Limits[0].Quota != 5 {
			t.Errorf("%+v", r)
		}
		all := strings.Join(named, "\n")
		for _, want := range []string{"account api_key:a: ", "quota_overrides.expires_at", "account api_key:b: ", "account_tiers.effective_at"} {
			if !strings.Contains(all, want) {
				t.Errorf("no %q in\n%s", want, all)
			}
		}
	})
}

// TestFileIsPrivate: nobody else may read the file of SQLite, nor what stands beside it.
func TestFileIsPrivate(t *testing.T) {
	for _, before := range []os.FileMode{0, 0o644} {
		path := filepath.Join(t.TempDir(), "tenants.db")
		if before != 0 {
			if err := os.WriteFile(path, nil, before); err != nil {
				t.Fatal(err)
			}
		}
		put(t, open(t, "sqlite://"+path), key("a"), "pro")
		for _, suffix := range []string{"", "-wal", "-shm"} {
			info, err := os.Stat(path + suffix)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", suffix, info, err)
			}
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:secret@db:port/d":            "cannot be read",
		"postgres://u:secret@db/d?sslmode=perhaps": "sslmode",
		"postgres://u:sec%ret@db/d":                "cannot be read",
		"postgres://u:a@secret@db/d":               "%40",
		"postgres://u:a@secret@db,db2/d":           "%40",
		"postgres://u:a@db,b@secret/d":             "%40",
		"sqlite://tenants.db":                      "absolute",
		"mysql://u:secret@db/d":                    "not a database address",
	} {
		if err := sqltenant.Check(dsn); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: %v, want %q and no secret", dsn, err, want)
		}
	}
	for _, dsn := range []string{"postgres://u:p%40q@db:5432/d?sslmode=require", "postgres://u@/d?host=/run/pg@15", "sqlite:///t.db"} {
		if err := sqltenant.Check(dsn); err != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

// TestTrouble: what PostgreSQL refuses is not called silence.
func TestTrouble(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.DSN)
	if _, err := d.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	tamper(t, server.DSN, `CREATE ROLE guest LOGIN PASSWORD 'open'`)
	address, err := url.Parse(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("guest", "open")
	_, refused := sqltenant.Open(t.Context(), address.String())
	address.User = url.User("nobody")
	_, unknown := sqltenant.Open(t.Context(), address.String())
	late := afterItsTime(t, server.DSN)
	noRoom := execute(t, server.DSN, `DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`)
	twice, missing := execute(t, server.DSN, `PREPARE a AS SELECT 1; PREPARE a AS SELECT 1`), execute(t, server.DSN, `EXECUTE a`)
	tamper(t, server.DSN, `ALTER ROLE guest CONNECTION LIMIT 0`)
	address.User = url.UserPassword("guest", "open")
	query := address.Query()
	query.Set("sslmode", "prefer") // two tries, of which the first is refused because there is no TLS
	address.RawQuery = query.Encode()
	_, full := sqltenant.Open(t.Context(), address.String())
	if full == nil || strings.Contains(full.Error(), "\n") || !strings.Contains(full.Error(), `: FATAL: too many connections for role "guest"`) {
		t.Errorf("got %v, want the refusal alone", full)
	}
	tamper(t, server.DSN, `ALTER SYSTEM SET default_transaction_read_only = on`)
	tamper(t, server.DSN, `SELECT pg_reload_conf()`)
	var readOnly error
	eventually.True(t, "the server is read-only", func() bool {
		_, readOnly = open(t, server.DSN).PutDocument(t.Context(), sqltenant.DocumentChange{
			Kind: sqltenant.RulesDocument, Name: "a", Text: "x", Actor: "ann", Version: sqltenant.Anyway, At: start})
		return readOnly != nil
	})
	server.Kill()
	_, gone := d.Version(t.Context())
	for _, c := range []struct {
		err  error
		want string
	}{{refused, "refuses permission"}, {full, "has no connection left"}, {late, "ends statements that take long"}, {twice, "is behind a pooler"}, {missing, "is behind a pooler"}, {noRoom, "has no room left on its disk"}, {unknown, "refuses the login"}, {readOnly, "is read-only"}, {gone, "does not answer"}} {
		if c.err == nil || !strings.HasPrefix(sqltenant.Trouble(c.err), c.want) {
			t.Errorf("%v is called %q, want %q", c.err, sqltenant.Trouble(c.err), c.want)
		}
		if hint := sqltenant.Hint(c.err); (hint == "") != (c.err == gone) {
			t.Errorf("%v has the hint %q", c.err, hint)
		}
	}
}

// afterItsTime returns the error of a read that waits for a lock until PostgreSQL ends it.
func afterItsTime(t *testing.T, dsn string) error {
	t.Helper()
	other := raw(t, dsn)
	defer other.Close()
	held, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Rollback() }()
	if _, err := held.ExecContext(t.Context(), `LOCK TABLE tenant_head`); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("statement_timeout", "100")
	address.RawQuery = query.Encode()
	d, err := sqltenant.Open(t.Context(), address.String())
	if err == nil {
		defer d.Close()
		_, err = d.Version(t.Context())
	}
	return err
}
