package sqltenant_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// manyAccounts is more than are all read again for every repair.
const manyAccounts = 12_000

// generate adds accounts with the tier pro.
func generate(t testing.TB, server *testserver.PostgresServer, n int) {
	t.Helper()
	tamper(t, server.DSN, fmt.Sprintf(`INSERT INTO accounts (subject_key, subject, last4, version, updated_at) SELECT 'api_key', 'many' || i, 'wxyz', 1, {1} FROM generate_series(1, %d) i`, n))
	tamper(t, server.DSN, fmt.Sprintf(`INSERT INTO account_tiers (subject_key, subject, tier, effective_at) SELECT 'api_key', 'many' || i, 'pro', {0} FROM generate_series(1, %d) i`, n))
}

// tables are those of accounts and their changes, in an order in which they can be filled.
var tables = []string{"tenant_head", "accounts", "account_tiers", "quota_overrides", "account_top_ups", "account_changes", "documents"}

// backUp keeps the tables as they are, under a name.
func backUp(t testing.TB, server *testserver.PostgresServer, name string) {
	t.Helper()
	text := "CREATE SCHEMA " + name
	for _, table := range tables {
		text += "; CREATE TABLE " + name + "." + table + " AS TABLE public." + table
	}
	tamper(t, server.DSN, text)
}

// restore makes the tables what they were, at once.
func restore(t testing.TB, server *testserver.PostgresServer, name string) {
	t.Helper()
	text := "BEGIN; TRUNCATE "
	for i, table := range tables {
		if i > 0 {
			text += ", "
		}
		text += "public." + table
	}
	for _, table := range tables {
		text += "; INSERT INTO public." + table + " SELECT * FROM " + name + "." + table
	}
	tamper(t, server.DSN, text+"; COMMIT")
}

// TestRestoredDatabase: the database is restored to an older state, and as many changes
// are made as were lost, before any node looks. All nodes notice at their next look and
// come to have what the database has.
func TestRestoredDatabase(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.DSN)
	generate(t, server, manyAccounts)
	put(t, d, key("kept"), "pro", perMinute(tenant.Default, 5))
	backUp(t, server, "before")
	put(t, d, key("after"), "pro", perMinute(tenant.Default, 777))
	putDocument(t, d, sqltenant.SwitchDocument, "all", "{}")
	backUp(t, server, "meanwhile")
	restore(t, server, "before")

	nodes := []*node{newNode(t, server.DSN), newNode(t, server.DSN), newNode(t, server.DSN)}
	put(t, d, key("lost"), "pro", perMinute(tenant.Default, 9999))
	put(t, d, key("many1"), "pro", perMinute(tenant.Default, 9998))
	for _, n := range nodes {
		n.until("the changes that will be lost", func() bool { return n.quota(key("lost")) == 9999 && n.quota(key("many1")) == 9998 })
	}
	restore(t, server, "meanwhile")
	for i, n := range nodes {
		n.until("what the database has now", func() bool {
			return n.quota(key("lost")) == 100 && n.quota(key("many1")) == 0 && n.quota(key("after")) == 777 && n.quota(key("kept")) == 5 && n.text("switch", "all") != ""
		})
		if s, version := n.watcher.Snapshot(); s.Len() != manyAccounts+2 || version != 3 {
			t.Errorf("node %d: %d accounts, version %d", i, s.Len(), version)
		}
		n.mu.Lock()
		told := slices.ContainsFunc(n.errors, func(err error) bool { return errors.Is(err, sqltenant.ErrHistory) })
		n.mu.Unlock()
		if !told {
			t.Errorf("node %d did not say that the history has changed", i)
		}
	}
	put(t, d, key("kept"), "pro", perMinute(tenant.Default, 6))
	for _, n := range nodes {
		n.until("a further change", func() bool { return n.quota(key("kept")) == 6 })
	}
}

// TestRestoredAndChangedMore: of a history with more changes than were lost, and with
// fewer, one look tells too.
func TestRestoredAndChangedMore(t *testing.T) {
	for _, more := range []int{-1, 0, 1, 5} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			server := testserver.Postgres(t)
			d := open(t, server.DSN)
			put(t, d, key("kept"), "pro", perMinute(tenant.Default, 5))
			backUp(t, server, "before")
			w := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{})
			put(t, d, key("lost"), "pro", perMinute(tenant.Default, 9999))
			put(t, d, key("kept"), "pro", perMinute(tenant.Default, 9998))
			if err := w.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			restore(t, server, "before")
			for i := range 2 + more {
				put(t, d, key(fmt.Sprint("new", i)), "pro", perMinute(tenant.Default, 7))
			}
			if err := w.Follow(t.Context()); err != nil {
				t.Fatal(err)
			}
			s, version := w.Snapshot()
			quota := s.Resolve(key("kept"), nil, 0).Quota
			if s.Len() != 3+more || version != int64(3+more) || quota.Limits[0].Quota != 5 || s.Resolve(key("lost"), nil, 0).Tier != "free" {
				t.Errorf("version %d, %d accounts, quota %d", version, s.Len(), quota.Limits[0].Quota)
			}
		})
	}
}

// TestRowsLostByHand: with more accounts than are all read again, rows of what belongs to
// them that somebody took out by hand are missed by their number.
func TestRowsLostByHand(t *testing.T) {
	server := testserver.Postgres(t)
	open(t, server.DSN)
	generate(t, server, manyAccounts)
	n := newNodeRepairing(t, server.DSN, time.Millisecond, func() {})
	n.until("all accounts", func() bool { s, _ := n.watcher.Snapshot(); return s != nil && s.Len() == manyAccounts })
	tamper(t, server.DSN, `DELETE FROM account_tiers WHERE subject = 'many7'`)
	n.until("the account without a tier", func() bool { s, _ := n.watcher.Snapshot(); return s.Len() == manyAccounts-1 })
}
