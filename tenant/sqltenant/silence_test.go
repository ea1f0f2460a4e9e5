package sqltenant

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
)

// TestSilentWriterHoldsUpNobody: a process that stands still, or is cut off, in the middle of
// a change loses its turn, and the others go on. The connection stays open meanwhile.
func TestSilentWriterHoldsUpNobody(t *testing.T) {
	dsn := testserver.PostgresDatabase(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var writers [2]*DB
	for i := range writers {
		d, err := Open(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		writers[i] = d
	}
	silent, other := writers[0], writers[1]
	change := Change{
		Subject: tenant.Subject{Key: "tenant", Value: "acme"}, Actor: "ann", Version: Anyway, At: time.Unix(1_790_000_000, 0),
		Edit: func(r *Record) error { r.Tiers = []tenant.Assignment{{Tier: "pro"}}; return nil },
	}
	if silent.maxSilence != maxSilence {
		t.Errorf("a process may say nothing for %v, want %v", silent.maxSilence, maxSilence)
	}
	silent.maxSilence = time.Millisecond
	err := silent.change(ctx, func(w *writer) error {
		if _, err := other.Update(ctx, change); err != nil {
			t.Errorf("the other process: %v", err)
		}
		_, err := silent.updateAll(ctx, w, []Change{change})
		return err
	})
	if err == nil || ctx.Err() != nil {
		t.Errorf("a change after its turn: %v, want an error of the database", err)
	}
	if n, err := other.Verify(ctx); n != 1 || err != nil {
		t.Errorf("%d changes, %v; want that of the other process alone", n, err)
	}
	change.Subject.Value = "initech"
	silent.maxSilence = maxSilence
	if _, err := silent.Update(ctx, change); err != nil {
		t.Errorf("the next change of the first process: %v", err)
	}
	var after string
	if err := silent.write.QueryRowContext(ctx, `SHOW idle_in_transaction_session_timeout`).Scan(&after); err != nil || after != "0" {
		t.Errorf("what does not change anything may say nothing for %s, %v; want no bound", after, err)
	}
}
