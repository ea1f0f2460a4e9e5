package sqltenant_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// listener is a Watcher with what it told, for tests that read step by step.
type listener struct {
	*sqltenant.Watcher
	t    *testing.T
	told []sqltenant.Settings
	bad  []error
}

func newListener(t *testing.T, d *sqltenant.DB) *listener {
	l := &listener{t: t}
	l.Watcher = sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{
		OnSettings: func(s sqltenant.Settings) { l.told = append(l.told, s) },
		OnError:    func(err error) { l.bad = append(l.bad, err) },
	})
	return l
}

// told checks how often it was told of settings, and returns the last.
func (l *listener) times(want int) sqltenant.Settings {
	l.t.Helper()
	if len(l.told) != want {
		l.t.Fatalf("told of settings %d times, want %d: %+v", len(l.told), want, l.told)
	}
	return l.told[want-1]
}

func (l *listener) load() {
	l.t.Helper()
	if err := l.Load(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

func (l *listener) follow() {
	l.t.Helper()
	if err := l.Follow(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// TestSettingsAreTold: first with what there is, then when something has changed by
// whatever means, and not when nothing has.
func TestSettingsAreTold(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		l := newListener(t, d)
		l.load()
		if s := l.times(1); len(s.Documents) != 0 || len(s.RuleRows) != 0 || s.Version != 0 {
			t.Errorf("of an empty database: %+v", s)
		}
		putDocument(t, d, sqltenant.SwitchDocument, "all", "{}")
		putDocument(t, d, sqltenant.RulesDocument, "b", "domain: b")
		putDocument(t, d, sqltenant.RulesDocument, "a", "domain: a")
		first, _ := putRow(t, d, sqltenant.RuleRowChange{Row: row("user", 1)})
		l.follow()
		s := l.times(3) // the switch before all else
		var names []string
		for _, one := range s.Documents {
			names = append(names, fmt.Sprint(one.Kind, " ", one.Name))
		}
		if !slices.Equal(names, []string{"rules a", "rules b", "switch all"}) || len(s.RuleRows) != 1 || !s.RuleRows[0].Equal(&first) || s.Version != 4 {
			t.Errorf("%+v", s)
		}
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 5))
		l.follow()
		l.load()
		l.times(3) // an account is no setting

		tamper(t, dsn, `INSERT INTO rate_limit_rules (scope, limit_count, window_ms) VALUES ('ip', 10, 1000)`)
		tamper(t, dsn, `UPDATE documents SET text = 'by hand' WHERE name = 'a'`)
		l.load()
		if s := l.times(4); len(s.RuleRows) != 2 || s.Documents[0].Text != "by hand" || s.Version != 5 {
			t.Errorf("after writes by hand: %+v", s)
		}
		tamper(t, dsn, `UPDATE rate_limit_rules SET is_active = FALSE WHERE scope = 'ip'`)
		l.load()
		if s := l.times(5); s.RuleRows[1].Active {
			t.Errorf("%+v", s)
		}
		tamper(t, dsn, `DELETE FROM rate_limit_rules WHERE scope = 'ip'`)
		l.load()
		l.times(6)
		putRow(t, d, sqltenant.RuleRowChange{Row: first, Delete: true})
		putDocument(t, d, sqltenant.RulesDocument, "a", "")
		l.follow()
		if s := l.times(7); len(s.RuleRows) != 0 || len(s.Documents) != 2 {
			t.Errorf("after all was taken out: %+v", s)
		}
		if len(l.bad) != 0 {
			t.Errorf("told of errors: %v", l.bad)
		}
	})
}

// TestChangeWhileLoading: what changes between two reads of one Load is followed
// after it.
func TestChangeWhileLoading(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		var told []sqltenant.Settings
		w := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{OnSettings: func(s sqltenant.Settings) {
			if told = append(told, s); len(told) == 1 {
				putDocument(t, d, sqltenant.RulesDocument, "a", "domain: a")
			}
		}})
		for _, read := range []func(context.Context) error{w.Load, w.Follow} {
			if err := read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(told) != 2 || len(told[1].Documents) != 1 {
			t.Errorf("%+v", told)
		}
	})
}

// TestOtherKindsAreNoAccounts: a document with the name of an account takes nothing
// from that account, nor does a change of it.
func TestOtherKindsAreNoAccounts(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 5))
		l := newListener(t, d)
		l.load()
		before, _ := l.Snapshot()
		putDocument(t, d, sqltenant.RulesDocument, "a", "domain: a")
		l.follow()
		after, version := l.Snapshot()
		if version != 2 || after.Len() != 1 || before.Resolve(key("a"), nil, 0) != after.Resolve(key("a"), nil, 0) {
			t.Errorf("version %d with %d accounts", version, after.Len())
		}
		if v, err := d.Version(t.Context()); v != 2 || err != nil {
			t.Errorf("version %d, %v", v, err)
		}
	})
}

