package sqltenant_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// openReplica opens a replica as a process does.
func openReplica(t testing.TB, dsn string, seen int64) *sqltenant.DB {
	t.Helper()
	d, err := sqltenant.OpenReplica(t.Context(), dsn, sqltenant.ReplicaOptions{Seen: seen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// goneFrom asks a primary as WatcherOptions.Gone does.
func goneFrom(d *sqltenant.DB) func(context.Context, sqltenant.Point) (bool, error) {
	return func(ctx context.Context, at sqltenant.Point) (bool, error) {
		holds, err := d.Holds(ctx, at)
		return !holds, err
	}
}

// heard reports whether n was told of an error.
func (n *node) heard(target error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.errors, func(err error) bool { return errors.Is(err, target) })
}

// standby returns what a replica says of itself.
func standby(t testing.TB, d *sqltenant.DB) sqltenant.Standby {
	t.Helper()
	s, err := d.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReplicaIsFollowed: what is written to the primary comes by a replica that can only be
// read; the replica says how far it is; and while it is away what was read last counts.
func TestReplicaIsFollowed(t *testing.T) {
	primary := testserver.Postgres(t)
	replica := primary.Replica()
	if _, err := sqltenant.OpenReplica(t.Context(), replica.DSN, sqltenant.ReplicaOptions{}); err == nil || !strings.Contains(err.Error(), "hint: they come from the primary") {
		t.Fatalf("a replica without tables: %v", err)
	}
	d := open(t, primary.DSN)
	put(t, d, key("k"), "pro", perMinute(tenant.Default, 7))
	putDocument(t, d, sqltenant.RulesDocument, "api", "first")
	var r *sqltenant.DB
	eventually.Nil(t, "the tables come to the replica", func() (err error) {
		r, err = sqltenant.OpenReplica(t.Context(), replica.DSN, sqltenant.ReplicaOptions{})
		return err
	})
	t.Cleanup(func() { _ = r.Close() })
	n := newNodeOf(t, r, nodeOptions{gone: goneFrom(d)})
	n.until("what the primary has", func() bool { return n.quota(key("k")) == 7 && n.text("rules", "api") == "first" })
	put(t, d, key("k"), "pro", perMinute(tenant.Default, 8))
	putDocument(t, d, sqltenant.SwitchDocument, "all", "{}")
	n.until("changes", func() bool { return n.quota(key("k")) == 8 && n.text("switch", "all") == "{}" })

	// An idle primary makes no lag, however long ago its last transaction was.
	var lag sqltenant.Lag
	eventually.True(t, "the replica has all", func() bool {
		s := standby(t, r)
		behind, known := lag.Note(&s)
		return s.Replays && s.Receiving && !s.Paused && s.Unreplayed == 0 && !s.Last.IsZero() && s.Now.After(s.Last) && known && behind == 0
	})

	// A replay that is paused does, by what was received and not replayed.
	replica.PauseReplay()
	put(t, d, key("k"), "pro", perMinute(tenant.Default, 9))
	eventually.True(t, "the replica lags", func() bool {
		s := standby(t, r)
		behind, known := lag.Note(&s)
		return s.Receiving && s.Paused && s.Unreplayed > 0 && known && behind > 0
	})
	if got := n.quota(key("k")); got != 8 {
		t.Errorf("the quota is %d while the replay is paused, want 8", got)
	}
	if r, err := d.Get(t.Context(), key("k")); err != nil || r.Overrides[0].RequestsPerUnit != 9 {
		t.Errorf("the primary has %+v, %v", r, err)
	}
	replica.ResumeReplay()
	n.until("what was paused", func() bool { return n.quota(key("k")) == 9 })

	// While the replica is away what was read counts on, and nobody else is asked.
	replica.Kill()
	n.until("a failed read", func() bool { _, err := n.lastError(); return err != nil })
	put(t, d, key("k"), "pro", perMinute(tenant.Default, 10))
	if got := n.quota(key("k")); got != 9 {
		t.Errorf("without the replica the quota is %d, want 9", got)
	}
	replica.Restart()
	n.until("what was written meanwhile", func() bool { return n.quota(key("k")) == 10 })

	// Without its primary a replica does not know what it lacks: it says that, and is read.
	primary.Kill()
	eventually.True(t, "the replica is alone", func() bool {
		s, err := r.Standby(t.Context())
		if err != nil {
			return false
		}
		behind, known := lag.Note(&s)
		return !s.Receiving && known && behind > 0
	})
	if got := n.quota(key("k")); got != 10 {
		t.Errorf("without the primary the quota is %d, want 10", got)
	}
	if n.heard(sqltenant.ErrHistory) {
		t.Error("the one history there is was taken for another")
	}
}

// hosts is an address of several servers, of which the first that is there is used.
func hosts(t testing.TB, servers ...*testserver.PostgresServer) string {
	t.Helper()
	var names []string
	for _, s := range servers {
		u, err := url.Parse(s.DSN)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, u.Host)
	}
	u, err := url.Parse(servers[0].DSN)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(servers[0].DSN, u.Host, strings.Join(names, ","), 1)
}

// TestReplicaNeverGoesBack: who has read the primary, and comes to a replica that lags, keeps
// what he knows until the replica has it, and a start that knows a version does, too.
func TestReplicaNeverGoesBack(t *testing.T) {
	primary := testserver.Postgres(t)
	d := open(t, primary.DSN)
	put(t, d, key("k"), "pro", perMinute(tenant.Default, 7))
	putDocument(t, d, sqltenant.SwitchDocument, "all", "old")
	replica := primary.Replica()
	n := newNodeOf(t, openReplica(t, hosts(t, replica, primary), 0), nodeOptions{gone: goneFrom(d), repair: 10 * time.Millisecond})
	n.until("what the primary has", func() bool { return n.quota(key("k")) == 7 })

	replica.Exec("ALTER SYSTEM SET recovery_min_apply_delay = '1h'", "SELECT pg_reload_conf()")
	replica.Kill()
	put(t, d, key("k"), "pro", perMinute(tenant.Default, 8))
	putDocument(t, d, sqltenant.SwitchDocument, "all", "new")
	news := func() bool { return n.quota(key("k")) == 8 && n.text("switch", "all") == "new" }
	n.until("what the primary has meanwhile", news)
	replica.Restart()
	primary.Kill()
	n.until("the word that the replica is behind", func() bool { return n.heard(sqltenant.ErrBehind) })
	if !news() {
		t.Errorf("back to an older state: quota %d, switch %q", n.quota(key("k")), n.text("switch", "all"))
	}
	primary.Restart()
	behind := openReplica(t, replica.DSN, 4)
	if _, err := behind.Get(t.Context(), key("k")); !errors.Is(err, sqltenant.ErrBehind) {
		t.Errorf("an account of an older state was read: %v", err)
	}
	late := newNodeOf(t, openReplica(t, replica.DSN, 4), nodeOptions{gone: func(context.Context, sqltenant.Point) (bool, error) { return false, nil }})
	late.until("the word that the replica is behind", func() bool { return late.heard(sqltenant.ErrBehind) })
	if s, version := late.watcher.Snapshot(); s != nil || len(late.settings().Documents) != 0 {
		t.Errorf("version %d was read where 4 was known", version)
	}
	if !news() || n.heard(sqltenant.ErrHistory) {
		t.Errorf("back to an older state: quota %d, switch %q", n.quota(key("k")), n.text("switch", "all"))
	}
	replica.Exec("ALTER SYSTEM RESET recovery_min_apply_delay", "SELECT pg_reload_conf()")
	eventually.Nil(t, "a write", func() error { // the pool has connections to the server of before
		_, err := d.Update(t.Context(), sqltenant.Change{Subject: key("k"), Actor: "ann", Version: sqltenant.Anyway, At: start, Edit: func(r *sqltenant.Record) error {
			r.Overrides[0].RequestsPerUnit = 9
			return nil
		}})
		return err
	})
	for _, n := range []*node{n, late} {
		n.until("a further change, by the replica", func() bool { return n.quota(key("k")) == 9 && n.text("switch", "all") == "new" })
	}
}

// TestReplicaOfARestoredPrimary: where the primary says that what was read is no part of its
// history any more, the older state that the replica has is what counts.
func TestReplicaOfARestoredPrimary(t *testing.T) {
	primary := testserver.Postgres(t)
	d := open(t, primary.DSN)
	put(t, d, key("kept"), "pro", perMinute(tenant.Default, 5))
	backUp(t, primary, "before")
	put(t, d, key("lost"), "pro", perMinute(tenant.Default, 9999))
	put(t, d, key("kept"), "pro", perMinute(tenant.Default, 9998))
	replica := primary.Replica()
	n := newNodeOf(t, openReplica(t, replica.DSN, 0), nodeOptions{gone: goneFrom(d)})
	n.until("what will be lost", func() bool { return n.quota(key("lost")) == 9999 && n.quota(key("kept")) == 9998 })
	restore(t, primary, "before")
	n.until("what the primary has now", func() bool { return n.quota(key("lost")) == 100 && n.quota(key("kept")) == 5 })
	if !n.heard(sqltenant.ErrHistory) {
		t.Error("it did not say that the history has changed")
	}
	put(t, d, key("kept"), "pro", perMinute(tenant.Default, 6))
	n.until("a further change", func() bool { return n.quota(key("kept")) == 6 })
}

// TestReplicaHidesThePassword: of an address that cannot be used, or has nobody.
func TestReplicaHidesThePassword(t *testing.T) {
	for _, dsn := range []string{
		"sqlite:///hunter2.db", "postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable", "postgres://u:hunter2@h:port/d",
		fmt.Sprintf("postgres://u:hunter2@127.0.0.1:1,127.0.0.1:%d/d?sslmode=disable", 2),
	} {
		d, err := sqltenant.OpenReplica(t.Context(), dsn, sqltenant.ReplicaOptions{})
		if err == nil {
			_ = d.Close()
			t.Errorf("%s was opened", dsn)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	}
}

// TestLag: how old what a standby has is.
func TestLag(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	whole := sqltenant.Standby{Replays: true, Receiving: true}
	alone := sqltenant.Standby{Replays: true}
	type sample struct {
		now, last  int // seconds; last below 0: none
		says       sqltenant.Standby
		unreplayed int64
		want       int // below 0: not known
	}
	for name, samples := range map[string][]sample{
		"an idle primary":               {{now: 1000, last: 10, says: whole, want: 0}, {now: 9000, last: 10, says: whole, want: 0}},
		"a replay that is late":         {{now: 100, last: 97, says: whole, unreplayed: 5, want: 3}},
		"late after a long idle time":   {{now: 1000, last: 10, says: whole, want: 0}, {now: 1002, last: 10, says: whole, unreplayed: 5, want: 2}, {now: 1009, last: 10, says: whole, unreplayed: 5, want: 9}},
		"cut off after a long time":     {{now: 1000, last: 10, says: whole, want: 0}, {now: 1060, last: 10, says: alone, want: 60}},
		"cut off when it was first met": {{now: 1060, last: 10, says: alone, want: 1050}},
		"replayed nothing yet":          {{now: 10, last: -1, says: alone, want: -1}, {now: 11, last: -1, says: whole, unreplayed: 1, want: -1}, {now: 12, last: -1, says: whole, want: 0}, {now: 15, last: -1, says: alone, want: 3}},
		"the clock of the primary":      {{now: 10, last: 12, says: alone, want: 0}},
		"a primary":                     {{now: 10, last: -1, says: sqltenant.Standby{}, want: 0}, {now: 90, last: 5, says: sqltenant.Standby{}, want: 0}},
		"back in time":                  {{now: 1000, last: 10, says: whole, want: 0}, {now: 900, last: 10, says: alone, want: 0}},
	} {
		var lag sqltenant.Lag
		for i, s := range samples {
			s.says.Now, s.says.Unreplayed = at(s.now), s.unreplayed
			if s.last >= 0 {
				s.says.Last = at(s.last)
			}
			got, known := lag.Note(&s.says)
			if known != (s.want >= 0) || known && got != time.Duration(s.want)*time.Second {
				t.Errorf("%s, sample %d: %v %v, want %d s", name, i, got, known, s.want)
			}
		}
	}
}

// TestFailover: a process that is given a primary and its standby follows to the standby when that
// takes over. Until then it says that no server takes writes, and not of one alone that it is away.
func TestFailover(t *testing.T) {
	primary := testserver.Postgres(t)
	open(t, primary.DSN)
	second := primary.Replica()
	both, err := url.Parse(primary.DSN)
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(second.DSN)
	if err != nil {
		t.Fatal(err)
	}
	both.Host = other.Host + "," + both.Host
	query := both.Query()
	query.Set("target_session_attrs", "read-write")
	both.RawQuery = query.Encode()
	d := open(t, both.String())
	write := func(name string) error {
		_, err := d.PutDocument(t.Context(), sqltenant.DocumentChange{
			Kind: sqltenant.RulesDocument, Name: name, Text: "x", Actor: "ann", Version: sqltenant.Anyway, At: start,
		})
		return err
	}
	if err := write("before"); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	if _, err := sqltenant.Open(t.Context(), both.String()); err == nil || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "connection refused, and no other server is as target_session_attrs has it; hint: ") {
		t.Errorf("before the standby takes over: %v", err)
	}
	both.Host = other.Host
	if _, err := sqltenant.Open(t.Context(), both.String()); err == nil || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "no server is as target_session_attrs has it; hint: ") {
		t.Errorf("a standby alone: %v", err)
	}
	second.Exec("SELECT pg_promote()")
	eventually.Nil(t, "a change after the failover", func() error { return write("after") })
}
