package sqltenant

import (
	"context"
	"database/sql"
	"reflect"
	"slices"
	"time"

	"github.com/headgate/headgate/tenant"
)

// difference is what turns accounts as the tables have them into what they shall be,
// as rows of values of each statement.
type difference struct {
	goneAccounts, accounts   [][]any
	goneTiers, tiers         [][]any
	goneOverrides, overrides [][]any
	goneTopUps, topUps       [][]any
}

// add adds what turns before into after. Where a top-up that before has not comes
// from is asked of from.
func (d *difference) add(before, after *Record, from func(*tenant.TopUp) origin) {
	s := after.Subject
	if after.empty() {
		if before.Version != 0 {
			d.goneAccounts = append(d.goneAccounts, []any{s.Key, s.Value})
		}
		return
	}
	d.accounts = append(d.accounts, []any{s.Key, s.Value, after.Last4, after.Version, moment(after.UpdatedAt)})
	d.addTiers(before, after)
	d.addOverrides(before, after)
	d.addTopUps(before, after, from)
}

func (d *difference) addTiers(before, after *Record) {
	s := after.Subject
	if slices.Equal(before.Tiers, after.Tiers) {
		return
	}
	if len(before.Tiers) > 0 {
		d.goneTiers = append(d.goneTiers, []any{s.Key, s.Value})
	}
	for _, t := range after.Tiers {
		d.tiers = append(d.tiers, []any{s.Key, s.Value, t.Tier, moment(t.Term.From), endTerm(t.Term.Until)})
	}
}

func (d *difference) addOverrides(before, after *Record) {
	old := make(map[string]*Override, len(before.Overrides))
	for i := range before.Overrides {
		old[before.Overrides[i].ID] = &before.Overrides[i]
	}
	for i := range after.Overrides {
		o := &after.Overrides[i]
		if was := old[o.ID]; was == nil || !reflect.DeepEqual(was, o) {
			d.overrides = append(d.overrides, o.row(after.Subject))
		}
		delete(old, o.ID)
	}
	for id := range old {
		d.goneOverrides = append(d.goneOverrides, []any{id})
	}
}

// row returns the values of a row of quota_overrides.
func (o *Override) row(s tenant.Subject) []any {
	quota := sql.NullInt64{Int64: o.RequestsPerUnit, Valid: !o.Unlimited}
	unit, more := tenant.UnitText(o.Unit), moreText(o.More)
	if o.Unlimited {
		unit, more = tenant.UnitText(time.Second), ""
	}
	return []any{
		o.ID, s.Key, s.Value, o.Descriptor, quota, unit, o.Algorithm.String(), o.Burst, more,
		moment(o.Term.From), endTerm(o.Term.Until), moment(o.CreatedAt), moment(o.UpdatedAt), o.CreatedBy,
	}
}

func (d *difference) addTopUps(before, after *Record, from func(*tenant.TopUp) origin) {
	s := after.Subject
	old := make(map[string]*tenant.TopUp, len(before.TopUps))
	for i := range before.TopUps {
		old[before.TopUps[i].ID] = &before.TopUps[i]
	}
	for i := range after.TopUps {
		t := &after.TopUps[i]
		if was := old[t.ID]; was == nil || *was != *t {
			made := from(t)
			d.topUps = append(d.topUps, []any{
				t.ID, s.Key, s.Value, t.Descriptor, t.Hits, moment(t.Term.From), moment(t.Term.Until), moment(made.at), made.actor,
			})
		}
		delete(old, t.ID)
	}
	for id := range old {
		d.goneTopUps = append(d.goneTopUps, []any{s.Key, s.Value, id})
	}
}

// write makes the tables what they shall be. What goes does so before anything comes
// in its place; what belongs to an account goes with it, and comes after it.
func (d *difference) write(ctx context.Context, w *writer) error {
	for _, step := range []struct {
		before string
		rows   [][]any
		after  string
	}{
		{`DELETE FROM accounts WHERE (subject_key, subject) IN (VALUES `, d.goneAccounts, `)`},
		{`DELETE FROM account_tiers WHERE (subject_key, subject) IN (VALUES `, d.goneTiers, `)`},
		{`DELETE FROM quota_overrides WHERE id IN (VALUES `, d.goneOverrides, `)`},
		{`DELETE FROM account_top_ups WHERE (subject_key, subject, id) IN (VALUES `, d.goneTopUps, `)`},
		{`INSERT INTO accounts (subject_key, subject, last4, version, updated_at) VALUES `, d.accounts,
			` ON CONFLICT (subject_key, subject) DO UPDATE SET last4 = excluded.last4, version = excluded.version, updated_at = excluded.updated_at`},
		{`INSERT INTO account_tiers (subject_key, subject, tier, effective_at, expires_at) VALUES `, d.tiers, ``},
		{`INSERT INTO quota_overrides (id, subject_key, subject, descriptor, requests_per_unit, unit, algorithm, burst, more_limits,
			effective_at, expires_at, created_at, updated_at, created_by) VALUES `, d.overrides,
			` ON CONFLICT (id) DO UPDATE SET requests_per_unit = excluded.requests_per_unit, unit = excluded.unit, algorithm = excluded.algorithm,
			burst = excluded.burst, more_limits = excluded.more_limits, expires_at = excluded.expires_at, updated_at = excluded.updated_at`},
		{`INSERT INTO account_top_ups (id, subject_key, subject, descriptor, hits, effective_at, expires_at, created_at, created_by) VALUES `, d.topUps,
			` ON CONFLICT (subject_key, subject, id) DO UPDATE SET descriptor = excluded.descriptor, hits = excluded.hits,
			effective_at = excluded.effective_at, expires_at = excluded.expires_at`},
	} {
		if err := w.each(ctx, step.before, step.rows, step.after); err != nil {
			return err
		}
	}
	return nil
}