// TestBadSettingsAreLeftOut: what others have written and cannot be takes nothing else
// with it, whatever it is.
func TestBadSettingsAreLeftOut(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		putDocument(t, d, sqltenant.RulesDocument, "api", "domain: api")
		putDocument(t, d, sqltenant.SwitchDocument, "all", "{}")
		put(t, d, key("good"), "pro", perMinute(tenant.Default, 6))
		edit(t, d, key("bad"), "ann", start, func(r *sqltenant.Record) { r.TopUps = []tenant.TopUp{topUp("u", tenant.Default, 5)} })
		putRow(t, d, sqltenant.RuleRowChange{Row: row("user", 1)})
		tamper(t, dsn, `INSERT INTO documents (kind, name, text, version, updated_at, updated_by) VALUES
			('tiers', 'a`+"\n"+`b', 'x', 1, {1}, 'eve'), ('rules', 'large', '`+strings.Repeat("é", sqltenant.MaxDocument/2+1)+`', 1, {1}, 'eve'), ('unknown', 'x', 'x', 1, {1}, 'eve')`)
		tamper(t, dsn, `INSERT INTO rate_limit_rules (scope, limit_count, window_ms, algorithm) VALUES ('planet', 1, 1000, 'magic')`)
		tamper(t, dsn, `UPDATE account_top_ups SET descriptor = ' not canonical '`)
		rows := 2
		if strings.HasPrefix(dsn, "sqlite") { // which holds anything anywhere
			tamper(t, dsn, `PRAGMA ignore_check_constraints = 1; INSERT INTO rate_limit_rules (scope, limit_count, window_ms, is_active, created_at)
				VALUES (x'ff00', 1.5, 'soon', 'maybe', 'today')`)
			tamper(t, dsn, `UPDATE documents SET version = 'one', updated_at = 1.5 WHERE name = 'all'`)
			tamper(t, dsn, `UPDATE account_top_ups SET hits = 'many'`)
			rows++
		}
		l := newListener(t, d)
		l.load()
		s := l.times(1)
		if len(s.Documents) != 2 || s.Documents[0].Name != "api" || s.Documents[1].Name != "all" || len(s.RuleRows) != rows {
			t.Errorf("%d rows, documents %.200v", len(s.RuleRows), s.Documents)
		}
		if rows == 3 {
			if r := s.RuleRows[2]; r.LimitCount != -1 || r.WindowMS != -1 || r.Active || !r.CreatedAt.IsZero() || s.Documents[1].Version != -1 {
				t.Errorf("%+v, %+v", r, s.Documents[1])
			}
		}
		snapshot, _ := l.Snapshot()
		if snapshot.Len() != 1 || skippedAccounts(l.Watcher) != 1 {
			t.Errorf("%d accounts, %d skipped", snapshot.Len(), skippedAccounts(l.Watcher))
		}
		var named []string
		for _, err := range l.bad {
			if !errors.Is(err, sqltenant.ErrInvalid) {
				t.Errorf("%v", err)
			}
			named = append(named, err.Error())
		}
		all := strings.Join(named, "\n")
		for _, want := range []string{`document "a\nb" of the kind tiers`, `document "large" of the kind rules`, "account api_key:bad"} {
			if len(l.bad) != 3 || !strings.Contains(all, want) {
				t.Errorf("named %s, want %s", all, want)
			}
		}
		// All goes on: what is wrong is still there, and a change comes through.
		putDocument(t, d, sqltenant.RulesDocument, "api", "domain: other")
		l.follow()
		if s := l.times(2); s.Documents[0].Text != "domain: other" {
			t.Errorf("%+v", s)
		}
		if n, err := d.Verify(t.Context()); n != 6 || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}

// TestTooManyRuleRows: rows past the bound are left out, and that is said; no row is
// added through Headgate then. The table is filled once and read once, because with a
// file of SQLite and the race detector each takes seconds.
func TestTooManyRuleRows(t *testing.T) {
	racetest.Serially(t)
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		tamper(t, dsn, fmt.Sprintf(`INSERT INTO rate_limit_rules (scope, limit_count, window_ms)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT 'user', 1, 1000 FROM n`, sqltenant.MaxRuleRows+1))
		l := newListener(t, d)
		l.load()
		if s := l.times(1); len(s.RuleRows) != sqltenant.MaxRuleRows || len(l.bad) != 1 || !strings.Contains(l.bad[0].Error(), "more than 100000") {
			t.Errorf("%d rows, %v", len(s.RuleRows), l.bad)
		}
		_, _, err := d.PutRuleRow(t.Context(), sqltenant.RuleRowChange{Row: row("user", 1), Actor: "ann", At: start})
		if !errors.Is(err, sqltenant.ErrInvalid) || !strings.Contains(err.Error(), "delete some") {
			t.Errorf("one more row: %v", err)
		}
		if n, err := d.Verify(t.Context()); n != 0 || err != nil {
			t.Errorf("after the refusal %d changes, %v", n, err)
		}
	})
}

