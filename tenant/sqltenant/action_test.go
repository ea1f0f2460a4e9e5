package sqltenant_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestL2ActionsAreInTheChain holds that what changes nothing in the database is in its
// audit chain all the same, and changes nothing for those who follow.
func TestL2ActionsAreInTheChain(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		put(t, d, key("a"), "pro", perMinute(tenant.Default, 1))
		told := 0
		w := sqltenant.NewWatcher(d, someTiers(t), sqltenant.WatcherOptions{OnSettings: func(sqltenant.Settings) { told++ }})
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, _ := w.Snapshot()
		const text = `{"action":"usage refund","hits":3}`
		if err := d.Note(t.Context(), sqltenant.Action{Actor: "ann", At: start, Subject: key("a"), Text: text}); err != nil {
			t.Fatal(err)
		}
		if err := w.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		after, version := w.Snapshot()
		if version != 2 || after.Len() != before.Len() || told != 1 {
			t.Errorf("version %d, %d accounts, settings told %d times", version, after.Len(), told)
		}
		entries, err := d.Changes(t.Context(), 1, 10)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%+v, %v", entries, err)
		}
		if e := entries[0]; e.Kind != sqltenant.ActionEntry || e.Actor != "ann" || e.Subject != key("a") || e.Before != "{}" || e.After != text || !e.At.Equal(start) {
			t.Errorf("%+v", e)
		}
		if n, err := d.Verify(t.Context()); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		tamper(t, dsn, `UPDATE account_changes SET after_state = '{"action":"usage refund","hits":1}' WHERE version = 2`)
		var broken *sqltenant.BrokenError
		if _, err := d.Verify(t.Context()); !errors.As(err, &broken) || broken.Version != 2 {
			t.Errorf("%v, want broken at 2", err)
		}
	})
}

func TestBadActions(t *testing.T) {
	d := open(t, "sqlite://"+t.TempDir()+"/tenants.db")
	for name, a := range map[string]sqltenant.Action{
		"no actor":    {Subject: key("a"), Text: "{}"},
		"no subject":  {Actor: "ann", Text: "{}"},
		"no text":     {Actor: "ann", Subject: key("a")},
		"no object":   {Actor: "ann", Subject: key("a"), Text: "[]"},
		"half of one": {Actor: "ann", Subject: key("a"), Text: "{"},
		"a long one":  {Actor: "ann", Subject: key("a"), Text: `{"a":"` + strings.Repeat("x", sqltenant.MaxAction) + `"}`},
		"odd subject": {Actor: "ann", Subject: tenant.Subject{Key: "api_key", Value: "\x00"}, Text: "{}"},
	} {
		if err := d.Note(t.Context(), a); !errors.Is(err, sqltenant.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := d.Verify(t.Context()); n != 0 || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
}
