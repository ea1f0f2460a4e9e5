package tenantsource

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// diskSource is a Source over a database with a directory, and what ends it. Few changes
// beside a file are not written into a new one before then.
func diskSource(t *testing.T, dsn, dir string, then time.Time) (s *Source, stop func()) {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	rulesOf, err := rulesource.New(rulesource.Options{Apply: func(set *rules.Set) { limiter.SetRules(set) }})
	if err == nil {
		err = rulesOf.Load()
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err = New(Options{
		Database: dsn, Dir: dir, Limiter: limiter, Rules: rulesOf, Logger: slog.New(slog.DiscardHandler),
		Unfit: func(string, *limit.Limit) error { return nil }, Poll: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.disk.writeFrom(then)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Watch(ctx) }()
	return s, func() { cancel(); <-ended }
}

// tierOf returns the tier that an account has in force.
func (s *Source) tierOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.accounts == nil {
		return "not known"
	}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "none"}, {Name: "pro"}, {Name: "max"}}, "none")
	if err != nil {
		return err.Error()
	}
	return s.mu.accounts.WithTiers(tiers).Standing(tenant.Subject{Key: "tenant", Value: name}, limit.MicrosOf(time.Now())).Tier()
}

// give puts accounts of n tenants into a database, from one on.
func give(t *testing.T, db *sqltenant.DB, tier string, from, n int) {
	t.Helper()
	for n > 0 {
		var changes []sqltenant.Change
		for i := range min(n, 1000) {
			changes = append(changes, sqltenant.Change{
				Subject: tenant.Subject{Key: "tenant", Value: fmt.Sprint("t", from+i)}, Actor: "ann", Version: sqltenant.Anyway, At: time.Now(),
				Edit: func(r *sqltenant.Record) error { r.Tiers = []tenant.Assignment{{Tier: tier}}; return nil },
			})
		}
		if _, err := db.UpdateAll(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		from, n = from+len(changes), n-len(changes)
	}
}

// writeFrom puts off until when a file with few changes beside it is written anew.
func (d *disk) writeFrom(next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = next
}

// besideOf fails unless a change comes to stand beside a file. The watcher reads all accounts
// again now and then, on a very slow machine also in between: then there is another try.
func besideOf(t *testing.T, change func() (_ *Source, sameFile bool)) {
	t.Helper()
	for range 3 {
		s, same := change()
		if same {
			if state := s.State(); state.Beside == 0 {
				t.Errorf("nothing is beside the file: %+v", state)
			}
			return
		}
	}
	t.Error("all accounts were read again for a change, three times")
}

// Accounts are in a file; a change is beside it; with many of them the file is written
// anew; and a start has them at once, also without the database, and then what has changed.
func TestAccountsOnDisk(t *testing.T) {
	dsn, dir := "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"), t.TempDir()
	db, err := sqltenant.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	give(t, db, "pro", 0, 50)
	later := time.Now().Add(time.Hour)
	s, stop := diskSource(t, dsn, dir, later)
	is := func(s *Source, name, want string) {
		t.Helper()
		eventually.True(t, fmt.Sprintf("%s has %s", name, want), func() bool { return s.tierOf(name) == want })
	}
	is(s, "t7", "pro")
	is(s, "t50", "none")
	names := s.disk.names()
	besideOf(t, func() (*Source, bool) {
		before := s.disk.names()
		give(t, db, "pro", 7, 1)
		give(t, db, "max", 7, 1)
		is(s, "t7", "max")
		names = s.disk.names()
		return s, slices.Equal(before, names)
	})
	if state := s.State(); !state.OnDisk || state.Accounts != 50 || state.FromFile {
		t.Errorf("%+v", state)
	}
	s.disk.writeFrom(time.Now())
	eventually.True(t, "the file is written anew", func() bool {
		now := s.disk.names()
		return len(now) == 1 && now[0] != names[0] && s.State().Beside == 0
	})
	give(t, db, "max", 100, 2000) // which the end of the process writes
	is(s, "t2099", "max")
	is(s, "t7", "max")
	stop()

	// Without the database, by what was kept.
	gone, stop := diskSource(t, "sqlite:///nowhere/at/all.db", dir, later)
	is(gone, "t2099", "max")
	if state := gone.State(); !state.FromFile {
		t.Errorf("%+v", state)
	}
	stop()

	// And with it: only what has changed is read.
	besideOf(t, func() (*Source, bool) {
		before := s.disk.names()
		give(t, db, "max", 7, 1)
		give(t, db, "pro", 7, 1)
		again, stop := diskSource(t, dsn, dir, later)
		defer stop()
		is(again, "t7", "pro")
		is(again, "t100", "max")
		if again.State().FromFile {
			t.Error("the database was not read")
		}
		return again, slices.Equal(before, s.disk.names())
	})

	// A file that is not whole is none; nothing is left behind, of this version and of others.
	for _, name := range []string{s.disk.names()[0], ".headgate-part-accounts.1.123", "accounts.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fresh, stop := diskSource(t, dsn, dir, later)
	is(fresh, "t100", "max")
	stop()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") || strings.HasPrefix(e.Name(), ".headgate-part-") {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

// A read of all accounts that fails, or that the end of the process cuts off, leaves the
// file as it is.
func TestHalfReadLeavesTheFile(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "tenants.db"), t.TempDir()
	db, err := sqltenant.Open(t.Context(), "sqlite://"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	give(t, db, "pro", 0, 50)
	later := time.Now().Add(time.Hour)
	s, stop := diskSource(t, "sqlite://"+path, dir, later)
	eventually.True(t, "accounts are in force", func() bool { return s.tierOf("t7") == "pro" })
	stop()
	names := s.disk.names()
	if len(names) != 1 {
		t.Fatalf("files %q", names)
	}

	// Another history has all read, and that cannot be done.
	direct, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	for _, statement := range []string{`DELETE FROM account_changes`, `UPDATE tenant_head SET version = 0, digest = ''`, `ALTER TABLE account_tiers RENAME TO elsewhere`} {
		if _, err := direct.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s, stop = diskSource(t, "sqlite://"+path, dir, later)
	eventually.True(t, "a read has failed", func() bool { return s.State().FailedReads > 0 })
	if got := s.tierOf("t7"); got != "pro" {
		t.Errorf("t7 has %s", got)
	}
	stop()
	if now := s.disk.names(); !slices.Equal(now, names) {
		t.Errorf("files %q, were %q", now, names)
	}
	gone, stop := diskSource(t, "sqlite:///nowhere/at/all.db", dir, later)
	eventually.True(t, "accounts are in force without the database", func() bool { return gone.tierOf("t7") != "not known" })
	if got := gone.tierOf("t7"); got != "pro" {
		t.Errorf("without the database t7 has %s", got)
	}
	stop()
}

// What is not whole yet is removed at the start alone: later somebody may be writing it.
func TestPartsAreSweptAtTheStart(t *testing.T) {
	d := disk{dir: t.TempDir(), logger: slog.New(slog.DiscardHandler)}
	part := filepath.Join(d.dir, ".headgate-part-settings.1.123")
	if err := os.WriteFile(part, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.clean("")
	if _, err := os.Stat(part); err != nil {
		t.Errorf("while others write: %v", err)
	}
	d.open()
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the start: %v", err)
	}
}
