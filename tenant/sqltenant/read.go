package sqltenant

import (
	"context"
	"database/sql"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// MaxPage bounds the accounts of one page.
const MaxPage = 1000

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Get returns the account of a subject; one that is not there has Version 0 and
// nothing but its Subject.
func (d *DB) Get(ctx context.Context, subject tenant.Subject) (Record, error) {
	if storable(subject) != nil {
		return Record{Subject: subject}, nil
	}
	r, err := get(ctx, d.read, subject)
	if err != nil {
		return r, d.failed("read", err)
	}
	return r, nil
}

// List returns up to n accounts, at most MaxPage, whose subjects come after one, in
// the order of subjects; the zero subject is before all.
func (d *DB) List(ctx context.Context, after tenant.Subject, n int) ([]Record, error) {
	records, err := query(ctx, d.read, `WHERE (a.subject_key, a.subject) > ($1, $2)
		ORDER BY a.subject_key, a.subject LIMIT $3`, after.Key, after.Value, min(max(n, 1), MaxPage))
	if err != nil {
		return nil, d.failed("list", err)
	}
	return records, nil
}

// Version returns the version of the last change.
func (d *DB) Version(ctx context.Context) (version int64, err error) {
	if err = d.read.QueryRowContext(ctx, `SELECT version FROM tenant_state WHERE id = 1`).Scan(&version); err != nil {
		return 0, d.failed("read the version of", err)
	}
	return version, nil
}

// count returns the number of accounts.
func (d *DB) count(ctx context.Context) (accounts int64, err error) {
	if err = d.read.QueryRowContext(ctx, `SELECT count(*) FROM accounts`).Scan(&accounts); err != nil {
		return 0, d.failed("count", err)
	}
	return accounts, nil
}

func get(ctx context.Context, q querier, subject tenant.Subject) (Record, error) {
	records, err := query(ctx, q, `WHERE a.subject_key = $1 AND a.subject = $2`, subject.Key, subject.Value)
	if err != nil || len(records) == 0 {
		return Record{Subject: subject}, err
	}
	return records[0], nil
}

// query returns the accounts of a condition with all that belongs to them. The
// condition bounds how many there are.
func query(ctx context.Context, q querier, condition string, args ...any) ([]Record, error) {
	rows, err := q.QueryContext(ctx, `SELECT a.subject_key, a.subject, a.last4, a.version, a.updated_at FROM accounts a `+condition, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var records []Record
	index := map[tenant.Subject]int{}
	for rows.Next() {
		var r Record
		var updated int64
		if err := rows.Scan(&r.Subject.Key, &r.Subject.Value, &r.Last4, &r.Version, &updated); err != nil {
			return nil, err
		}
		r.UpdatedAt = instant(updated)
		index[r.Subject] = len(records)
		records = append(records, r)
	}
	if err := rows.Err(); err != nil || len(records) == 0 {
		return nil, err
	}
	rows.Close()
	of := func(s tenant.Subject) *Record {
		if i, ok := index[s]; ok {
			return &records[i]
		}
		return nil // of a change that came between the queries
	}
	if err := addTiers(ctx, q, of, condition, args); err != nil {
		return nil, err
	}
	return records, addOverrides(ctx, q, of, condition, args)
}

// selected is the part of a statement that keeps to the accounts of a condition.
func selected(condition string) string {
	return ` JOIN (SELECT a.subject_key, a.subject FROM accounts a ` + condition + `) s
		ON s.subject_key = t.subject_key AND s.subject = t.subject`
}

func addTiers(ctx context.Context, q querier, of func(tenant.Subject) *Record, condition string, args []any) error {
	rows, err := q.QueryContext(ctx, `SELECT t.subject_key, t.subject, t.tier, t.effective_at, t.expires_at
		FROM account_tiers t`+selected(condition)+` ORDER BY t.effective_at`, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var s tenant.Subject
		var t tenant.Assignment
		var from int64
		var until sql.NullInt64
		if err := rows.Scan(&s.Key, &s.Value, &t.Tier, &from, &until); err != nil {
			return err
		}
		t.Term = term(from, until)
		if r := of(s); r != nil {
			r.Tiers = append(r.Tiers, t)
		}
	}
	return rows.Err()
}

func addOverrides(ctx context.Context, q querier, of func(tenant.Subject) *Record, condition string, args []any) error {
	rows, err := q.QueryContext(ctx, `SELECT t.subject_key, t.subject, t.id, t.descriptor, t.requests_per_unit, t.unit, t.algorithm, t.burst,
		t.effective_at, t.expires_at, t.created_at, t.updated_at, t.created_by
		FROM quota_overrides t`+selected(condition)+` ORDER BY t.descriptor, t.effective_at`, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		s, o, err := scanOverride(rows)
		if err != nil {
			return err
		}
		if r := of(s); r != nil {
			r.Overrides = append(r.Overrides, o)
		}
	}
	return rows.Err()
}

func scanOverride(rows *sql.Rows) (s tenant.Subject, o Override, err error) {
	var quota, until sql.NullInt64
	var unit, algorithm string
	var from, created, updated int64
	if err = rows.Scan(&s.Key, &s.Value, &o.ID, &o.Descriptor, &quota, &unit, &algorithm, &o.Burst,
		&from, &until, &created, &updated, &o.CreatedBy); err != nil {
		return s, o, err
	}
	// A word that is none, which Headgate has not written, makes this one override
	// invalid and no error of the query: the other accounts must be read.
	var unitErr, algorithmErr error
	o.Unit, unitErr = tenant.ParseUnit(unit)
	o.Algorithm, algorithmErr = limit.ParseAlgorithm(algorithm)
	if unitErr != nil || algorithmErr != nil {
		o.Unit = 0
	}
	o.Unlimited, o.RequestsPerUnit = !quota.Valid, quota.Int64
	o.Term, o.CreatedAt, o.UpdatedAt = term(from, until), instant(created), instant(updated)
	return s, o, nil
}

func term(from int64, until sql.NullInt64) tenant.Term {
	t := tenant.Term{From: instant(from)}
	if until.Valid {
		t.Until = time.UnixMicro(until.Int64).UTC()
	}
	return t
}
