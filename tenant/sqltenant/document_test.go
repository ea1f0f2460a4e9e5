package sqltenant_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// putDocument makes a text the document of a name, whatever it was.
func putDocument(t testing.TB, d *sqltenant.DB, kind sqltenant.Kind, name, text string) sqltenant.Document {
	t.Helper()
	one, err := d.PutDocument(t.Context(), sqltenant.DocumentChange{
		Kind: kind, Name: name, Text: text, Actor: "ann", Version: sqltenant.Anyway, At: start,
	})
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func TestDocumentsAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		if none, err := d.Document(t.Context(), sqltenant.RulesDocument, "api"); err != nil || none.Version != 0 || none.Name != "api" {
			t.Errorf("a document that is not there: %+v, %v", none, err)
		}
		putDocument(t, d, sqltenant.RulesDocument, "b", "domain: b")
		putDocument(t, d, sqltenant.RulesDocument, "Z", "domain: z")
		putDocument(t, d, sqltenant.SwitchDocument, "all", `{"target":"all"}`)
		changed := putDocument(t, d, sqltenant.RulesDocument, "b", "domain: b2 # ü\n")
		want := sqltenant.Document{Kind: "rules", Name: "b", Text: "domain: b2 # ü\n", Version: 4, UpdatedAt: start, UpdatedBy: "ann"}
		if changed != want {
			t.Errorf("%+v, want %+v", changed, want)
		}

		d = open(t, dsn) // what another node sees
		if got, err := d.Document(t.Context(), sqltenant.RulesDocument, "b"); got != want || err != nil {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		list, err := d.Documents(t.Context(), sqltenant.RulesDocument)
		if err != nil || len(list) != 2 || list[0].Name != "Z" || list[1] != want {
			t.Errorf("%+v, %v", list, err)
		}
		if same := putDocument(t, d, sqltenant.RulesDocument, "b", want.Text); same != want {
			t.Errorf("a change that changes nothing: %+v", same)
		}
		if gone := putDocument(t, d, sqltenant.RulesDocument, "b", ""); gone.Version != 0 || gone.Text != "" {
			t.Errorf("a document that was taken out: %+v", gone)
		}
		if v, err := d.Version(t.Context()); v != 5 || err != nil {
			t.Errorf("version %d, %v", v, err)
		}
		entries, err := d.Changes(t.Context(), 3, 10)
		if err != nil || len(entries) != 2 {
			t.Fatalf("%+v, %v", entries, err)
		}
		if e := entries[0]; e.Kind != sqltenant.RulesDocument || e.Subject != (tenant.Subject{Value: "b"}) ||
			e.Before != `{"text":"domain: b"}` || e.After != `{"text":"domain: b2 # ü\n"}` {
			t.Errorf("%+v", e)
		}
		if e := entries[1]; e.After != "{}" || e.Actor != "ann" || !e.At.Equal(start) {
			t.Errorf("%+v", e)
		}
		if n, err := d.Verify(t.Context()); n != 5 || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}

func TestPutDocumentRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		putDocument(t, d, sqltenant.RulesDocument, "a", "x")
		valid := sqltenant.DocumentChange{Kind: sqltenant.RulesDocument, Name: "a", Text: "y", Actor: "ann", Version: 1, At: start}
		for name, test := range map[string]struct {
			edit func(*sqltenant.DocumentChange)
			want error
			text string
		}{
			"another version": {func(c *sqltenant.DocumentChange) { c.Version = 7 }, sqltenant.ErrConflict, "version 1, not 7"},
			"must be new":     {func(c *sqltenant.DocumentChange) { c.Version = 0 }, sqltenant.ErrConflict, "version 1, not 0"},
			"not there":       {func(c *sqltenant.DocumentChange) { c.Name = "b" }, sqltenant.ErrConflict, "version 0, not 1"},
			"no kind":         {func(c *sqltenant.DocumentChange) { c.Kind = "account" }, sqltenant.ErrInvalid, `kind "account"`},
			"no name":         {func(c *sqltenant.DocumentChange) { c.Name = "" }, sqltenant.ErrInvalid, "name of the document"},
			"long name":       {func(c *sqltenant.DocumentChange) { c.Name = strings.Repeat("n", 601) }, sqltenant.ErrInvalid, "name of the document"},
			"two of tiers":    {func(c *sqltenant.DocumentChange) { c.Kind = "tiers" }, sqltenant.ErrInvalid, `"default"`},
			"nobody":          {func(c *sqltenant.DocumentChange) { c.Actor = "" }, sqltenant.ErrInvalid, "actor"},
			"long":            {func(c *sqltenant.DocumentChange) { c.Text = strings.Repeat("x", sqltenant.MaxDocument+1) }, sqltenant.ErrInvalid, "at most 1048576"},
			"no text":         {func(c *sqltenant.DocumentChange) { c.Text = "a\xff" }, sqltenant.ErrInvalid, "UTF-8"},
			"NUL":             {func(c *sqltenant.DocumentChange) { c.Text = "a\x00" }, sqltenant.ErrInvalid, "NUL"},
		} {
			c := valid
			test.edit(&c)
			if got, err := d.PutDocument(t.Context(), c); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: %+v, %v, want %v with %q", name, got, err, test.want, test.text)
			}
		}
		if n, err := d.Verify(t.Context()); n != 1 || err != nil {
			t.Errorf("after the refusals %d changes, %v", n, err)
		}
	})
}

