package sqltenant_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

// onEach runs a test on SQLite and on PostgreSQL: a new database each.
func onEach(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite://"+filepath.Join(t.TempDir(), "tenants.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, testserver.PostgresDatabase(t)) })
}

func open(t testing.TB, dsn string) *sqltenant.DB {
	t.Helper()
	d, err := sqltenant.Open(t.Context(), dsn)
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

func key(name string) tenant.Subject { return tenant.Subject{Key: "api_key", Value: name} }

var start = time.Date(2026, 1, 1, 12, 0, 0, 123456000, time.UTC)

func perMinute(descriptor string, n int64) sqltenant.Override {
	return sqltenant.Override{Descriptor: descriptor, RequestsPerUnit: n, Unit: time.Minute}
}

// put gives a subject a tier and overrides, whatever it had.
func put(t *testing.T, d *sqltenant.DB, subject tenant.Subject, tier string, overrides ...sqltenant.Override) sqltenant.Record {
	t.Helper()
	r, err := d.Update(t.Context(), sqltenant.Change{
		Subject: subject, Actor: "ann", Version: sqltenant.Anyway, At: start,
		Edit: func(r *sqltenant.Record) error {
			r.Last4, r.Tiers, r.Overrides = "wxyz", []tenant.Assignment{{Tier: tier}}, overrides
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Many processes open a new database at once: one makes the tables, and all can use
// them.
func TestManyOpenAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		var opened sync.WaitGroup
		for i := range 8 {
			opened.Go(func() {
				d, err := sqltenant.Open(t.Context(), dsn)
				if err != nil {
					t.Error(err)
					return
				}
				defer d.Close()
				if _, err := d.Update(t.Context(), sqltenant.Change{
					Subject: key(fmt.Sprint(i)), Actor: "ann", Version: sqltenant.Anyway, At: start,
					Edit: func(r *sqltenant.Record) error { r.Tiers = []tenant.Assignment{{Tier: "pro"}}; return nil },
				}); err != nil {
					t.Error(err)
				}
			})
		}
		opened.Wait()
		if list, err := open(t, dsn).List(t.Context(), tenant.Subject{}, 100); len(list) != 8 || err != nil {
			t.Errorf("%d accounts, %v", len(list), err)
		}
	})
}

func TestI1AccountsAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		if r, err := d.Get(t.Context(), key("none")); r.Version != 0 || err != nil || r.Subject != key("none") {
			t.Errorf("an account that is not there: %+v, %v", r, err)
		}
		raised := perMinute("endpoint:POST /v1/orders", 70)
		raised.Algorithm, raised.Burst = limit.TokenBucket, 90
		raised.Term = tenant.Term{From: start.Add(time.Hour), Until: start.Add(2 * time.Hour)}
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 2000), raised, sqltenant.Override{Descriptor: "endpoint:GET /", Unlimited: true})

		d = open(t, dsn) // what another node sees
		r, err := d.Get(t.Context(), key("a"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Last4 != "wxyz" || r.Version != 1 || !r.UpdatedAt.Equal(start) || len(r.Tiers) != 1 || r.Tiers[0].Tier != "pro" || len(r.Overrides) != 3 {
			t.Fatalf("%+v", r)
		}
		for i, want := range []string{
			"default 2000/1m0s sliding_window burst 0", "endpoint:GET / unlimited", "endpoint:POST /v1/orders 70/1m0s token_bucket burst 90",
		} {
			o := r.Overrides[i]
			got := fmt.Sprintf("%s %d/%v %v burst %d", tenant.DescriptorText(o.Descriptor), o.RequestsPerUnit, o.Unit, o.Algorithm, o.Burst)
			if o.Unlimited {
				got = o.Descriptor + " unlimited"
			}
			if got != want || o.CreatedBy != "ann" || !o.CreatedAt.Equal(start) || len(o.ID) != 36 {
				t.Errorf("override %d: %s, want %s (%+v)", i, got, want, o)
			}
		}
		if got := r.Overrides[2].Term; !got.From.Equal(raised.Term.From) || !got.Until.Equal(raised.Term.Until) {
			t.Errorf("term %v, want %v", got, raised.Term)
		}
	})
}

