package sqltenant_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// step is a drawn change.
type step struct {
	subject, actor string
	version        int64
	tiers          []string // one after the other
	quotas         []int64  // by descriptor
	hits           []int64  // by top-up
	fails          error
}

var errMine = errors.New("mine")

func drawStep(t *rapid.T) step {
	s := step{
		subject: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "subject"),
		actor:   rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "actor"),
		version: sqltenant.Anyway,
		tiers:   rapid.SliceOfN(rapid.SampledFrom([]string{"free", "pro"}), 0, 2).Draw(t, "tiers"),
		quotas:  rapid.SliceOfN(rapid.Int64Range(0, 2), 0, 3).Draw(t, "quotas"),
		hits:    rapid.SliceOfN(rapid.Int64Range(0, 2), 0, 2).Draw(t, "hits"),
	}
	switch rapid.IntRange(0, 30).Draw(t, "odd") {
	case 0:
		s.fails = errMine
	case 1:
		s.tiers = []string{"no tier"}
	case 2, 3, 4, 5:
		s.version = rapid.Int64Range(0, 8).Draw(t, "version")
	}
	return s
}

// change is what s asks for; a quota or a number of hits of 0 is none.
func (s *step) change() sqltenant.Change {
	return sqltenant.Change{
		Subject: key(s.subject), Actor: s.actor, Version: s.version, At: start,
		Edit: func(r *sqltenant.Record) error {
			r.Tiers, r.Overrides, r.TopUps = nil, nil, nil
			for i, tier := range s.tiers {
				r.Tiers = append(r.Tiers, tenant.Assignment{Tier: tier, Term: tenant.Term{From: start.Add(time.Duration(i) * time.Hour)}})
			}
			for i, quota := range s.quotas {
				if quota > 0 {
					r.Overrides = append(r.Overrides, perMinute(fmt.Sprintf("op:%d", i), quota))
				}
			}
			for i, hits := range s.hits {
				if hits > 0 {
					r.TopUps = append(r.TopUps, topUp(fmt.Sprint(i), tenant.Default, hits))
				}
			}
			return s.fails
		},
	}
}

// unnamed takes the names out that chance gave.
func unnamed(r sqltenant.Record) sqltenant.Record {
	r.Overrides = slices.Clone(r.Overrides)
	for i := range r.Overrides {
		r.Overrides[i].ID = ""
	}
	if len(r.Tiers) == 0 {
		r.Tiers = nil
	}
	if len(r.Overrides) == 0 {
		r.Overrides = nil
	}
	if len(r.TopUps) == 0 {
		r.TopUps = nil
	}
	return r
}