// TestDocumentsAreBounded: neither their number nor their texts grow without end, and
// a full kind takes changes that shrink it and leaves the others alone.
func TestDocumentsAreBounded(t *testing.T) {
	racetest.Serially(t)
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		tamper(t, dsn, fmt.Sprintf(`INSERT INTO documents (kind, name, text, version, updated_at, updated_by)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT 'switch', 'n' || i, 'x', 1, {1}, 'ann' FROM n`, sqltenant.MaxDocuments))
		for i := range 64 {
			putDocument(t, d, sqltenant.RulesDocument, fmt.Sprintf("r%02d", i), strings.Repeat("é", sqltenant.MaxDocument/2))
		}
		refused := func(kind sqltenant.Kind, name string) {
			t.Helper()
			_, err := d.PutDocument(t.Context(), sqltenant.DocumentChange{Kind: kind, Name: name, Text: "xy", Actor: "ann", Version: 0, At: start})
			if !errors.Is(err, sqltenant.ErrInvalid) || !strings.Contains(err.Error(), "take some out") {
				t.Errorf("%s: %v", kind, err)
			}
		}
		refused(sqltenant.SwitchDocument, "one more")
		refused(sqltenant.RulesDocument, "one more")
		putDocument(t, d, sqltenant.TiersDocument, sqltenant.DefaultName, "tiers")
		putDocument(t, d, sqltenant.SwitchDocument, "n1", "")
		putDocument(t, d, sqltenant.RulesDocument, "r01", "short")
		putDocument(t, d, sqltenant.SwitchDocument, "one more", "xy")

		// What others write past the bounds is left out, and the rest is there.
		tamper(t, dsn, `INSERT INTO documents (kind, name, text, version, updated_at, updated_by) VALUES ('switch', 'zz', 'x', 1, {1}, 'eve')`)
		if list, err := d.Documents(t.Context(), sqltenant.SwitchDocument); len(list) != sqltenant.MaxDocuments || err != nil {
			t.Errorf("%d switches, %v", len(list), err)
		}
		if list, err := d.Documents(t.Context(), sqltenant.RulesDocument); len(list) != 64 || err != nil {
			t.Errorf("%d documents of rules, %v", len(list), err)
		}
		// A page of long entries ends early, and none is lost.
		read := 0
		for after := int64(0); ; {
			page, err := d.Changes(t.Context(), after, sqltenant.MaxPage)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			size := 0
			for _, e := range page[:len(page)-1] {
				size += len(e.Before) + len(e.After)
			}
			if size > 8<<20 {
				t.Errorf("a page of %d bytes", size)
			}
			read, after = read+len(page), page[len(page)-1].Version
		}
		if n, err := d.Verify(t.Context()); n != 68 || read != 68 || err != nil {
			t.Errorf("%d changes, %d read, %v", n, read, err)
		}
	})
}

