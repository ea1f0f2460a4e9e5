package sqltenant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
)

const (
	// MaxRuleRows bounds the rows that are read, those of the lowest IDs.
	MaxRuleRows = 100_000
	// maxMethod and maxWord bound texts of a row, in bytes.
	maxMethod, maxWord = 64, 64
)

// RuleRow is a row of the table rate_limit_rules, in which operators may also write
// by other means than Headgate. Nothing of it is checked here but by PutRuleRow; what
// is no whole number where one belongs is read as -1.
type RuleRow = rules.Row

// RuleRowChange says what is to be done with a row of the table of rules.
type RuleRowChange struct {
	// Row is what it shall be. Its ID is 0 for a new one.
	Row RuleRow
	// Delete takes the row with that ID out.
	Delete bool
	Actor  string
	At     time.Time
}

func (c *RuleRowChange) validate() error {
	if err := printable("actor", c.Actor, MaxActor); err != nil || c.Delete {
		return err
	}
	return validateRuleRow(&c.Row)
}

func validateRuleRow(r *RuleRow) error {
	if r.Scope != "user" && r.Scope != "ip" && r.Scope != "apikey" {
		return fmt.Errorf("scope %.64q; hint: user, ip or apikey", r.Scope)
	}
	for _, text := range []struct {
		name  string
		value *string
		most  int
	}{{"route", r.Route, rules.MaxRoute}, {"method", r.Method, maxMethod}, {"weight_field", given(r.WeightField), rules.MaxWeightField}, {"failure_mode", given(r.FailureMode), maxWord}} {
		if text.value != nil {
			if err := printable(text.name, *text.value, text.most); err != nil {
				return err
			}
		}
	}
	return validateRowLimit(r)
}

// given returns nil for "", which means the default.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func validateRowLimit(r *RuleRow) error {
	spec := limit.Spec{Quota: r.LimitCount, Period: limit.MaxPeriod + time.Millisecond, Burst: r.Burst}
	if r.WindowMS <= limit.MaxPeriod.Milliseconds() {
		spec.Period = time.Duration(r.WindowMS) * time.Millisecond
	}
	if r.Algorithm != "" {
		var err error
		if spec.Algorithm, err = limit.ParseAlgorithm(r.Algorithm); err != nil {
			return fmt.Errorf("algorithm: %w", err)
		}
	}
	if spec.Algorithm == limit.Concurrency || spec.Algorithm == limit.Ban {
		return fmt.Errorf("algorithm %v is no limit over time; hint: one of the other algorithms", spec.Algorithm)
	}
	_, err := limit.New(spec)
	return err
}

