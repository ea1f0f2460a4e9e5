package sqltenant

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
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
	// tiers, overrides and top-ups takes the account out. It may be called more than
	// once.
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
	if len(changes) == 0 {
		return nil, nil
	}
	for i := range changes {
		c := &changes[i]
		if err := cmp.Or(printable("actor", c.Actor, MaxActor), storable(c.Subject)); err != nil {
			return nil, fmt.Errorf("%w account: %w", ErrInvalid, err)
		}
	}
	var records []Record
	err := d.change(ctx, func(w *writer) (err error) {
		records, err = d.updateAll(ctx, w, changes)
		return err
	})
	return records, err
}

func (d *DB) updateAll(ctx context.Context, w *writer, changes []Change) ([]Record, error) {
	b, err := readBatch(ctx, w, changes)
	if err != nil {
		return nil, d.failed("change", err)
	}
	records := make([]Record, len(changes))
	for i := range changes {
		if records[i], err = b.update(w, &changes[i]); err != nil {
			return nil, err
		}
	}
	if err := b.store(ctx, w); err != nil {
		return nil, d.failed("change", err)
	}
	return records, nil
}

// batch are the accounts that some changes are about. All changes are made here
// before any of them is written: one account may have several.
type batch struct {
	kept    map[tenant.Subject]Record // as the tables have them
	now     map[tenant.Subject]Record // as the changes made them
	touched []tenant.Subject          // of now, in order of their first change
	granted map[grant]origin          // the top-ups that changes brought
}

// grant names a top-up.
type grant struct {
	subject tenant.Subject
	id      string
}

// origin is when and by whom something was made.
type origin struct {
	at    time.Time
	actor string
}

func readBatch(ctx context.Context, w *writer, changes []Change) (*batch, error) {
	b := &batch{
		kept: make(map[tenant.Subject]Record, len(changes)), now: make(map[tenant.Subject]Record, len(changes)),
		granted: map[grant]origin{},
	}
	var subjects []tenant.Subject
	for i := range changes {
		s := changes[i].Subject
		if _, known := b.kept[s]; !known {
			b.kept[s] = Record{Subject: s}
			subjects = append(subjects, s)
		}
	}
	records, err := query(ctx, w.tx, selectionOf(subjects, w.postgres))
	for _, r := range records {
		b.kept[r.Subject] = r
	}
	return b, err
}

// update makes one change, which leaves an entry if it changes anything.
func (b *batch) update(w *writer, c *Change) (Record, error) {
	before, touched := b.now[c.Subject]
	if !touched {
		before = b.kept[c.Subject]
	}
	if c.Version != Anyway && c.Version != before.Version {
		return before, fmt.Errorf("%w: the account is in version %d, not %d", ErrConflict, before.Version, c.Version)
	}
	after := before
	after.Tiers, after.Overrides, after.TopUps = slices.Clone(before.Tiers), slices.Clone(before.Overrides), slices.Clone(before.TopUps)
	if err := c.Edit(&after); err != nil {
		return before, err
	}
	after.Subject = c.Subject
	if err := after.Validate(); err != nil {
		return before, fmt.Errorf("%w account: %w", ErrInvalid, err)
	}
	after.TopUps = named(after.TopUps)
	e := Entry{
		At: c.At.UTC().Truncate(time.Microsecond), Actor: c.Actor, Kind: AccountEntry, Subject: c.Subject,
		Before: state(&before), After: state(&after),
	}
	if e.Before == e.After {
		return before, nil
	}
	after.Version, after.UpdatedAt = w.add(e), e.At
	after.stamp(&before, c.Actor)
	b.noteGrants(&before, &after, c.Actor)
	if after.empty() {
		after = Record{Subject: c.Subject}
	}
	if !touched {
		b.touched = append(b.touched, c.Subject)
	}
	b.now[c.Subject] = after
	return after, nil
}

// noteGrants remembers where the top-ups come from that a change brought.
func (b *batch) noteGrants(before, after *Record, actor string) {
	for _, t := range after.TopUps {
		if !slices.ContainsFunc(before.TopUps, func(old tenant.TopUp) bool { return old.ID == t.ID }) {
			b.granted[grant{after.Subject, t.ID}] = origin{after.UpdatedAt, actor}
		}
	}
}

// store writes what the changes have changed.
func (b *batch) store(ctx context.Context, w *writer) error {
	var d difference
	for _, s := range b.touched {
		before, after := b.kept[s], b.now[s]
		d.add(&before, &after, func(t *tenant.TopUp) origin { return b.granted[grant{s, t.ID}] })
	}
	return d.write(ctx, w)
}

func (r *Record) empty() bool {
	return len(r.Tiers) == 0 && len(r.Overrides) == 0 && len(r.TopUps) == 0
}

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
		if !reflect.DeepEqual(o.state(), old.state()) {
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
