package sqltenant

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: a read that goes on may take as long as it takes; one that stands still
// ends, and the error says that its time was over.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, p := patiently(t.Context(), time.Minute)
		defer p.end()
		for range 100 {
			time.Sleep(59 * time.Second)
			p.came()
		}
		if ctx.Err() != nil {
			t.Fatalf("ended while something came: %v", context.Cause(ctx))
		}
		other := errors.New("another")
		if err := p.why(ctx, other); err != other {
			t.Errorf("%v, want what the read said", err)
		}
		began := time.Now()
		<-ctx.Done()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("ended after %v without anything, want a minute", took)
		}
		if err := p.why(ctx, ctx.Err()); err != context.DeadlineExceeded {
			t.Errorf("%v, want that the time was over", err)
		}
	})
}

// TestPatienceHeedsItsCaller: who no longer wants the answer ends the read at once.
func TestPatienceHeedsItsCaller(t *testing.T) {
	outer, cancel := context.WithCancel(t.Context())
	ctx, p := patiently(outer, time.Hour)
	defer p.end()
	cancel()
	if err := p.why(ctx, ctx.Err()); err != context.Canceled {
		t.Errorf("%v, want that the caller went away", err)
	}
}

// TestRowsComeOneByOne: that rows come is noted while they do, not once all are there.
func TestRowsComeOneByOne(t *testing.T) {
	d, err := Open(t.Context(), "sqlite://"+t.TempDir()+"/tenants.db")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const rows = 5*rowsAtATime + 1
	if _, err := d.write.ExecContext(t.Context(), `INSERT INTO rate_limit_rules (scope, limit_count, window_ms)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT 'user', 1, 1000 FROM n`, rows); err != nil {
		t.Fatal(err)
	}
	came := 0
	all, bad, err := ruleRows(t.Context(), d.read, func() { came++ })
	if len(all) != rows || bad != nil || err != nil || came != 5 {
		t.Errorf("%d rows, %v, %v; noted %d times, want 5", len(all), bad, err, came)
	}
}