// TestUpdateKeepsOrigin: what a change does not touch keeps its id and its origin.
func TestUpdateKeepsOrigin(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		before := put(t, d, key("a"), "pro", perMinute(tenant.Default, 1), perMinute("x:y", 2))
		after, err := d.Update(t.Context(), sqltenant.Change{
			Subject: key("a"), Actor: "bob", Version: before.Version, At: start.Add(time.Minute),
			Edit: func(r *sqltenant.Record) error { r.Overrides[1].RequestsPerUnit = 3; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if after.Version != 2 || !reflect.DeepEqual(after.Overrides[0], before.Overrides[0]) {
			t.Errorf("the first override became %+v, was %+v", after.Overrides[0], before.Overrides[0])
		}
		if o := after.Overrides[1]; o.ID != before.Overrides[1].ID || o.CreatedBy != "ann" || !o.UpdatedAt.Equal(start.Add(time.Minute)) {
			t.Errorf("the second became %+v, was %+v", o, before.Overrides[1])
		}
		if again := put(t, d, key("a"), "pro", after.Overrides...); again.Version != 2 {
			t.Errorf("a change that changes nothing made version %d", again.Version)
		}
	})
}

func TestUpdateRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 1))
		mine := errors.New("mine")
		for _, test := range []struct {
			name    string
			subject tenant.Subject
			version int64
			edit    func(*sqltenant.Record) error
			want    error
			text    string
		}{
			{"another version", key("a"), 7, func(*sqltenant.Record) error { return nil }, sqltenant.ErrConflict, "version 1, not 7"},
			{"must be new", key("a"), 0, func(*sqltenant.Record) error { return nil }, sqltenant.ErrConflict, "version 1"},
			{"edit fails", key("a"), 1, func(*sqltenant.Record) error { return mine }, mine, ""},
			{"two at one instant", key("a"), 1, func(r *sqltenant.Record) error {
				r.Overrides = append(r.Overrides, r.Overrides[0])
				return nil
			}, sqltenant.ErrInvalid, "override 1"},
			{"negative", key("a"), 1, func(r *sqltenant.Record) error { r.Overrides[0].RequestsPerUnit = -1; return nil }, sqltenant.ErrInvalid, "override 0"},
			{"huge", key("a"), 1, func(r *sqltenant.Record) error { r.Overrides[0].RequestsPerUnit = 1 << 60; return nil }, sqltenant.ErrInvalid, "override 0"},
			{"ends first", key("a"), 1, func(r *sqltenant.Record) error {
				r.Overrides[0].Term = tenant.Term{From: start, Until: start.Add(-1)}
				return nil
			}, sqltenant.ErrInvalid, "ends before"},
			{"ends before 1970", key("a"), 1, func(r *sqltenant.Record) error {
				r.Overrides[0].Term = tenant.Term{Until: time.Unix(0, 0)}
				return nil
			}, sqltenant.ErrInvalid, "before 1970"},
			{"a whole key", key("a"), 1, func(r *sqltenant.Record) error { r.Last4 = "sk_live"; return nil }, sqltenant.ErrInvalid, "four letters"},
			{"no quota over time", key("a"), 1, func(r *sqltenant.Record) error { r.Overrides[0].Algorithm = limit.Concurrency; return nil }, sqltenant.ErrInvalid, "over time"},
			{"control bytes", key("a\x00b"), 0, func(r *sqltenant.Record) error { r.Tiers = []tenant.Assignment{{Tier: "pro"}}; return nil }, sqltenant.ErrInvalid, "printable"},
			{"empty", tenant.Subject{Key: "api_key"}, 0, func(r *sqltenant.Record) error { r.Tiers = []tenant.Assignment{{Tier: "pro"}}; return nil }, sqltenant.ErrInvalid, "empty"},
		} {
			_, err := d.Update(t.Context(), sqltenant.Change{Subject: test.subject, Actor: "ann", Version: test.version, At: start, Edit: test.edit})
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: %v, want %v with %q", test.name, err, test.want, test.text)
			}
		}
		if _, err := d.Update(t.Context(), sqltenant.Change{Subject: key("a"), At: start}); !errors.Is(err, sqltenant.ErrInvalid) {
			t.Errorf("nobody did it: %v", err)
		}
		if r, err := d.Get(t.Context(), key("a")); err != nil || r.Version != 1 || r.Overrides[0].RequestsPerUnit != 1 {
			t.Errorf("after the refusals: %+v, %v", r, err)
		}
		if n, err := d.Verify(t.Context()); n != 1 || err != nil {
			t.Errorf("after the refusals %d changes, %v", n, err)
		}
	})
}

