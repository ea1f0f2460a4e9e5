package sqltenant_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// patience bounds how long a test waits for what must come.
const patience = 60 * time.Second

func someTiers(t testing.TB) *tenant.Tiers {
	t.Helper()
	free := &tenant.Quota{Limits: []tenant.Limit{{Limit: limit.Must(limit.PerMinute(100))}}}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: free}}, {Name: "pro"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	return tiers
}

// node is one process of a fleet: a database of its own connections, and a watcher.
type node struct {
	t       *testing.T
	db      *sqltenant.DB
	watcher *sqltenant.Watcher
	mu      sync.Mutex
	errors  []error
	told    []sqltenant.Settings
	changed chan struct{} // holds one
}

func newNode(t *testing.T, dsn string) *node {
	t.Helper()
	return newNodeRepairing(t, dsn, 0, func() {})
}

// newNodeRepairing returns a node that does something before it runs, and repairs as
// often as asked, if that is not 0.
func newNodeRepairing(t *testing.T, dsn string, every time.Duration, before func()) *node {
	t.Helper()
	return newNodeOf(t, open(t, dsn), nodeOptions{repair: every, before: before})
}

// nodeOptions say how a node is made.
type nodeOptions struct {
	repair time.Duration // 0: as often as ever
	before func()        // nil: nothing is done before it runs
	gone   func(context.Context, sqltenant.Point) (bool, error)
}

// newNodeOf returns a node on a database that is open.
func newNodeOf(t *testing.T, db *sqltenant.DB, o nodeOptions) *node {
	t.Helper()
	n := &node{t: t, db: db, changed: make(chan struct{}, 1)}
	n.watcher = sqltenant.NewWatcher(n.db, someTiers(t), sqltenant.WatcherOptions{
		Gone:     o.gone,
		OnChange: func(*tenant.Snapshot, sqltenant.Point) { n.wake() },
		OnSettings: func(s sqltenant.Settings) {
			n.mu.Lock()
			n.told = append(n.told, s)
			n.mu.Unlock()
			n.wake()
		},
		OnError: func(err error) {
			n.mu.Lock()
			n.errors = append(n.errors, err)
			n.mu.Unlock()
			n.wake()
		},
	})
	if o.repair != 0 {
		n.watcher.RepairEvery(o.repair)
	}
	if o.before != nil {
		o.before()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.watcher.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return n
}

func (n *node) wake() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// until waits for a condition that only a change of this node can fulfil.
func (n *node) until(what string, met func() bool) {
	n.t.Helper()
	deadline := time.After(patience)
	for !met() {
		select {
		case <-n.changed:
		case <-deadline:
			n.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// quota returns the default quota that n knows of a subject, 0 for none.
func (n *node) quota(subject tenant.Subject) int64 {
	s, _ := n.watcher.Snapshot()
	if s == nil {
		return 0
	}
	r := s.Resolve(subject, nil, limit.MicrosOf(start))
	if r.Quota == nil {
		return 0
	}
	return r.Quota.Limits[0].Quota
}

// settings returns those that n was told last.
func (n *node) settings() (s sqltenant.Settings) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.told) > 0 {
		s = n.told[len(n.told)-1]
	}
	return s
}

// text returns the text of a document that n knows.
func (n *node) text(kind sqltenant.Kind, name string) string {
	for _, d := range n.settings().Documents {
		if d.Kind == kind && d.Name == name {
			return d.Text
		}
	}
	return ""
}

// lastError returns how many errors n was told, nil ones included, and the last.
func (n *node) lastError() (told int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.errors) == 0 {
		return 0, nil
	}
	return len(n.errors), n.errors[len(n.errors)-1]
}

// TestI2ChangesReachAllNodes sets overrides on one of three nodes and prints how
// long they took to be in force on the others.
//
//promise:multi-tenant
func TestI2ChangesReachAllNodes(t *testing.T) {
	dsn := testserver.PostgresDatabase(t)
	nodes := []*node{newNode(t, dsn), newNode(t, dsn), newNode(t, dsn)}
	for _, n := range nodes {
		n.until("the tier of an unknown key", func() bool { return n.quota(key("k")) == 100 })
	}
	var took []time.Duration
	for i := range 30 {
		subject := key(fmt.Sprint(i % 3))
		put(t, nodes[i%3].db, subject, "pro", perMinute(tenant.Default, int64(1000+i)))
		set := time.Now()
		for _, n := range nodes {
			n.until("an override", func() bool { return n.quota(subject) == int64(1000+i) })
		}
		took = append(took, time.Since(set))
	}
	slices.Sort(took)
	t.Logf("in force on all of 3 nodes after: median %v, most %v of %d", took[len(took)/2], took[len(took)-1], len(took))
}

func TestChangesWithinOneProcess(t *testing.T) {
	n := newNode(t, "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	n.until("the tier of an unknown key", func() bool { return n.quota(key("k")) == 100 })
	put(t, n.db, key("k"), "pro", perMinute(tenant.Default, 7))
	n.until("an override", func() bool { return n.quota(key("k")) == 7 })
	put(t, n.db, key("k"), "free")
	n.until("the tier again", func() bool { return n.quota(key("k")) == 100 })
}

// TestE7DatabaseGone: while PostgreSQL is away the last snapshot counts and writes
// fail; when it is back, what others wrote meanwhile arrives.
func TestE7DatabaseGone(t *testing.T) {
	server := testserver.Postgres(t)
	n := newNode(t, server.DSN)
	put(t, n.db, key("k"), "pro", perMinute(tenant.Default, 7))
	putDocument(t, n.db, sqltenant.RulesDocument, "api", "before")
	n.until("an override and a document", func() bool { return n.quota(key("k")) == 7 && n.text("rules", "api") == "before" })
	server.Kill()
	put := func() error {
		_, err := n.db.Update(t.Context(), sqltenant.Change{
			Subject: key("k"), Actor: "ann", Version: sqltenant.Anyway, At: start,
			Edit: func(r *sqltenant.Record) error { r.Overrides[0].RequestsPerUnit++; return nil },
		})
		return err
	}
	if err := put(); err == nil {
		t.Error("a write without a database")
	}
	n.until("a failed read", func() bool { _, err := n.lastError(); return err != nil })
	if got := n.quota(key("k")); got != 7 || n.text("rules", "api") != "before" {
		t.Errorf("without the database the quota is %d, the settings %+v", got, n.settings())
	}
	if _, err := n.db.PutDocument(t.Context(), sqltenant.DocumentChange{
		Kind: sqltenant.RulesDocument, Name: "api", Text: "meanwhile", Actor: "ann", Version: sqltenant.Anyway, At: start,
	}); err == nil {
		t.Error("a document was written without a database")
	}
	server.Restart()
	other := open(t, server.DSN)
	putDocument(t, other, sqltenant.RulesDocument, "api", "after")
	tamper(t, server.DSN, `INSERT INTO rate_limit_rules (scope, limit_count, window_ms) VALUES ('ip', 10, 1000)`)
	n.until("the word that it works again", func() bool { told, err := n.lastError(); return told > 0 && err == nil })
	if err := put(); err != nil {
		t.Errorf("a write to the database that is back: %v", err)
	}
	n.until("the new quota", func() bool { return n.quota(key("k")) == 8 })
	n.until("the new document and row", func() bool { return n.text("rules", "api") == "after" && len(n.settings().RuleRows) == 1 })
}

// TestBadRowsAreLeftOut: what somebody has written by hand and cannot be takes
// nothing else with it.
func TestBadRowsAreLeftOut(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		put(t, d, key("bad"), "pro", perMinute(tenant.Default, 5))
		put(t, d, key("good"), "pro", perMinute(tenant.Default, 6))
		tamper(t, dsn, `UPDATE quota_overrides SET unit = 'fortnight' WHERE subject = 'bad'`)
		var named []error
		w := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{OnError: func(err error) { named = append(named, err) }})
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, version := w.Snapshot()
		if accounts, parts := w.Skipped(); version != 2 || s.Len() != 2 || accounts != 0 || parts != 1 || len(named) != 1 {
			t.Errorf("version %d, %d accounts, %d and %d parts skipped, %v", version, s.Len(), accounts, parts, named)
		}
		if got := s.Resolve(key("good"), nil, 0).Quota.Limits[0].Quota; got != 6 {
			t.Errorf("the good one has %d", got)
		}
		// It loses the override that cannot be, and not its tier.
		if got := s.Resolve(key("bad"), nil, 0); got.Tier != "pro" || got.Source != tenant.FromRule {
			t.Errorf("the bad one has %+v", got)
		}
	})
}