// TestFollowManyChanges: thousands of changes between two looks are followed, each
// account read once, with the last that was said of it.
func TestFollowManyChanges(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		l := newListener(t, d)
		l.load()
		set := func(name string, quota int64) sqltenant.Change {
			return sqltenant.Change{
				Subject: key(name), Actor: "ann", Version: sqltenant.Anyway, At: start,
				Edit: func(r *sqltenant.Record) error {
					r.Overrides = nil
					if quota > 0 {
						r.Overrides = []sqltenant.Override{perMinute(tenant.Default, quota)}
					}
					return nil
				},
			}
		}
		const accounts = 2500
		for from := 0; from < accounts; from += sqltenant.MaxChanges / 2 {
			var changes []sqltenant.Change
			for i := from; i < from+sqltenant.MaxChanges/2; i++ {
				changes = append(changes, set(fmt.Sprint(i), 5), set(fmt.Sprint(i), int64(i%5))) // every fifth goes again
			}
			if _, err := d.UpdateAll(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
		}
		tamper(t, dsn, `UPDATE quota_overrides SET unit = 'fortnight' WHERE subject = '1'`)
		l.follow()
		s, version := l.Snapshot()
		if v, err := d.Version(t.Context()); err != nil || version != v || s.Len() != accounts*4/5-1 {
			t.Errorf("version %d, want %d, %v; %d accounts", version, v, err, s.Len())
		}
		for i := range accounts {
			want := int64(i % 5)
			if i == 1 || want == 0 {
				want = 100 // that of the fallback tier
			}
			if got := s.Resolve(key(fmt.Sprint(i)), nil, 0).Quota.Limits[0].Quota; got != want {
				t.Fatalf("%d: %d, want %d", i, got, want)
			}
		}
		if len(l.bad) != 1 {
			t.Errorf("%v", l.bad)
		}
	})
}

// TestB8RowsByHandReachAllNodes writes rows with plain SQL and prints how long they
// took to be told on every node.
func TestB8RowsByHandReachAllNodes(t *testing.T) {
	dsn := testserver.PostgresDatabase(t)
	nodes := []*node{newNode(t, dsn), newNode(t, dsn)}
	for _, n := range nodes {
		n.until("the tier of an unknown key", func() bool { return n.quota(key("k")) == 100 })
	}
	db := raw(t, dsn)
	defer db.Close()
	known := func(count int64) func(*node) bool {
		return func(n *node) bool {
			rows := n.settings().RuleRows
			return len(rows) == 1 && rows[0].LimitCount == count
		}
	}
	var took []time.Duration
	for i := range 10 {
		statement := fmt.Sprintf(`UPDATE rate_limit_rules SET limit_count = %d`, i)
		if i == 0 {
			statement = `INSERT INTO rate_limit_rules (scope, limit_count, window_ms) VALUES ('ip', 0, 1000)`
		}
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		set := time.Now()
		for _, n := range nodes {
			n.until("the row", func() bool { return known(int64(i))(n) })
		}
		took = append(took, time.Since(set))
	}
	if _, err := db.ExecContext(t.Context(), `TRUNCATE rate_limit_rules`); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		n.until("no row", func() bool { return len(n.settings().RuleRows) == 0 })
		if v, err := n.db.Version(t.Context()); v != 0 || err != nil {
			t.Errorf("version %d, %v", v, err)
		}
	}
	slices.Sort(took)
	t.Logf("told on 2 nodes after: median %v, most %v of %d", took[len(took)/2], took[len(took)-1], len(took))
}

// TestRowsByHandAreRepaired: what somebody else wrote into a file of SQLite, of which
// nobody tells, is found by the next repair, with few accounts and with many.
func TestRowsByHandAreRepaired(t *testing.T) {
	for _, accounts := range []int{0, 10_001} {
		t.Run(fmt.Sprint(accounts), func(t *testing.T) {
			dsn := "sqlite://" + t.TempDir() + "/tenants.db"
			n := newNodeRepairing(t, dsn, 50*time.Millisecond, func() {
				tamper(t, dsn, fmt.Sprintf(`INSERT INTO accounts (subject_key, subject, last4, version, updated_at)
					WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT 'api_key', 'k' || i, '', 1, 1 FROM n WHERE i <= %d`, accounts+1, accounts))
				tamper(t, dsn, `INSERT INTO account_tiers (subject_key, subject, tier, effective_at) SELECT subject_key, subject, 'pro', 0 FROM accounts`)
			})
			n.until("the settings", func() bool {
				s, _ := n.watcher.Snapshot()
				return s != nil && s.Len() == accounts
			})
			tamper(t, dsn, `INSERT INTO rate_limit_rules (scope, limit_count, window_ms) VALUES ('ip', 10, 1000)`)
			n.until("the row", func() bool { return len(n.settings().RuleRows) == 1 })
		})
	}
}

func skippedAccounts(w *sqltenant.Watcher) int64 {
	accounts, _ := w.Skipped()
	return accounts
}
