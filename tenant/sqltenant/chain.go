package sqltenant

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"
)

// maxParameters bounds those of one statement: SQLite takes 32,766, PostgreSQL
// 65,535; past some thousand, more of them are no faster.
const maxParameters = 4096

// writer is a transaction of changes. No two of them overlap.
type writer struct {
	tx       *sql.Tx
	postgres bool
	// version and digest are those of the last change, this writer's included.
	version int64
	digest  string
	entries []Entry // to be written
}

// change makes the changes of do, which adds an entry for each: all of them, or none
// when it fails. Without an entry nothing is written.
func (d *DB) change(ctx context.Context, do func(*writer) error) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return d.failed("change", err)
	}
	w := &writer{tx: tx, postgres: d.postgres()}
	if err := d.changeIn(ctx, w, do); err != nil || len(w.entries) == 0 {
		// A context that has ended has rolled back.
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, d.failed("change", undo))
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return d.failed("change", err)
	}
	d.local.ring()
	return nil
}

func (d *DB) changeIn(ctx context.Context, w *writer, do func(*writer) error) error {
	if err := w.begin(ctx, d.maxSilence); err != nil {
		return d.failed("change", err)
	}
	if err := do(w); err != nil || len(w.entries) == 0 {
		return err
	}
	if err := w.finish(ctx); err != nil {
		return d.failed("change", err)
	}
	return nil
}

// begin puts w behind all other writers, by the lock of one row. PostgreSQL takes that lock away from a process that says
// nothing for so long: a process that is cut off or stands still in the middle of a change keeps its connection open, for
// hours if nobody notices, and no other process could change anything meanwhile.
func (w *writer) begin(ctx context.Context, maxSilence time.Duration) error {
	const lock = `UPDATE tenant_head SET version = version WHERE id = 1 RETURNING version, digest`
	if !w.postgres {
		return w.tx.QueryRowContext(ctx, lock).Scan(&w.version, &w.digest)
	}
	var set string
	return w.tx.QueryRowContext(ctx, lock+`, set_config('idle_in_transaction_session_timeout', $1, true)`,
		strconv.FormatInt(maxSilence.Milliseconds(), 10)).Scan(&w.version, &w.digest, &set)
}

// add puts e at the end of the chain, with the next version, and returns that.
func (w *writer) add(e Entry) (version int64) {
	w.version++
	e.Version = w.version
	e.Hash = e.chained(w.digest)
	w.digest = e.Hash
	w.entries = append(w.entries, e)
	return e.Version
}

// finish writes the entries and what they lead to.
func (w *writer) finish(ctx context.Context) error {
	rows := make([][]any, len(w.entries))
	for i := range w.entries {
		e := &w.entries[i]
		rows[i] = []any{e.Version, moment(e.At), e.Actor, string(e.Kind), e.Subject.Key, e.Subject.Value, e.Before, e.After, e.Hash}
	}
	err := w.each(ctx, `INSERT INTO account_changes (version, at, actor, kind, subject_key, subject, before_state, after_state, hash) VALUES `, rows, ``)
	if err != nil {
		return err
	}
	if _, err := w.tx.ExecContext(ctx, `UPDATE tenant_head SET version = $1, digest = $2 WHERE id = 1`, w.version, w.digest); err != nil {
		return err
	}
	if w.postgres {
		_, err = w.tx.ExecContext(ctx, `SELECT pg_notify('`+channel+`', '')`)
	}
	return err
}

// each runs a statement on rows of values, which stand between before and after it,
// as often as maxParameters asks for.
func (w *writer) each(ctx context.Context, before string, rows [][]any, after string) error {
	for len(rows) > 0 {
		n := min(len(rows), maxParameters/len(rows[0]))
		text, args := values(rows[:n], w.postgres)
		if _, err := w.tx.ExecContext(ctx, before+text+after, bind(w.postgres, args)...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// values returns rows of one length as the text "($1,$2),($3,$4)" and its parameters.
// They have no names with SQLite, which looks for each name among all others: with
// thousands of them that takes longer than all else.
func values(rows [][]any, numbered bool) (text string, args []any) {
	var b []byte
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '(')
		for j, value := range row {
			if j > 0 {
				b = append(b, ',')
			}
			args = append(args, value)
			if numbered {
				b = strconv.AppendInt(append(b, '$'), int64(len(args)), 10)
			} else {
				b = append(b, '?')
			}
		}
		b = append(b, ')')
	}
	return string(b), args
}

// moment is an instant as a parameter of a statement; the zero time means always, or not
// known. endTerm is the same for the end of a term, of which the zero time is never.
type (
	moment  time.Time
	endTerm time.Time
)

// bind puts what a database takes in the place of instants, among the parameters of a
// statement: TIMESTAMPTZ for PostgreSQL, microseconds since 1970 for SQLite. It changes
// args.
func bind(postgres bool, args []any) []any {
	for i, arg := range args {
		switch v := arg.(type) {
		case moment:
			args[i] = boundInstant(postgres, micros(time.Time(v)))
		case endTerm:
			if args[i] = nil; !time.Time(v).IsZero() {
				args[i] = boundInstant(postgres, micros(time.Time(v)))
			}
		}
	}
	return args
}

func boundInstant(postgres bool, us int64) any {
	if postgres {
		return time.UnixMicro(us).UTC()
	}
	return us
}