// PutRuleRow makes a change and returns the row as it is then, with its ID, and the
// version of the change, that of the last one if nothing changes; ErrInvalid where
// there is no row with that ID. A row that was taken out is returned with nothing but
// its ID. The audit chain has it under the kind RuleRowEntry.
func (d *DB) PutRuleRow(ctx context.Context, c RuleRowChange) (RuleRow, int64, error) {
	if err := c.validate(); err != nil {
		return RuleRow{}, 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var after RuleRow
	var version int64
	err := d.change(ctx, func(w *writer) (err error) {
		after, err = d.putRuleRow(ctx, w, &c)
		version = w.version
		return err
	})
	if err != nil {
		return RuleRow{}, 0, err
	}
	return after, version, nil
}

func (d *DB) putRuleRow(ctx context.Context, w *writer, c *RuleRowChange) (RuleRow, error) {
	var before RuleRow
	if c.Row.ID != 0 || c.Delete {
		var err error
		before, err = scanRuleRow(w.tx.QueryRowContext(ctx, selectRuleRows+`WHERE id = $1`, c.Row.ID))
		if errors.Is(err, sql.ErrNoRows) {
			return before, fmt.Errorf("%w: no row of rules with the id %d", ErrInvalid, c.Row.ID)
		} else if err != nil {
			return before, d.failed("change a row of rules of", err)
		}
	} else if err := d.roomForRuleRow(ctx, w); err != nil {
		return before, err
	}
	after := c.Row
	after.CreatedAt, after.UpdatedAt = before.CreatedAt, c.At.UTC().Truncate(time.Microsecond)
	if before.ID == 0 {
		after.CreatedAt = after.UpdatedAt
	}
	if c.Delete {
		after = RuleRow{ID: before.ID}
	} else if before.ID != 0 && before.Alike(&after) {
		return before, nil
	}
	if err := writeRuleRow(ctx, w, c.Delete, &after); err != nil {
		return before, d.failed("change a row of rules of", err)
	}
	e := Entry{
		At: c.At.UTC().Truncate(time.Microsecond), Actor: c.Actor, Kind: RuleRowEntry,
		Subject: tenant.Subject{Value: strconv.FormatInt(after.ID, 10)}, Before: "{}", After: "{}",
	}
	if before.ID != 0 {
		e.Before = rowState(&before)
	}
	if !c.Delete {
		e.After = rowState(&after)
	}
	w.add(e)
	return after, nil
}

func (d *DB) roomForRuleRow(ctx context.Context, w *writer) error {
	var count int64
	if err := w.tx.QueryRowContext(ctx, `SELECT count(*) FROM rate_limit_rules`).Scan(&count); err != nil {
		return d.failed("count the rows of rules of", err)
	}
	if count >= MaxRuleRows {
		return fmt.Errorf("%w: %d rows of rules; hint: at most %d; delete some", ErrInvalid, count, MaxRuleRows)
	}
	return nil
}

// writeRuleRow makes r what the table has, and sets its ID if it has none.
func writeRuleRow(ctx context.Context, w *writer, remove bool, r *RuleRow) error {
	if remove {
		_, err := w.tx.ExecContext(ctx, `DELETE FROM rate_limit_rules WHERE id = $1`, r.ID)
		return err
	}
	fields := bind(w.postgres, []any{
		r.Scope, r.Route, r.Method, r.LimitCount, r.WindowMS, r.WeightField, r.Algorithm, r.Burst, r.FailureMode, r.Active,
		moment(r.CreatedAt), moment(r.UpdatedAt),
	})
	if r.ID == 0 {
		return w.tx.QueryRowContext(ctx, `INSERT INTO rate_limit_rules (scope, route, method, limit_count, window_ms, weight_field, algorithm, burst,
			failure_mode, is_active, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id`, fields...).Scan(&r.ID)
	}
	_, err := w.tx.ExecContext(ctx, `UPDATE rate_limit_rules SET scope = $1, route = $2, method = $3, limit_count = $4, window_ms = $5,
		weight_field = $6, algorithm = $7, burst = $8, failure_mode = $9, is_active = $10, created_at = $11, updated_at = $12 WHERE id = $13`,
		append(fields, r.ID)...)
	return err
}

// ruleRowState is a row as the audit chain writes it; it is part of what is hashed,
// so fields are only added, at the end and with omitempty.
type ruleRowState struct {
	Scope       string  `json:"scope"`
	Route       *string `json:"route,omitempty"`
	Method      *string `json:"method,omitempty"`
	LimitCount  int64   `json:"limit_count"`
	WindowMS    int64   `json:"window_ms"`
	WeightField string  `json:"weight_field,omitempty"`
	Algorithm   string  `json:"algorithm,omitempty"`
	Burst       int64   `json:"burst,omitempty"`
	FailureMode string  `json:"failure_mode,omitempty"`
	Active      bool    `json:"is_active"`
}

// rowState returns the JSON of what counts of r.
func rowState(r *RuleRow) string {
	return jsonOf(ruleRowState{
		r.Scope, r.Route, r.Method, r.LimitCount, r.WindowMS, r.WeightField, r.Algorithm, r.Burst, r.FailureMode, r.Active,
	})
}

const selectRuleRows = `SELECT id, scope, route, method, limit_count, window_ms, coalesce(weight_field, ''), coalesce(algorithm, ''), coalesce(burst, 0), coalesce(failure_mode, ''),
	is_active, created_at, updated_at FROM rate_limit_rules `

func scanRuleRow(row scanner) (r RuleRow, err error) {
	var limitCount, windowMS, burst, created, updated whole
	var active truth
	err = row.Scan(&r.ID, &r.Scope, &r.Route, &r.Method, &limitCount, &windowMS, &r.WeightField, &r.Algorithm, &burst, &r.FailureMode,
		&active, &created, &updated)
	r.LimitCount, r.WindowMS, r.Burst, r.Active = int64(limitCount), int64(windowMS), int64(burst), bool(active)
	r.CreatedAt, r.UpdatedAt = created.instant(), updated.instant()
	return r, err
}

// RuleRows returns all rows, up to MaxRuleRows, those that are not active included,
// in the order of their IDs.
func (d *DB) RuleRows(ctx context.Context) ([]RuleRow, error) {
	rows, _, err := ruleRows(ctx, d.read, func() {})
	if err != nil {
		return nil, d.failed("list the rows of rules of", err)
	}
	return rows, nil
}

// rowsAtATime is after how many rows ruleRows says that they come.
const rowsAtATime = 100

// ruleRows returns the rows, and what is wrong with those that it left out. It calls
// came now and then while rows come.
func ruleRows(ctx context.Context, q querier, came func()) (all []RuleRow, bad error, err error) {
	err = eachRow(ctx, q, selectRuleRows+`ORDER BY id LIMIT $1`, []any{MaxRuleRows + 1}, func(rows *sql.Rows) error {
		r, err := scanRuleRow(rows)
		if err != nil {
			return err
		}
		if len(all) == MaxRuleRows {
			bad = fmt.Errorf("%w: rows of rules from the id %d on are left out: more than %d", ErrInvalid, r.ID, MaxRuleRows)
			return errEnough
		}
		if all = append(all, r); len(all)%rowsAtATime == 0 {
			came()
		}
		return nil
	})
	return all, bad, err
}
