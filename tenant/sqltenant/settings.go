package sqltenant

import (
	"context"
	"slices"
	"time"
)

// Settings is what a database holds beside accounts, as it was at one version or
// after it. Who gets it does not change it.
type Settings struct {
	// Documents are those of all kinds, each kind in the order of names.
	Documents []Document
	// RuleRows are all rows of rules, those that are not active included.
	RuleRows []RuleRow
	Version  int64
}

// Equal reports whether s and o say the same, at whatever version.
func (s *Settings) Equal(o *Settings) bool {
	return slices.EqualFunc(s.Documents, o.Documents, func(a, b Document) bool {
		same := a.UpdatedAt.Equal(b.UpdatedAt)
		a.UpdatedAt, b.UpdatedAt = time.Time{}, time.Time{}
		return same && a == b
	}) && slices.EqualFunc(s.RuleRows, o.RuleRows, func(a, b RuleRow) bool { return a.Equal(&b) })
}

// settings reads what there is of some kinds at one instant, with the rows of rules if
// they are asked for, and says what is wrong with what it left out. It gives up once
// nothing has come for loadTimeout.
func (d *DB) settings(ctx context.Context, kinds []Kind, withRows bool) (s Settings, bad []error, err error) {
	ctx, p := patiently(ctx, loadTimeout)
	defer p.end()
	err = d.view(ctx, func(q querier) (err error) {
		if s.Version, err = lastVersion(ctx, q); err != nil {
			return err
		}
		for _, kind := range kinds {
			documents, wrong, err := documentsOf(ctx, q, kind)
			if err != nil {
				return err
			}
			s.Documents, bad = append(s.Documents, documents...), append(bad, wrong...)
			p.came()
		}
		if !withRows {
			return nil
		}
		rows, wrong, err := ruleRows(ctx, q, p.came)
		if wrong != nil {
			bad = append(bad, wrong)
		}
		s.RuleRows = rows
		return err
	})
	if err != nil {
		return Settings{}, nil, d.failed("read the settings of", p.why(ctx, err))
	}
	return s, bad, nil
}

// whole is a whole number of a column that somebody else may have written: a file of
// SQLite holds anything anywhere. It is -1 for what is none. An instant is one of
// microseconds.
type whole int64

// Scan implements sql.Scanner; it takes everything, so that one bad row does not hide
// the others.
func (w *whole) Scan(value any) error {
	*w = -1
	switch v := value.(type) {
	case int64:
		*w = whole(v)
	case time.Time: // of PostgreSQL
		*w = whole(v.UnixMicro())
	}
	return nil
}

// maybe is likewise a whole number, or NULL.
type maybe struct {
	whole
	valid bool
}

// Scan implements sql.Scanner.
func (m *maybe) Scan(value any) error {
	m.valid = value != nil
	return m.whole.Scan(value)
}

// instant returns the zero time for what is no instant that a text of RFC 3339 can
// show.
func (w whole) instant() time.Time {
	if w < 0 || int64(w) >= lastInstant.UnixMicro() {
		return time.Time{}
	}
	return instant(int64(w))
}

// truth is likewise a boolean, false for what is none.
type truth bool

// Scan implements sql.Scanner.
func (t *truth) Scan(value any) error {
	switch v := value.(type) {
	case bool:
		*t = truth(v)
	case int64:
		*t = v != 0
	default:
		*t = false
	}
	return nil
}

// patience ends a long read that comes to a standstill. A bound on the whole of it would
// end one that a slow machine is busy with, and every later try of it as well.
type patience struct {
	most   time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// patiently returns a context that ends once most has passed in which nothing came. The
// caller ends the patience.
func patiently(ctx context.Context, most time.Duration) (context.Context, *patience) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{most: most, cancel: cancel}
	p.timer = time.AfterFunc(most, func() { cancel(context.DeadlineExceeded) })
	return ctx, p
}

// came notes that something did.
func (p *patience) came() { p.timer.Reset(p.most) }

func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}

// why returns err, the outcome of a read with ctx, or that the time was over if that
// ended it.
func (p *patience) why(ctx context.Context, err error) error {
	if context.Cause(ctx) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}
