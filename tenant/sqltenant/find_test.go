package sqltenant_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// tierAt is the tier in force: of those in force the one that began last.
func tierAt(r *sqltenant.Record, at time.Time) (tier string) {
	begun := time.Time{}
	for _, a := range r.Tiers {
		if a.Term.InForce(limit.MicrosOf(at)) && !a.Term.From.Before(begun) {
			tier, begun = a.Tier, a.Term.From
		}
	}
	return tier
}

// found is what Find returns of records, which are in the order of their subjects.
func found(records []sqltenant.Record, o sqltenant.ListOptions) (names []string) {
	for i := range records {
		r := &records[i]
		s := r.Subject
		switch {
		case s.Key < o.After.Key || s.Key == o.After.Key && s.Value <= o.After.Value:
		case o.Prefix.Key != "" && (s.Key != o.Prefix.Key || !strings.HasPrefix(s.Value, o.Prefix.Value)):
		case o.Tier != "" && tierAt(r, o.At) != o.Tier:
		case slices.Contains(o.OtherTiers, tierAt(r, o.At)):
		case len(names) < max(o.N, 1):
			names = append(names, s.Key+":"+s.Value)
		}
	}
	return names
}

// TestFindIsAFilter: whatever is asked for, Find returns what a filter in Go does.
func TestFindIsAFilter(t *testing.T) {
	racetest.Serially(t)
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		keys := []string{"api_key", "org", "or"}
		letters := []string{"", "a", "b", "%", "_", "é", "\ud7a3", "\uf900", "ab", "aa"}
		tiers := []string{"free", "pro", "old"}
		var changes []sqltenant.Change
		for i, k := range keys {
			for j, first := range letters[1:] {
				for l, second := range letters {
					var assigned []tenant.Assignment
					for n := range (i + j + l) % 4 {
						term := tenant.Term{From: start.Add(time.Duration(n) * time.Hour)}
						if n == 0 {
							term.From = time.Time{}
						}
						if (j+l+n)%3 == 0 {
							term.Until = start.Add(time.Duration(n)*time.Hour + 90*time.Minute)
						}
						assigned = append(assigned, tenant.Assignment{Tier: tiers[(i+j*l+n)%3], Term: term})
					}
					changes = append(changes, sqltenant.Change{
						Subject: tenant.Subject{Key: k, Value: first + second}, Actor: "ann", Version: sqltenant.Anyway, At: start,
						Edit: func(r *sqltenant.Record) error {
							r.Tiers, r.Overrides = assigned, []sqltenant.Override{perMinute(tenant.Default, 1)}
							return nil
						},
					})
				}
			}
		}
		if _, err := d.UpdateAll(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		all, err := d.List(t.Context(), tenant.Subject{}, sqltenant.MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(all, func(a, b sqltenant.Record) int {
			return strings.Compare(a.Subject.Key+"\x00"+a.Subject.Value, b.Subject.Key+"\x00"+b.Subject.Value)
		}) {
			t.Fatal("not in the order of subjects")
		}
		text := rapid.SampledFrom(append(letters, "\ud7ff", "\U0010ffff"))
		rapid.Check(t, func(rt *rapid.T) {
			o := sqltenant.ListOptions{
				N:  rapid.IntRange(0, 400).Draw(rt, "n"),
				At: start.Add(time.Duration(rapid.IntRange(-1, 10).Draw(rt, "at")) * 30 * time.Minute),
			}
			if rapid.Bool().Draw(rt, "after") {
				o.After = tenant.Subject{Key: rapid.SampledFrom(keys).Draw(rt, "key"), Value: text.Draw(rt, "value")}
			}
			if rapid.Bool().Draw(rt, "prefix") {
				o.Prefix = tenant.Subject{Key: rapid.SampledFrom(append(keys, "none")).Draw(rt, "prefix key"), Value: text.Draw(rt, "1") + text.Draw(rt, "2")}
			}
			if rapid.Bool().Draw(rt, "tier") {
				o.Tier = rapid.SampledFrom(append(tiers, "none")).Draw(rt, "tier name")
			}
			if rapid.Bool().Draw(rt, "others") {
				o.OtherTiers = rapid.SliceOfNDistinct(rapid.SampledFrom(tiers), 1, 3, rapid.ID).Draw(rt, "other tiers")
			}
			records, err := d.Find(t.Context(), o)
			if err != nil {
				rt.Fatal(err)
			}
			var got []string
			for i := range records {
				got = append(got, records[i].Subject.Key+":"+records[i].Subject.Value)
				if len(records[i].Overrides) != 1 {
					rt.Errorf("%+v", records[i])
				}
			}
			if want := found(all, o); !slices.Equal(got, want) {
				rt.Errorf("%+v: %q, want %q", o, got, want)
			}
		})
	})
}

// TestFindUsesIndexes: neither a tier nor the beginning of a name nor a page is found
// by reading a whole table.
func TestFindUsesIndexes(t *testing.T) {
	racetest.Serially(t)
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		const subjects = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT 'api_key', 'a' || i`
		tamper(t, dsn, `INSERT INTO accounts (subject_key, subject, last4, version, updated_at) `+subjects+`, '', i, {1} FROM n`)
		tamper(t, dsn, `INSERT INTO account_tiers (subject_key, subject, tier, effective_at) `+subjects+`, 'pro', {0} FROM n`)
		for name, o := range map[string]sqltenant.ListOptions{
			"page":   {After: key("a"), N: 10},
			"tier":   {Tier: "pro", N: 10, At: start},
			"prefix": {Prefix: key("a7"), N: 10},
			"both":   {Prefix: key("a7"), Tier: "pro", N: 10, At: start},
			"others": {OtherTiers: []string{"free", "old"}, N: 10, At: start},
		} {
			for statement, args := range d.Statements(o) {
				if strings.Contains(statement, "FROM quota_overrides") || strings.Contains(statement, "FROM account_top_ups") {
					continue // they are empty, and read as the tiers are
				}
				plan := explain(t, dsn, statement, args)
				for _, whole := range []string{"TEMP B-TREE", "SCAN a", "SCAN t", "SCAN i", "Seq Scan", "Hash"} {
					if strings.Contains(plan, whole) {
						t.Errorf("%s: %s\n%s", name, statement, plan)
					}
				}
			}
		}
	})
}

// TestPastPrefix: the end of a range is the first text after all that begin so.
func TestPastPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix, other := rapid.String().Draw(t, "prefix"), rapid.String().Draw(t, "other")
		end := sqltenant.PastPrefix(prefix)
		if end == "" {
			if strings.Trim(prefix, "\U0010ffff") != "" {
				t.Errorf("no end of %q", prefix)
			}
			return
		}
		inRange := func(s string) bool { return prefix <= s && s < end }
		if !inRange(prefix+other) || inRange(other) != strings.HasPrefix(other, prefix) {
			t.Errorf("%q to %q: %q, %q", prefix, end, prefix+other, other)
		}
	})
}

// explain returns how a statement is planned.
func explain(t *testing.T, dsn, statement string, args []any) string {
	t.Helper()
	db := raw(t, dsn)
	defer db.Close()
	explain := `EXPLAIN `
	if strings.HasPrefix(dsn, "sqlite") {
		explain = `EXPLAIN QUERY PLAN `
	}
	rows, err := db.QueryContext(t.Context(), explain+statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan []string
	for rows.Next() {
		// The last column is the text.
		into := make([]any, len(columns))
		for i := range into {
			into[i] = new(sql.RawBytes)
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, string(*into[len(into)-1].(*sql.RawBytes)))
	}
	return strings.Join(plan, "\n")
}