// oneByOne makes changes each by itself and stops at the first that cannot be.
func oneByOne(ctx context.Context, d *sqltenant.DB, steps []step) (records []sqltenant.Record, err error) {
	for i := range steps {
		r, err := d.Update(ctx, steps[i].change())
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// TestUpdateAllIsOneByOne: many changes at once leave what the same ones leave one
// after the other, in the tables and in the chain, and return the same; where one of
// them cannot be, they leave nothing.
func TestUpdateAllIsOneByOne(t *testing.T) {
	racetest.Serially(t)
	onEach(t, func(t *testing.T, dsn string) {
		other := "sqlite://" + filepath.Join(t.TempDir(), "single.db")
		atOnce, single := open(t, dsn), open(t, other)
		rapid.Check(t, func(rt *rapid.T) {
			emptied(t, dsn)
			emptied(t, other)
			for range rapid.IntRange(1, 3).Draw(rt, "batches") {
				steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 8).Draw(rt, "steps")
				before := chainOf(t, atOnce)
				changes := make([]sqltenant.Change, len(steps))
				for i := range steps {
					changes[i] = steps[i].change()
				}
				got, err := atOnce.UpdateAll(t.Context(), changes)
				want, wantErr := oneByOne(t.Context(), single, steps)
				if wantErr != nil {
					if err == nil || err.Error() != wantErr.Error() {
						rt.Fatalf("%v, want %v", err, wantErr)
					}
					if after := chainOf(t, atOnce); !reflect.DeepEqual(before, after) {
						rt.Fatalf("a refused batch left %+v, had %+v", after, before)
					}
					return // the other one has made those before
				}
				if err != nil {
					rt.Fatal(err)
				}
				for i := range got {
					if !reflect.DeepEqual(unnamed(got[i]), unnamed(want[i])) {
						rt.Fatalf("change %d: %+v, want %+v", i, got[i], want[i])
					}
				}
				if a, b := chainOf(t, atOnce), chainOf(t, single); !reflect.DeepEqual(a, b) {
					rt.Fatalf("chain %+v, want %+v", a, b)
				}
				if a, b := accountsOf(t, atOnce), accountsOf(t, single); !reflect.DeepEqual(a, b) {
					rt.Fatalf("accounts %+v, want %+v", a, b)
				}
			}
			if _, err := atOnce.Verify(t.Context()); err != nil {
				rt.Fatal(err)
			}
		})
	})
}

// emptied makes a database what it was at first.
func emptied(t *testing.T, dsn string) {
	t.Helper()
	tamper(t, dsn, `DELETE FROM account_top_ups; DELETE FROM quota_overrides; DELETE FROM account_tiers; DELETE FROM accounts;
		DELETE FROM account_changes; UPDATE tenant_head SET version = 0, digest = ''`)
}

func chainOf(t *testing.T, d *sqltenant.DB) []sqltenant.Entry {
	t.Helper()
	entries, err := d.Changes(t.Context(), 0, sqltenant.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func accountsOf(t *testing.T, d *sqltenant.DB) (records []sqltenant.Record) {
	t.Helper()
	list, err := d.List(t.Context(), tenant.Subject{}, sqltenant.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		records = append(records, unnamed(r))
	}
	return records
}

// TestReadsAreOfOneInstant: who reads while others write sees accounts as they were
// at one instant, whole, one by one and as a page.
func TestReadsAreOfOneInstant(t *testing.T) {
	onEach(t, func(t *testing.T, dsn string) {
		writer, reader := open(t, dsn), open(t, dsn)
		set := func(n int) []sqltenant.Change {
			changes := make([]sqltenant.Change, 20)
			for i := range changes {
				changes[i] = sqltenant.Change{
					Subject: key(fmt.Sprint(i)), Actor: "ann", Version: sqltenant.Anyway, At: start,
					Edit: func(r *sqltenant.Record) error {
						r.Tiers = []tenant.Assignment{{Tier: fmt.Sprint("t", n)}}
						r.Overrides = []sqltenant.Override{perMinute(tenant.Default, int64(n))}
						r.TopUps = []tenant.TopUp{topUp(fmt.Sprint("u", n), tenant.Default, int64(n))}
						return nil
					},
				}
			}
			return changes
		}
		if _, err := writer.UpdateAll(t.Context(), set(1)); err != nil {
			t.Fatal(err)
		}
		whole := func(records []sqltenant.Record) {
			for _, r := range records {
				n := records[0].Overrides[0].RequestsPerUnit
				if len(r.Tiers) != 1 || len(r.Overrides) != 1 || len(r.TopUps) != 1 ||
					r.Tiers[0].Tier != fmt.Sprint("t", n) || r.Overrides[0].RequestsPerUnit != n || r.TopUps[0].Hits != n {
					t.Errorf("torn: %+v", r)
				}
			}
		}
		stop := make(chan struct{})
		var writing sync.WaitGroup
		writing.Go(func() {
			for n := 2; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := writer.UpdateAll(t.Context(), set(n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 60 {
			one, err := reader.Get(t.Context(), key("7"))
			if err != nil {
				t.Fatal(err)
			}
			whole([]sqltenant.Record{one})
			page, err := reader.List(t.Context(), tenant.Subject{}, 20)
			if err != nil || len(page) != 20 {
				t.Fatalf("%d accounts, %v", len(page), err)
			}
			whole(page)
		}
		close(stop)
		writing.Wait()
	})
}

// TestLargeBatch: a batch of many rows takes several statements, and of nothing none.
func TestLargeBatch(t *testing.T) {
	racetest.Serially(t)
	onEach(t, func(t *testing.T, dsn string) {
		d := open(t, dsn)
		if records, err := d.UpdateAll(t.Context(), nil); len(records) != 0 || err != nil {
			t.Errorf("%v, %v", records, err)
		}
		const overrides = 8
		var changes []sqltenant.Change
		for i := range sqltenant.MaxChanges {
			changes = append(changes, sqltenant.Change{
				Subject: key(fmt.Sprint(i)), Actor: "ann", Version: 0, At: start,
				Edit: func(r *sqltenant.Record) error {
					for j := range overrides {
						r.Overrides = append(r.Overrides, perMinute(fmt.Sprintf("op:%d", j), int64(i+j)))
					}
					return nil
				},
			})
		}
		if _, err := d.UpdateAll(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		list, err := d.List(t.Context(), tenant.Subject{}, sqltenant.MaxPage)
		if err != nil || len(list) != sqltenant.MaxChanges {
			t.Fatalf("%d accounts, %v", len(list), err)
		}
		for _, r := range list {
			if len(r.Overrides) != overrides {
				t.Fatalf("%d overrides of %v", len(r.Overrides), r.Subject)
			}
		}
		if n, err := d.Verify(t.Context()); n != sqltenant.MaxChanges || err != nil {
			t.Errorf("%d changes, %v", n, err)
		}
	})
}