// TestConcurrentDocuments: of writers that all mean the same version exactly one wins,
// round after round.
func TestConcurrentDocuments(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		nodes := []*sqltenant.DB{open(t, dsn), open(t, dsn)}
		const writers, rounds = 6, 4
		version := int64(0)
		for round := range rounds {
			var mu sync.Mutex
			var won []sqltenant.Document
			var group sync.WaitGroup
			for i := range writers {
				group.Go(func() {
					got, err := nodes[i%2].PutDocument(t.Context(), sqltenant.DocumentChange{
						Kind: sqltenant.TiersDocument, Name: sqltenant.DefaultName, Text: fmt.Sprintf("round %d of %d", round, i),
						Actor: fmt.Sprint(i), Version: version, At: start,
					})
					if err == nil {
						mu.Lock()
						won = append(won, got)
						mu.Unlock()
					} else if !errors.Is(err, sqltenant.ErrConflict) {
						t.Errorf("writer %d: %v", i, err)
					}
				})
			}
			group.Wait()
			if len(won) != 1 {
				t.Fatalf("round %d: %d writers won", round, len(won))
			}
			if got, err := nodes[0].Document(t.Context(), sqltenant.TiersDocument, sqltenant.DefaultName); got != won[0] || err != nil {
				t.Errorf("round %d: %+v, %v, want %+v", round, got, err, won[0])
			}
			version = won[0].Version
		}
		if n, err := nodes[1].Verify(t.Context()); n != rounds || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}

func row(scope string, count int64) sqltenant.RuleRow {
	return sqltenant.RuleRow{Scope: scope, LimitCount: count, WindowMS: 60_000, Active: true}
}

func putRow(t testing.TB, d *sqltenant.DB, c sqltenant.RuleRowChange) (sqltenant.RuleRow, int64) {
	t.Helper()
	c.Actor, c.At = "ann", start
	r, version, err := d.PutRuleRow(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r, version
}

func TestB8RuleRowsAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		route, method := "/v1/orders", "POST"
		full := sqltenant.RuleRow{
			Scope: "apikey", Route: &route, Method: &method, LimitCount: 20, WindowMS: 1500, WeightField: "cost",
			Algorithm: "token_bucket", FailureMode: "closed", Burst: 30,
		}
		first, version := putRow(t, d, sqltenant.RuleRowChange{Row: row("user", 100)})
		if first.ID == 0 || version != 1 || !first.CreatedAt.Equal(start) || !first.UpdatedAt.Equal(start) {
			t.Errorf("%+v in version %d", first, version)
		}
		second, version := putRow(t, d, sqltenant.RuleRowChange{Row: full})
		if full.ID, full.CreatedAt, full.UpdatedAt = second.ID, start, start; !second.Equal(&full) || version != 2 || second.ID <= first.ID {
			t.Errorf("%+v in version %d, want %+v", second, version, full)
		}
		first.LimitCount = 7
		changed, _, err := d.PutRuleRow(t.Context(), sqltenant.RuleRowChange{Row: first, Actor: "bob", At: start.Add(time.Minute)})
		if err != nil || changed.LimitCount != 7 || !changed.CreatedAt.Equal(start) || !changed.UpdatedAt.Equal(start.Add(time.Minute)) {
			t.Errorf("%+v, %v", changed, err)
		}
		if same, version := putRow(t, d, sqltenant.RuleRowChange{Row: changed}); !same.Equal(&changed) || version != 3 {
			t.Errorf("a change that changes nothing: %+v in version %d", same, version)
		}
		list, err := open(t, dsn).RuleRows(t.Context())
		if err != nil || len(list) != 2 || !list[0].Equal(&changed) || !list[1].Equal(&full) {
			t.Errorf("%+v, %v", list, err)
		}
		if gone, version := putRow(t, d, sqltenant.RuleRowChange{Row: sqltenant.RuleRow{ID: first.ID}, Delete: true}); gone.ID != first.ID || version != 4 {
			t.Errorf("%+v in version %d", gone, version)
		}
		entries, err := d.Changes(t.Context(), 2, 10)
		if err != nil || len(entries) != 2 {
			t.Fatalf("%+v, %v", entries, err)
		}
		for i, want := range []struct{ before, after string }{
			{`{"scope":"user","limit_count":100,"window_ms":60000,"is_active":true}`, `{"scope":"user","limit_count":7,"window_ms":60000,"is_active":true}`},
			{`{"scope":"user","limit_count":7,"window_ms":60000,"is_active":true}`, "{}"},
		} {
			e := entries[i]
			if e.Kind != sqltenant.RuleRowEntry || e.Subject != (tenant.Subject{Value: fmt.Sprint(first.ID)}) || e.Before != want.before || e.After != want.after {
				t.Errorf("%+v, want %+v", e, want)
			}
		}
		if n, err := d.Verify(t.Context()); n != 4 || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}

func TestPutRuleRowRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		empty := ""
		for want, edit := range map[string]func(*sqltenant.RuleRowChange){
			"scope":           func(c *sqltenant.RuleRowChange) { c.Row.Scope = "planet" },
			"route":           func(c *sqltenant.RuleRowChange) { c.Row.Route = &empty },
			"method":          func(c *sqltenant.RuleRowChange) { c.Row.Method = &empty },
			"weight_field":    func(c *sqltenant.RuleRowChange) { c.Row.WeightField = "a\nb" },
			"at most 256":     func(c *sqltenant.RuleRowChange) { c.Row.WeightField = strings.Repeat("x", 257) },
			"failure_mode":    func(c *sqltenant.RuleRowChange) { c.Row.FailureMode = strings.Repeat("x", 65) },
			"quota":           func(c *sqltenant.RuleRowChange) { c.Row.LimitCount = -1 },
			"period":          func(c *sqltenant.RuleRowChange) { c.Row.WindowMS = 0 },
			"366 days":        func(c *sqltenant.RuleRowChange) { c.Row.WindowMS = 1 << 62 },
			"burst":           func(c *sqltenant.RuleRowChange) { c.Row.Burst = -1 },
			"algorithm":       func(c *sqltenant.RuleRowChange) { c.Row.Algorithm = "magic" },
			"over time":       func(c *sqltenant.RuleRowChange) { c.Row.Algorithm = "concurrency" },
			"actor":           func(c *sqltenant.RuleRowChange) { c.Actor = "" },
			"with the id 77":  func(c *sqltenant.RuleRowChange) { c.Row.ID = 77 },
			"with the id 0":   func(c *sqltenant.RuleRowChange) { c.Delete = true },
			"with the id 778": func(c *sqltenant.RuleRowChange) { c.Row.ID, c.Delete = 778, true },
		} {
			c := sqltenant.RuleRowChange{Row: row("user", 1), Actor: "ann", At: start}
			edit(&c)
			if _, _, err := d.PutRuleRow(t.Context(), c); !errors.Is(err, sqltenant.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if n, err := d.Verify(t.Context()); n != 0 || err != nil {
			t.Errorf("after the refusals %d changes, %v", n, err)
		}
	})
}

// TestRuleRowsByHand: what an operator writes with the fewest columns has the
// defaults, and what he mistypes is refused where he types it.
func TestRuleRowsByHand(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		tamper(t, dsn, `INSERT INTO rate_limit_rules (scope, limit_count, window_ms) VALUES ('ip', 10, 1000)`)
		list, err := d.RuleRows(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		got := list[0]
		if sqlite := strings.HasPrefix(dsn, "sqlite"); got.CreatedAt.IsZero() != sqlite || got.CreatedAt.After(time.Now().Add(time.Minute)) {
			t.Errorf("created at %v", got.CreatedAt)
		}
		got.CreatedAt, got.UpdatedAt = time.Time{}, time.Time{}
		if want := (sqltenant.RuleRow{ID: got.ID, Scope: "ip", LimitCount: 10, WindowMS: 1000, Active: true}); !got.Equal(&want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		for _, wrong := range []string{
			`(scope, limit_count, window_ms) VALUES ('ip', -1, 1000)`,
			`(scope, limit_count, window_ms) VALUES ('ip', 1, 0)`,
			`(scope, limit_count, window_ms) VALUES ('', 1, 1000)`,
			`(scope, limit_count, window_ms, route) VALUES ('ip', 1, 1000, '')`,
			`(scope, limit_count, window_ms) VALUES ('ip', 'many', 1000)`,
			`(scope, limit_count) VALUES ('ip', 1)`,
		} {
			if err := execute(t, dsn, `INSERT INTO rate_limit_rules `+wrong); err == nil {
				t.Errorf("taken: %s", wrong)
			}
		}
		// A row of Headgate after one by hand has an ID of its own.
		if r, _ := putRow(t, d, sqltenant.RuleRowChange{Row: row("user", 1)}); r.ID == got.ID {
			t.Errorf("two rows with the id %d", r.ID)
		}
	})
}