// TestQuotedSubjects: keys that look like SQL, and ones that look alike, are what
// they are.
func TestQuotedSubjects(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		names := []string{"'; DROP TABLE accounts; --", "%", "_", `\`, "а", "a", "$1", "é", "e\u0301"}
		for i, name := range names {
			put(t, d, key(name), "pro", perMinute(tenant.Default, int64(i+1)))
		}
		for i, name := range names {
			r, err := d.Get(t.Context(), key(name))
			if err != nil || len(r.Overrides) != 1 || r.Overrides[0].RequestsPerUnit != int64(i+1) {
				t.Errorf("%q: %+v, %v", name, r, err)
			}
		}
	})
}

func TestListPages(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		for i := range 7 {
			put(t, d, key(fmt.Sprint(i)), "pro", perMinute(tenant.Default, int64(i+1)), perMinute("x:y", 1))
		}
		var seen []string
		for after := (tenant.Subject{}); ; {
			page, err := d.List(t.Context(), after, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				if len(r.Tiers) != 1 || len(r.Overrides) != 2 {
					t.Errorf("%+v", r)
				}
				seen = append(seen, r.Subject.Value)
			}
			if len(page) < 3 {
				break
			}
			after = page[len(page)-1].Subject
		}
		if got := strings.Join(seen, ""); got != "0123456" {
			t.Errorf("listed %s", got)
		}
	})
}

// TestConcurrentUpdates: of writers that all mean the same version one wins, and
// writers who do not care all do.
func TestConcurrentUpdates(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d, other := open(t, dsn), open(t, dsn)
		const writers = 8
		var won, added sync.Map
		var group sync.WaitGroup
		for i := range writers {
			db := d
			if i%2 == 1 {
				db = other
			}
			group.Go(func() {
				_, err := db.Update(t.Context(), sqltenant.Change{
					Subject: key("one"), Actor: fmt.Sprint(i), Version: 0, At: start,
					Edit: func(r *sqltenant.Record) error {
						r.Overrides = append(r.Overrides, perMinute(tenant.Default, 1))
						return nil
					},
				})
				if err == nil {
					won.Store(i, true)
				} else if !errors.Is(err, sqltenant.ErrConflict) {
					t.Errorf("writer %d: %v", i, err)
				}
				_, err = db.Update(t.Context(), sqltenant.Change{
					Subject: key("all"), Actor: fmt.Sprint(i), Version: sqltenant.Anyway, At: start,
					Edit: func(r *sqltenant.Record) error {
						r.Overrides = append(r.Overrides, perMinute(fmt.Sprintf("x:%d", i), 1))
						return nil
					},
				})
				if err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
				added.Store(i, true)
			})
		}
		group.Wait()
		if n := size(&won); n != 1 {
			t.Errorf("%d writers made the account", n)
		}
		r, err := d.Get(t.Context(), key("all"))
		if err != nil || len(r.Overrides) != writers {
			t.Errorf("%d overrides, %v, want %d", len(r.Overrides), err, writers)
		}
		if n, err := d.Verify(t.Context()); n != writers+1 || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func TestOpenRefuses(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                             "hint: sqlite:///path",
		"mysql://u:secret@h/db":        "hint: sqlite:///path",
		"sqlite://relative.db":         "absolute",
		"sqlite:///a?b":                "absolute",
		"postgres://u:secret@h:port/d": "cannot be read",
		"postgres://u:secret@127.0.0.1:1/d?sslmode=disable": "migrate tenants in postgres://127.0.0.1:1/d: dial tcp 127.0.0.1:1: connect: connection refused; hint: is PostgreSQL running there?",
		"sqlite:///no/such/folder/tenants.db":               "open /no/such/folder/tenants.db",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		d, err := sqltenant.Open(ctx, dsn)
		cancel()
		if err == nil {
			t.Errorf("%s was opened as %v", dsn, d)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q and no secret", dsn, err, want)
		}
	}
}

// TestMigrateTogether: nodes that start at once on an empty database all serve.
func TestMigrateTogether(t *testing.T) {
	dsn := testserver.PostgresDatabase(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			d, err := sqltenant.Open(t.Context(), dsn)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			if v, err := d.Version(t.Context()); v != 0 || err != nil {
				t.Errorf("version %d, %v", v, err)
			}
		})
	}
	group.Wait()
}

// TestUpdateAll: all changes or none, each with a version of its own, and none for
// one that changes nothing.
func TestUpdateAll(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		to := func(name, tier string) sqltenant.Change {
			return sqltenant.Change{
				Subject: key(name), Actor: "ann", Version: sqltenant.Anyway, At: start,
				Edit: func(r *sqltenant.Record) error { r.Tiers = []tenant.Assignment{{Tier: tier}}; return nil },
			}
		}
		records, err := d.UpdateAll(t.Context(), []sqltenant.Change{to("a", "pro"), to("b", "pro"), to("a", "pro"), to("a", "free")})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int64{1, 2, 1, 3} {
			if records[i].Version != want {
				t.Errorf("change %d made version %d, want %d", i, records[i].Version, want)
			}
		}
		if _, err := d.UpdateAll(t.Context(), []sqltenant.Change{to("c", "pro"), to("d", "no tier")}); !errors.Is(err, sqltenant.ErrInvalid) {
			t.Errorf("%v", err)
		}
		if _, err := d.UpdateAll(t.Context(), make([]sqltenant.Change, sqltenant.MaxChanges+1)); !errors.Is(err, sqltenant.ErrInvalid) {
			t.Errorf("%v", err)
		}
		if n, err := d.Verify(t.Context()); n != 3 || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}
