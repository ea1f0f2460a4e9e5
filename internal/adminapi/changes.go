package adminapi

import (
	"encoding/json"
	"math"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant/sqltenant"
)

var changesRoute = route{
	method: http.MethodGet, path: "changes", scope: Read, serve: listChanges, id: "listChanges", summary: "List who has changed what",
	query: []parameter{
		limitParameter,
		{"after", "The version after which to begin: next_after of the page before.", schema{"type": "integer", "minimum": 0, "default": 0}},
	},
	answers: []reply{ok(changesPage{}, "A page of the log of changes, the oldest first.")},
}

// changesPage is one answer of the log of changes.
type changesPage struct {
	Changes []changeView `json:"changes"`
	// NextAfter is there when there may be more.
	NextAfter int64 `json:"next_after,omitempty"`
}

// changeView is one change. Before and After are what was changed as the audit chain
// has it.
type changeView struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	// Kind is account, rules, tiers, switch, rule_row or action.
	Kind string `json:"kind"`
	// Name is that of the account or the document, or the id of the row. An action, of
	// which After says what it was, has the account that it was for.
	Name   string          `json:"name"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Hash   string          `json:"hash"`
}

func changeViewOf(e *sqltenant.Entry) changeView {
	name := e.Subject.Value
	if e.Kind == sqltenant.AccountEntry || e.Kind == sqltenant.ActionEntry {
		name = quotas.NameText(e.Subject)
	}
	return changeView{
		Version: e.Version, At: e.At, Actor: e.Actor, Kind: string(e.Kind), Name: name,
		Before: json.RawMessage(e.Before), After: json.RawMessage(e.After), Hash: e.Hash,
	}
}

// listChanges answers with a page of the log.
func listChanges(c *call) (*answer, error) {
	n, after := c.number("limit", 1, sqltenant.MaxPage, defaultPage), c.number("after", 0, math.MaxInt64, 0)
	if c.bad != nil {
		return nil, c.bad
	}
	ctx := c.context()
	entries, err := c.db.Changes(ctx, after, int(n))
	if err != nil {
		return nil, err
	}
	p := changesPage{Changes: make([]changeView, len(entries))}
	for i := range entries {
		p.Changes[i], after = changeViewOf(&entries[i]), entries[i].Version
	}
	more := entries
	if len(entries) > 0 && len(entries) < int(n) { // at the end, or since they are long
		if more, err = c.db.Changes(ctx, after, 1); err != nil {
			return nil, err
		}
	}
	if len(more) > 0 {
		p.NextAfter = after
	}
	return jsonAnswer(http.StatusOK, p)
}
