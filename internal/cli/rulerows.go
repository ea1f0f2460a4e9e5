package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/rules"
)

type rulesRowsCmd struct {
	besideFlags `embed:""`
	JSON        bool `name:"json" env:"-" help:"Print one JSON object to a line."`
}

// Help implements kong.HelpProvider.
func (*rulesRowsCmd) Help() string {
	return `Example:

  headgate rules rows --rules rules/

Lists the rules that stand as rows in the table rate_limit_rules of the database, those
that are not active too. A row that cannot be in force is listed with what is wrong; the
exit code is then 1.`
}

// listedRow is a row as rows shows it; its keys are the columns.
type listedRow struct {
	ID          int64     `json:"id"`
	Scope       string    `json:"scope"`
	Route       *string   `json:"route"`
	Method      *string   `json:"method"`
	LimitCount  int64     `json:"limit_count"`
	WindowMS    int64     `json:"window_ms"`
	WeightField string    `json:"weight_field,omitempty"`
	Algorithm   string    `json:"algorithm,omitempty"`
	Burst       int64     `json:"burst,omitempty"`
	FailureMode string    `json:"failure_mode,omitempty"`
	Active      bool      `json:"is_active"`
	UpdatedAt   time.Time `json:"updated_at"`
	// Error says why it cannot be in force.
	Error string `json:"error,omitempty"`
}

// Run lists the rows; the answer is no when one of them cannot be in force.
func (c *rulesRowsCmd) Run(std *stdio) error {
	ctx, db, done, err := c.open()
	if err != nil {
		return err
	}
	defer done()
	source, _, err := c.beside(ctx, db)
	if err != nil {
		return err
	}
	rows, err := db.RuleRows(ctx)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	wrong, bad := map[int64]rules.RowError{}, []error(nil)
	for _, e := range source.Status().BadRows {
		wrong[e.ID] = e
		bad = append(bad, e)
	}
	list := make([]listedRow, len(rows))
	for i, r := range rows {
		list[i] = listedRow{
			r.ID, r.Scope, r.Route, r.Method, r.LimitCount, r.WindowMS, r.WeightField, r.Algorithm, r.Burst, r.FailureMode, r.Active, r.UpdatedAt, "",
		}
		if e, ok := wrong[r.ID]; ok {
			list[i].Error = e.Error()
		}
	}
	if err := c.print(std.out, list); err != nil {
		return err
	}
	return noBecauseOf(bad)
}

func (c *rulesRowsCmd) print(w io.Writer, list []listedRow) error {
	if c.JSON {
		return printLines(w, list)
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSCOPE\tMETHOD\tROUTE\tLIMIT\tWEIGHT\tSTATE")
	for i := range list {
		r := &list[i]
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Scope, orAll(r.Method), orAll(r.Route), r.limitText(), orOne(r.WeightField), r.state())
	}
	return table.Flush()
}

// limitText returns the limit and what else the row says of it.
func (r *listedRow) limitText() string {
	text := fmt.Sprintf("%d per %s", r.LimitCount, rules.DurationText(time.Duration(r.WindowMS)*time.Millisecond))
	if r.Algorithm != "" {
		text += " " + r.Algorithm
	}
	if r.Burst != 0 {
		text += fmt.Sprintf(" burst %d", r.Burst)
	}
	if r.FailureMode != "" {
		text += ", fails " + r.FailureMode
	}
	return text
}

func (r *listedRow) state() string {
	switch {
	case r.Error != "":
		return "refused"
	case !r.Active:
		return "not active"
	}
	return "active"
}

// orAll is what a column without a value stands for.
func orAll(text *string) string {
	if text == nil {
		return "all"
	}
	return *text
}

func orOne(text string) string {
	if text == "" {
		return "1"
	}
	return text
}
