package adminapi

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// maxRowText bounds the texts of a row, in bytes.
const maxRowText = 256

// rowBody is a row of the table of rules as the body of a request has it.
type rowBody struct {
	Scope       string  `json:"scope"`
	Route       *string `json:"route"`
	Method      *string `json:"method"`
	LimitCount  *int64  `json:"limit_count"`
	WindowMS    *int64  `json:"window_ms"`
	WeightField string  `json:"weight_field,omitempty"`
	Algorithm   string  `json:"algorithm,omitempty"`
	Burst       int64   `json:"burst,omitempty"`
	FailureMode string  `json:"failure_mode,omitempty"`
	// Active is true where it is not said.
	Active *bool `json:"is_active"`
}

// rowView is a row as it is answered.
type rowView struct {
	ID int64 `json:"id"`
	rowBody
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

type rowsPage struct {
	Rows       []rowView `json:"rows"`
	NextCursor string    `json:"next_cursor,omitempty"`
}

func rowViewOf(r *sqltenant.RuleRow) rowView {
	return rowView{r.ID, rowBody{
		r.Scope, r.Route, r.Method, &r.LimitCount, &r.WindowMS, r.WeightField, r.Algorithm, r.Burst, r.FailureMode, &r.Active,
	}, r.CreatedAt, r.UpdatedAt}
}

// row turns b into a row and says all that is wrong with it.
func (b *rowBody) row() (r sqltenant.RuleRow, list []fieldError) {
	bad := func(field, format string, args ...any) {
		list = append(list, fieldError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	r = sqltenant.RuleRow{
		Scope: b.Scope, Route: b.Route, Method: b.Method, WeightField: b.WeightField,
		Algorithm: b.Algorithm, FailureMode: b.FailureMode, Burst: b.Burst, Active: b.Active == nil || *b.Active,
	}
	if b.Scope != "user" && b.Scope != "ip" && b.Scope != "apikey" {
		bad("scope", "%.40q; hint: user, ip or apikey", b.Scope)
	}
	for _, text := range []struct {
		field string
		value *string
	}{{"route", b.Route}, {"method", b.Method}, {"weight_field", &b.WeightField}} {
		switch {
		case text.value == nil || text.field == "weight_field" && *text.value == "":
		case *text.value == "":
			bad(text.field, "empty; hint: leave it out for all")
		case len(*text.value) > maxRowText:
			bad(text.field, "%d bytes; hint: at most %d", len(*text.value), maxRowText)
		case deceptive(*text.value) != "":
			bad(text.field, "%s", deceptive(*text.value))
		}
	}
	switch b.FailureMode {
	case "", "open", "closed", "local":
	default:
		bad("failure_mode", "%.40q; hint: open, closed or local", b.FailureMode)
	}
	spec := limit.Spec{Burst: b.Burst}
	if b.Algorithm != "" {
		var err error
		if spec.Algorithm, err = limit.ParseAlgorithm(b.Algorithm); err != nil {
			bad("algorithm", "%v", err)
		} else if spec.Algorithm == limit.Concurrency || spec.Algorithm == limit.Ban {
			bad("algorithm", "%v is no limit over time; hint: one of the other algorithms", spec.Algorithm)
		}
	}
	const longest = int64(limit.MaxPeriod / time.Millisecond)
	switch {
	case b.WindowMS == nil:
		bad("window_ms", "missing; hint: 60000 for a minute")
	case *b.WindowMS < 1 || *b.WindowMS > longest:
		bad("window_ms", "not a whole number from 1 to %d", longest)
	default:
		r.WindowMS = *b.WindowMS
		spec.Period = time.Duration(r.WindowMS) * time.Millisecond
	}
	if b.LimitCount == nil {
		bad("limit_count", "missing; hint: a whole number")
	} else {
		r.LimitCount, spec.Quota = *b.LimitCount, *b.LimitCount
	}
	if len(list) == 0 {
		list = specErrors(spec)
	}
	return r, list
}

// specErrors says what is wrong with a limit, by the names of columns.
func specErrors(spec limit.Spec) []fieldError {
	_, err := limit.New(spec)
	if err == nil {
		return nil
	}
	e := fieldError{Field: wholeBody, Message: err.Error()}
	if at, ok := err.(*limit.SpecError); ok {
		e.Field, e.Message, e.Hint = at.Field, at.Problem, at.Hint
	}
	switch e.Field {
	case "quota":
		e.Field = "limit_count"
	case "period":
		e.Field = "window_ms"
	}
	return []fieldError{e}
}

// rows answers with a page of rows.
func (c *call) rows() (*answer, error) {
	ctx, cancel := c.context()
	defer cancel()
	all, err := c.accounts.RuleRows(ctx)
	if err != nil {
		return nil, err
	}
	// In the order of their IDs, which are also in the order of texts of one length.
	page, next, bad := window(c, all, func(r *sqltenant.RuleRow) string { return fmt.Sprintf("%019d", r.ID) })
	if bad != nil {
		return nil, bad
	}
	p := rowsPage{Rows: make([]rowView, len(page)), NextCursor: next}
	for i := range page {
		p.Rows[i] = rowViewOf(&page[i])
	}
	return jsonAnswer(http.StatusOK, p)
}

// addRow makes a row.
func (c *call) addRow() (*answer, error) {
	r, bad := c.parseRow()
	if bad != nil {
		return nil, bad
	}
	return c.putRow(http.StatusCreated, sqltenant.RuleRowChange{Row: r})
}

// changeRow makes a row what the body says.
func (c *call) changeRow() (*answer, error) {
	id, err := c.rowID()
	if err != nil {
		return nil, err
	}
	r, bad := c.parseRow()
	if bad != nil {
		return nil, bad
	}
	r.ID = id
	return c.putRow(http.StatusOK, sqltenant.RuleRowChange{Row: r})
}

// removeRow takes a row out.
func (c *call) removeRow() (*answer, error) {
	id, err := c.rowID()
	if err != nil {
		return nil, err
	}
	if _, err := c.putRow(http.StatusNoContent, sqltenant.RuleRowChange{Row: sqltenant.RuleRow{ID: id}, Delete: true}); err != nil {
		return nil, err
	}
	return gone(), nil
}

func (c *call) parseRow() (r sqltenant.RuleRow, bad *problem) {
	var body rowBody
	if bad := decodeBody(c.body, &body); bad != nil {
		return r, bad
	}
	r, list := body.row()
	if len(list) > 0 {
		return r, badFields(http.StatusUnprocessableEntity, list)
	}
	return r, nil
}

// rowID reads {row}, of which there must be one.
func (c *call) rowID() (int64, error) {
	id, err := strconv.ParseInt(c.path["row"], 10, 64)
	if err != nil || id < 1 {
		return 0, badField(http.StatusUnprocessableEntity, "row", "not the id of a row")
	}
	ctx, cancel := c.context()
	defer cancel()
	all, err := c.accounts.RuleRows(ctx)
	if err != nil {
		return 0, err
	}
	for i := range all {
		if all[i].ID == id {
			return id, nil
		}
	}
	return 0, fail(http.StatusNotFound, "there is no row %d", id)
}

func (c *call) putRow(status int, change sqltenant.RuleRowChange) (*answer, error) {
	change.Actor, change.At = c.actor, c.now
	ctx, cancel := c.context()
	defer cancel()
	r, version, err := c.accounts.PutRuleRow(ctx, change)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(status, struct {
		rowView
		Version int64 `json:"version"`
	}{rowViewOf(&r), version})
}
