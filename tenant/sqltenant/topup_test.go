package sqltenant_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

func topUp(id, descriptor string, hits int64) tenant.TopUp {
	return tenant.TopUp{ID: id, Descriptor: descriptor, Hits: hits, Term: tenant.Term{From: start, Until: start.Add(24 * time.Hour)}}
}

// edit changes an account.
func edit(t testing.TB, d *sqltenant.DB, subject tenant.Subject, actor string, at time.Time, change func(*sqltenant.Record)) sqltenant.Record {
	t.Helper()
	r, err := d.Update(t.Context(), sqltenant.Change{
		Subject: subject, Actor: actor, Version: sqltenant.Anyway, At: at,
		Edit: func(r *sqltenant.Record) error { change(r); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTopUpsAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		grants := []tenant.TopUp{topUp("order-1", tenant.Default, 500), topUp("", "op:x", 7)}
		made := edit(t, d, key("a"), "ann", start, func(r *sqltenant.Record) { r.TopUps = grants })
		if made.Version != 1 || len(made.TopUps) != 2 || made.TopUps[0] != grants[0] || len(made.TopUps[1].ID) != 36 {
			t.Fatalf("%+v", made)
		}
		grants[1].ID = made.TopUps[1].ID
		put(t, d, key("b"), "pro")

		d = open(t, dsn) // what another node sees
		r, err := d.Get(t.Context(), key("a"))
		if err != nil || r.Version != 1 || len(r.TopUps) != 2 || r.TopUps[0] != grants[0] || r.TopUps[1] != grants[1] {
			t.Errorf("%+v, %v, want %+v", r, err, grants)
		}
		list, err := d.List(t.Context(), tenant.Subject{}, 10)
		if err != nil || len(list) != 2 || len(list[0].TopUps) != 2 || len(list[1].TopUps) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		w := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{})
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, _ := w.Snapshot()
		if in := s.AppendGrants(nil, key("a"), nil, limit.MicrosOf(start)); len(in) != 1 || in[0].ID != "order-1" || in[0].Hits != 500 {
			t.Errorf("%d grants in force", len(in))
		}
		if same := edit(t, d, key("a"), "bob", start, func(*sqltenant.Record) {}); same.Version != 1 {
			t.Errorf("a change that changes nothing made version %d", same.Version)
		}

		// One goes, one grows, one comes; what stays keeps its origin.
		edit(t, d, key("a"), "bob", start.Add(time.Hour), func(r *sqltenant.Record) {
			r.TopUps = []tenant.TopUp{topUp("order-1", tenant.Default, 900), topUp("order-2", tenant.Default, 1)}
			r.Tiers = []tenant.Assignment{{Tier: "pro"}}
		})
		created := "created_at"
		if !strings.HasPrefix(dsn, "sqlite") {
			created = "(extract(epoch FROM created_at) * 1000000)::BIGINT"
		}
		origins := rowsOf(t, dsn, `SELECT id || ' ' || hits || ' ' || created_by || ' ' || `+created+` FROM account_top_ups ORDER BY id`)
		want := fmt.Sprintf("order-1 900 ann %d\norder-2 1 bob %d", start.UnixMicro(), start.Add(time.Hour).UnixMicro())
		if origins != want {
			t.Errorf("%s\nwant\n%s", origins, want)
		}
		entries, err := d.Changes(t.Context(), 2, 10)
		if err != nil || len(entries) != 1 || !strings.Contains(entries[0].Before, `"top_ups":[{"id":`) || !strings.Contains(entries[0].After, `{"id":"order-2","descriptor":"","hits":1,"effective_at_us":`) {
			t.Errorf("%+v, %v", entries, err)
		}

		gone := edit(t, d, key("a"), "bob", start, func(r *sqltenant.Record) { r.Tiers, r.TopUps = nil, nil })
		if left := rowsOf(t, dsn, `SELECT id FROM account_top_ups`); gone.Version != 0 || left != "" {
			t.Errorf("an account that was taken out: %+v, left %s", gone, left)
		}
		if n, err := d.Verify(t.Context()); n != 4 || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}

// TestTopUpsOfOneName: an ID is one of its account; another account may have it too.
func TestTopUpsOfOneName(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		for i, name := range []string{"a", "b"} {
			edit(t, d, key(name), "ann", start, func(r *sqltenant.Record) {
				r.TopUps = []tenant.TopUp{topUp("welcome", tenant.Default, int64(i+1))}
			})
		}
		for i, name := range []string{"a", "b"} {
			if r, err := d.Get(t.Context(), key(name)); err != nil || len(r.TopUps) != 1 || r.TopUps[0].Hits != int64(i+1) {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}

func TestTopUpsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		many := make([]tenant.TopUp, tenant.MaxTopUps+1)
		for i := range many {
			many[i] = topUp(fmt.Sprint(i), tenant.Default, 1)
		}
		endless := topUp("a", tenant.Default, 1)
		endless.Term.Until = time.Time{}
		for want, topUps := range map[string][]tenant.TopUp{
			"257 top-ups": many,
			"second one":  {topUp("a", tenant.Default, 1), topUp("a", "op:x", 1)},
			"hits":        {topUp("a", tenant.Default, 0)},
			"id":          {topUp("a b", tenant.Default, 1)},
			"end":         {endless},
		} {
			_, err := d.Update(t.Context(), sqltenant.Change{
				Subject: key("a"), Actor: "ann", Version: sqltenant.Anyway, At: start,
				Edit: func(r *sqltenant.Record) error { r.TopUps = topUps; return nil },
			})
			if !errors.Is(err, sqltenant.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}

// rowsOf returns the first column of an answer, one value a line.
func rowsOf(t testing.TB, dsn, query string) string {
	t.Helper()
	db := raw(t, dsn)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}
