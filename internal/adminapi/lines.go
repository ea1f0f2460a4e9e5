package adminapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// exchange writes and reads all accounts.
type exchange struct{ *Options }

func (x exchange) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "export", scope: Read, serve: x.export, id: "exportQuotas", summary: "Write all accounts",
			about:   "Who changes accounts meanwhile may be in it or not; each account is whole. An answer that is cut off has no end.",
			answers: []reply{{http.StatusOK, "One account to a line.", linesType, quotas.Line{}, false}},
		},
		{
			method: http.MethodPost, path: "import", scope: Admin, slow: true, serve: x.importLines, id: "importQuotas", summary: "Read accounts",
			about:   "All lines are checked before anything is changed. Each account becomes what its line says; others stay as they are. When the database fails in between, what is written stays written: import the same again.",
			query:   []parameter{{"dry_run", "Check everything and change nothing.", schema{"type": "boolean", "default": false}}},
			body:    &payload{kinds: []string{linesType}, most: maxImport, of: quotas.Line{}, about: "One JSON object to a line, as export writes them."},
			answers: []reply{ok(imported{}, "What was done.")},
		},
	}
}

const (
	// maxImport bounds the body of an import: 200,000 accounts of 300 bytes.
	maxImport = 64 << 20
	// importTimeout bounds an import.
	importTimeout = 30 * time.Minute
	// maxLines bounds the accounts of an import.
	maxLines = 200_000
)

// imported is what an import has done.
type imported struct {
	Accounts int  `json:"accounts"`
	DryRun   bool `json:"dry_run,omitempty"`
}

// importLines makes accounts what the lines of the body say.
func (x exchange) importLines(c *call) (*answer, error) {
	dry := c.flag("dry_run")
	if c.bad != nil {
		return nil, c.bad
	}
	changes, bad := x.parseLines(c)
	if bad != nil {
		return nil, bad
	}
	if !dry {
		ctx, cancel := context.WithTimeout(c.request.Context(), importTimeout)
		defer cancel()
		if err := quotas.Write(ctx, c.db, changes); err != nil {
			return nil, err
		}
	}
	return jsonAnswer(http.StatusOK, imported{len(changes), dry})
}

// parseLines reads all lines, and says of the first ones that cannot be what is wrong.
func (x exchange) parseLines(c *call) ([]sqltenant.Change, *problem) {
	var changes []sqltenant.Change
	var list []fieldError
	seen := map[tenant.Subject]int{}
	tiers := x.Tiers()
	data := c.body
	for number := 1; len(data) > 0 && len(list) < maxFieldErrors; number++ {
		var text []byte
		text, data, _ = bytes.Cut(data, []byte("\n"))
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if len(changes) == maxLines {
			return nil, badField(http.StatusRequestEntityTooLarge, "body", "more than %d lines; hint: import them in parts", maxLines)
		}
		change, bad := c.parseLine(text, tiers)
		if first := seen[change.Subject]; len(bad) == 0 && first != 0 {
			bad = []fieldError{{Field: "name", Message: fmt.Sprintf("the account of line %d again", first)}}
		}
		for _, e := range bad {
			e.Line = number
			list = append(list, e)
		}
		if len(bad) == 0 {
			seen[change.Subject] = number
			changes = append(changes, change)
		}
	}
	if len(list) > 0 {
		return nil, badFields(http.StatusUnprocessableEntity, list)
	}
	if len(changes) == 0 {
		return nil, badField(http.StatusUnprocessableEntity, "body", "no lines; hint: one JSON object to a line, as export writes them")
	}
	return changes, nil
}

func (c *call) parseLine(text []byte, tiers *tenant.Tiers) (change sqltenant.Change, bad []fieldError) {
	line, err := quotas.ParseLine(text)
	if err != nil {
		p, _ := problemOf(err)
		return change, p.Errors
	}
	name, p := parseNewName(line.Name, "name", c.hasher)
	if p != nil {
		return change, p.Errors
	}
	if bad := c.checkAccount(&line.Document, name.Subject, tiers); len(bad) > 0 {
		return change, bad
	}
	change = line.Change(name, tiers, c.now)
	change.Actor = c.who.actor
	if err := change.Edit(&sqltenant.Record{Subject: name.Subject}); err != nil {
		return change, []fieldError{{Field: wholeBody, Message: err.Error()}}
	}
	return change, nil
}

// export answers with all accounts.
func (x exchange) export(c *call) (*answer, error) {
	first, err := c.exportPage(tenant.Subject{})
	if err != nil {
		return nil, err
	}
	return &answer{stream: func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", linesType)
		for records := first; ; {
			takeTime(w, time.Minute)
			var lines []byte
			for i := range records {
				line := quotas.LineOf(&records[i])
				if lines, err = line.Append(lines); err != nil {
					panic(err) // strings and integers only
				}
			}
			if _, err := w.Write(lines); err != nil {
				panic(http.ErrAbortHandler) // nobody reads it any more
			}
			if len(records) < sqltenant.MaxPage || c.request.Method == http.MethodHead {
				return nil
			}
			if records, err = c.exportPage(records[len(records)-1].Subject); err != nil {
				x.OnError(err)
				panic(http.ErrAbortHandler) // so that what came is not taken for all
			}
		}
	}}, nil
}

func (c *call) exportPage(after tenant.Subject) ([]sqltenant.Record, error) {
	ctx, cancel := context.WithTimeout(c.request.Context(), databaseTimeout) // of one page of many
	defer cancel()
	return c.db.List(ctx, after, sqltenant.MaxPage)
}
