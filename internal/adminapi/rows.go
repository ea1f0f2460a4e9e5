package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// ruleRows are the rows of the table of rules.
type ruleRows struct{}

func (t ruleRows) routes() []route {
	row := payload{kinds: jsonOnly, most: maxSmallBody, of: rowBody{}, about: "The row, whole."}
	return []route{
		{
			method: http.MethodGet, path: "rules/rows", scope: Read, serve: t.list, id: "listRuleRows", summary: "List the rows of the table of rules",
			query: page, answers: []reply{ok(rowsPage{}, "A page, in the order of their ids.")},
		},
		{
			method: http.MethodPost, path: "rules/rows", scope: Admin, serve: t.add, id: "addRuleRow", summary: "Add a row to the table of rules",
			body: &row, answers: []reply{created(changedRow{}, "The row.")},
		},
		{
			method: http.MethodPut, path: "rules/rows/{row}", scope: Admin, serve: t.change, id: "putRuleRow", summary: "Change a row of the table of rules",
			body: &row, answers: []reply{ok(changedRow{}, "The row as it is now."), noSuch},
		},
		{
			method: http.MethodDelete, path: "rules/rows/{row}", scope: Admin, serve: t.remove, id: "deleteRuleRow", summary: "Take a row out of the table of rules",
			answers: []reply{deleted("It is not there any more."), noSuch},
		},
	}
}

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

// row turns b into a row and says what is wrong with it by itself.
func (b *rowBody) row(c *call) (r sqltenant.RuleRow, list []fieldError) {
	r = sqltenant.RuleRow{
		Scope: b.Scope, Route: b.Route, Method: b.Method, WeightField: b.WeightField,
		Algorithm: b.Algorithm, FailureMode: b.FailureMode, Burst: b.Burst, Active: b.Active == nil || *b.Active,
	}
	for _, text := range []struct {
		field string
		value *string
	}{{"route", b.Route}, {"method", b.Method}, {"weight_field", &b.WeightField}} {
		if text.value != nil && *text.value != "" && quotas.Deceptive(*text.value) != "" {
			list = append(list, fieldError{Field: text.field, Message: quotas.Deceptive(*text.value)})
		}
	}
	for _, number := range []struct {
		field string
		value *int64
		into  *int64
	}{{"limit_count", b.LimitCount, &r.LimitCount}, {"window_ms", b.WindowMS, &r.WindowMS}} {
		if number.value == nil {
			list = append(list, fieldError{Field: number.field, Message: "missing", Hint: "a whole number"})
		} else {
			*number.into = *number.value
		}
	}
	if len(list) > 0 {
		return r, list
	}
	return r, rowErrors(rulefile.CheckRow(r, rulefile.Options{Fit: c.fit}))
}

// rowErrors is the error of a row as this API tells it.
func rowErrors(err error) []fieldError {
	var bad rules.RowError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return []fieldError{{Field: cmp.Or(bad.Column, wholeBody), Message: bad.Problem, Hint: bad.Hint}}
	}
	return []fieldError{{Field: wholeBody, Message: err.Error()}}
}

// checkBeside refuses a row that would not count beside the others. Of rules in files it
// knows nothing: where one stands in its place already, each node leaves the row out,
// and says so.
func checkBeside(r sqltenant.RuleRow, others []sqltenant.RuleRow) *problem {
	if r.ID == 0 {
		r.ID = math.MaxInt32 // after all others
	}
	list := []rules.Row{r}
	for i := range others {
		if others[i].ID != r.ID {
			list = append(list, others[i])
		}
	}
	set, err := rulefile.Load(nil, rulefile.Options{Rows: list})
	if err != nil {
		return badField(http.StatusUnprocessableEntity, wholeBody, "%v", err)
	}
	for _, bad := range set.BadRows() {
		if bad.ID == r.ID {
			return badFields(http.StatusUnprocessableEntity, rowErrors(bad))
		}
	}
	return nil
}

// list answers with a page of rows.
func (ruleRows) list(c *call) (*answer, error) {
	all, err := c.db.RuleRows(c.context())
	if err != nil {
		return nil, err
	}
	// In the order of their IDs, which are also in the order of texts of one length.
	page, next, bad := window(c, all, func(r *sqltenant.RuleRow) string { return fmt.Sprintf("%019d", r.ID) }, rowViewOf)
	if bad != nil {
		return nil, bad
	}
	return jsonAnswer(http.StatusOK, rowsPage{page, next})
}

// add makes a row.
func (ruleRows) add(c *call) (*answer, error) {
	r, bad := c.parseRow()
	if bad != nil {
		return nil, bad
	}
	return c.putRow(http.StatusCreated, r)
}

// change makes a row what the body says.
func (ruleRows) change(c *call) (*answer, error) {
	id, bad := c.rowID()
	if bad != nil {
		return nil, bad
	}
	r, bad := c.parseRow()
	if bad != nil {
		return nil, bad
	}
	r.ID = id
	return c.putRow(http.StatusOK, r)
}

// putRow writes a row, if it counts beside the others.
func (c *call) putRow(status int, r sqltenant.RuleRow) (*answer, error) {
	ctx := c.context()
	others, err := c.otherRows(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if bad := checkBeside(r, others); bad != nil && r.Active {
		return nil, bad
	}
	after, version, err := c.db.PutRuleRow(ctx, sqltenant.RuleRowChange{Row: r, Actor: c.who.actor, At: c.now})
	if err != nil {
		return nil, err
	}
	return jsonAnswer(status, changedRow{rowViewOf(&after), version})
}

// changedRow is a row that was changed, and the version of that change.
type changedRow struct {
	rowView
	Version int64 `json:"version"`
}

// remove takes a row out.
func (ruleRows) remove(c *call) (*answer, error) {
	id, bad := c.rowID()
	if bad != nil {
		return nil, bad
	}
	ctx := c.context()
	if _, err := c.otherRows(ctx, id); err != nil {
		return nil, err
	}
	_, _, err := c.db.PutRuleRow(ctx, sqltenant.RuleRowChange{Row: sqltenant.RuleRow{ID: id}, Delete: true, Actor: c.who.actor, At: c.now})
	if err != nil {
		return nil, err
	}
	return gone(), nil
}

func (c *call) parseRow() (r sqltenant.RuleRow, bad *problem) {
	var body rowBody
	if bad := decodeBody(c.body, &body); bad != nil {
		return r, bad
	}
	r, list := body.row(c)
	if len(list) > 0 {
		return r, badFields(http.StatusUnprocessableEntity, list)
	}
	return r, nil
}

// rowID reads {row}.
func (c *call) rowID() (int64, *problem) {
	id, err := strconv.ParseInt(c.param("row"), 10, 64)
	if err != nil || id < 1 {
		return 0, badField(http.StatusUnprocessableEntity, "row", "not the id of a row")
	}
	return id, nil
}

// otherRows returns all rows, among which must be the one with that ID, unless that is
// 0.
func (c *call) otherRows(ctx context.Context, id int64) ([]sqltenant.RuleRow, error) {
	all, err := c.db.RuleRows(ctx)
	if err != nil {
		return nil, err
	}
	if id != 0 && !slices.ContainsFunc(all, func(r sqltenant.RuleRow) bool { return r.ID == id }) {
		return nil, fail(http.StatusNotFound, "there is no row %d", id)
	}
	return all, nil
}
