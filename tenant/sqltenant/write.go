package sqltenant

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/tenant"
)

// Anyway is the version of a change that does not ask in which version the account
// is.
const Anyway = -1

// Change says what is to be done with an account.
type Change struct {
	Subject tenant.Subject
	// Actor is who does it, for the audit chain; 1 to MaxActor bytes.
	Actor string
	// Version is that of the account which the change is for: 0 for one that must
	// not be there, Anyway for any.
	Version int64
	// At is the instant of the change.
	At time.Time
	// Edit changes the record as it is kept into the one that shall be; one without
	// tiers and overrides takes the account out. It may be called more than once.
	Edit func(*Record) error
}

// MaxChanges bounds the changes of one UpdateAll.
const MaxChanges = 1000

// Update makes a change and returns the account as it is then. Nothing is written
// unless all of it is. The error wraps ErrConflict when the account is not in the
// asked-for version, ErrInvalid when the record that Edit made cannot be, or what
// Edit returned. A change that changes nothing leaves no trace.
func (d *DB) Update(ctx context.Context, c Change) (Record, error) {
	records, err := d.UpdateAll(ctx, []Change{c})
	if err != nil {
		return Record{}, err
	}
	return records[0], nil
}

// UpdateAll makes up to MaxChanges changes, in order, and returns the accounts as
// they are after each: all of the changes, or none with the error of the first one
// that cannot be, as Update returns it.
func (d *DB) UpdateAll(ctx context.Context, changes []Change) ([]Record, error) {
	if len(changes) > MaxChanges {
		return nil, fmt.Errorf("%w: %d changes at once; hint: at most %d", ErrInvalid, len(changes), MaxChanges)
	}
	for i := range changes {
		c := &changes[i]
		if err := cmp.Or(printable("actor", c.Actor, MaxActor), storable(c.Subject)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, d.failed("change", err)
	}
	records := make([]Record, len(changes))
	changed := false
	for i := range changes {
		var one bool
		if records[i], one, err = d.update(ctx, tx, &changes[i]); err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
		changed = changed || one
	}
	if !changed {
		return records, tx.Rollback()
	}
	if err := tx.Commit(); err != nil {
		return nil, d.failed("change", err)
	}
	d.local.ring()
	return records, nil
}

func (d *DB) update(ctx context.Context, tx *sql.Tx, c *Change) (after Record, changed bool, err error) {
	// First: this row's lock puts writers in order.
	var version int64
	var digest string
	if err := tx.QueryRowContext(ctx, `UPDATE tenant_state SET version = version WHERE id = 1 RETURNING version + 1, digest`).
		Scan(&version, &digest); err != nil {
		return after, false, d.failed("change", err)
	}
	before, err := get(ctx, tx, c.Subject)
	if err != nil {
		return after, false, d.failed("change", err)
	}
	if c.Version != Anyway && c.Version != before.Version {
		return before, false, fmt.Errorf("%w: it is in version %d, not %d", ErrConflict, before.Version, c.Version)
	}
	after = before
	after.Tiers, after.Overrides = slices.Clone(before.Tiers), slices.Clone(before.Overrides)
	if err := c.Edit(&after); err != nil {
		return before, false, err
	}
	after.Subject = c.Subject
	if err := after.Validate(); err != nil {
		return before, false, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if state(&before) == state(&after) {
		return before, false, nil
	}
	after.Version, after.UpdatedAt = version, c.At.UTC().Truncate(time.Microsecond)
	after.stamp(&before, c.Actor)
	if err := d.store(ctx, tx, &before, &after, entryOf(c, &before, &after, digest)); err != nil {
		return before, false, d.failed("change", err)
	}
	if after.empty() {
		after = Record{Subject: c.Subject}
	}
	return after, true, nil
}

func (r *Record) empty() bool { return len(r.Tiers) == 0 && len(r.Overrides) == 0 }

// stamp sets what the database sets of the overrides of r: those that were there
// keep their ID and origin.
func (r *Record) stamp(before *Record, actor string) {
	for i := range r.Overrides {
		o := &r.Overrides[i]
		at := slices.IndexFunc(before.Overrides, func(b Override) bool {
			return b.Descriptor == o.Descriptor && b.Term.From.Equal(o.Term.From)
		})
		if at < 0 {
			o.ID, o.CreatedBy, o.CreatedAt, o.UpdatedAt = newID(), actor, r.UpdatedAt, r.UpdatedAt
			continue
		}
		old := before.Overrides[at]
		o.ID, o.CreatedBy, o.CreatedAt, o.UpdatedAt = old.ID, old.CreatedBy, old.CreatedAt, old.UpdatedAt
		if o.state() != old.state() {
			o.UpdatedAt = r.UpdatedAt
		}
	}
}

// newID returns a random UUID (RFC 9562, version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// store writes after in place of before, and the entry of the audit chain.
func (d *DB) store(ctx context.Context, tx *sql.Tx, before, after *Record, e Entry) error {
	s := after.Subject
	steps := []statement{{`DELETE FROM accounts WHERE subject_key = $1 AND subject = $2`, []any{s.Key, s.Value}}}
	if !after.empty() {
		steps = append(steps, statement{`INSERT INTO accounts (subject_key, subject, last4, version, updated_at) VALUES ($1, $2, $3, $4, $5)`,
			[]any{s.Key, s.Value, after.Last4, after.Version, micros(after.UpdatedAt)}})
	}
	for _, t := range after.Tiers {
		steps = append(steps, statement{`INSERT INTO account_tiers (subject_key, subject, tier, effective_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
			[]any{s.Key, s.Value, t.Tier, micros(t.Term.From), nullMicros(t.Term.Until)}})
	}
	for i := range after.Overrides {
		steps = append(steps, insertOverride(s, &after.Overrides[i]))
	}
	steps = append(steps,
		statement{`INSERT INTO account_changes (version, at, actor, subject_key, subject, before_state, after_state, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			[]any{e.Version, micros(e.At), e.Actor, s.Key, s.Value, e.Before, e.After, e.Hash}},
		statement{`UPDATE tenant_state SET version = $1, digest = $2 WHERE id = 1`, []any{e.Version, e.Hash}})
	if d.postgres() {
		steps = append(steps, statement{`SELECT pg_notify('` + channel + `', '')`, nil})
	}
	for _, step := range steps {
		if _, err := tx.ExecContext(ctx, step.text, step.args...); err != nil {
			return err
		}
	}
	return nil
}

type statement struct {
	text string
	args []any
}

func insertOverride(s tenant.Subject, o *Override) statement {
	quota := sql.NullInt64{Int64: o.RequestsPerUnit, Valid: !o.Unlimited}
	unit := tenant.UnitText(o.Unit)
	if o.Unlimited {
		unit = tenant.UnitText(time.Second)
	}
	return statement{`INSERT INTO quota_overrides (id, subject_key, subject, descriptor, requests_per_unit, unit, algorithm, burst,
		effective_at, expires_at, created_at, updated_at, created_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		[]any{
			o.ID, s.Key, s.Value, o.Descriptor, quota, unit, o.Algorithm.String(), o.Burst,
			micros(o.Term.From), nullMicros(o.Term.Until), micros(o.CreatedAt), micros(o.UpdatedAt), o.CreatedBy,
		}}
}

func nullMicros(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: micros(t), Valid: !t.IsZero()}
}