// TestReadingAgainChangesNothing: quotas that are read again are those that were read
// before, so that what is remembered by their limits stays.
func TestReadingAgainChangesNothing(t *testing.T) {
	d := open(t, "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	put(t, d, key("a"), "pro", perMinute(tenant.Default, 5), sqltenant.Override{Descriptor: "op:x", Unlimited: true})
	put(t, d, key("b"), "pro", perMinute(tenant.Default, 5), perMinute("op:x", 5))
	w := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{})
	if !w.ReadAt().IsZero() {
		t.Errorf("read at %v before any read", w.ReadAt())
	}
	load := func() *tenant.Snapshot {
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, _ := w.Snapshot()
		return s
	}
	first, second := load(), load()
	for _, name := range []string{"a", "b"} {
		for _, rest := range [][]descriptor.Entry{nil, {{Key: "op", Value: "x"}}} {
			before, after := first.Resolve(key(name), rest, 0), second.Resolve(key(name), rest, 0)
			if before != after || before.Source != tenant.FromOverride {
				t.Errorf("%s %v: %+v, then %+v", name, rest, before, after)
			}
		}
	}
	if first.Resolve(key("a"), nil, 0).Quota != first.Resolve(key("b"), nil, 0).Quota {
		t.Error("two accounts with the same quota do not share it")
	}
	if w.ReadAt().IsZero() {
		t.Error("never read")
	}
}

// TestFollowIsLoad: a watcher that follows changes one by one ends where one does
// that reads everything.
func TestFollowIsLoad(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		follower := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{})
		for i := range 20 {
			if i%4 == 3 {
				put(t, d, key(fmt.Sprint(i%5)), "free")
			} else {
				put(t, d, key(fmt.Sprint(i%5)), "pro", perMinute(tenant.Default, int64(i+1)))
			}
			if i%3 == 0 {
				if err := follower.Follow(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		reader := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{})
		for _, err := range []error{follower.Follow(t.Context()), reader.Load(t.Context())} {
			if err != nil {
				t.Fatal(err)
			}
		}
		a, va := follower.Snapshot()
		b, vb := reader.Snapshot()
		if va != vb || a.Len() != b.Len() {
			t.Errorf("version %d with %d accounts, want %d with %d", va, a.Len(), vb, b.Len())
		}
		for i := range 6 {
			subject := key(fmt.Sprint(i))
			x, y := a.Resolve(subject, nil, 0), b.Resolve(subject, nil, 0)
			if x.Tier != y.Tier || x.Source != y.Source || (x.Quota != nil && x.Quota.Limits[0].Quota != y.Quota.Limits[0].Quota) {
				t.Errorf("%v: %+v, want %+v", subject, x, y)
			}
		}
	})
}
