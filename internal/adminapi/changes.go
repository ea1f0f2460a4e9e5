package adminapi

import (
	"encoding/json"
	"math"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// changesStep is how many changes are read at once: those of documents have up to
	// 2 MiB each.
	changesStep = 20
	// maxChangesBytes bounds the states of one page, unless it has one step only.
	maxChangesBytes = 8 << 20
)

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
	// Kind is account, rules, tiers, switch or rule_row.
	Kind string `json:"kind"`
	// Name is that of the account or the document, or the id of the row.
	Name   string          `json:"name"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Hash   string          `json:"hash"`
}

func changeViewOf(e *sqltenant.Entry) changeView {
	name := e.Subject.Value
	if e.Kind == sqltenant.AccountEntry {
		name = quotas.NameText(e.Subject)
	}
	return changeView{
		Version: e.Version, At: e.At, Actor: e.Actor, Kind: string(e.Kind), Name: name,
		Before: json.RawMessage(e.Before), After: json.RawMessage(e.After), Hash: e.Hash,
	}
}

// changes answers with a page of the log.
func (c *call) changes() (*answer, error) {
	n, bad := c.number("limit", 1, sqltenant.MaxPage, defaultPage)
	if bad != nil {
		return nil, bad
	}
	after, bad := c.number("after", 0, math.MaxInt64, 0)
	if bad != nil {
		return nil, bad
	}
	ctx, cancel := c.context()
	defer cancel()
	p := changesPage{Changes: []changeView{}}
	for size := 0; len(p.Changes) < int(n) && size < maxChangesBytes; {
		asked := min(changesStep, int(n)-len(p.Changes))
		entries, err := c.accounts.Changes(ctx, after, asked)
		if err != nil {
			return nil, err
		}
		for i := range entries {
			after, size = entries[i].Version, size+len(entries[i].Before)+len(entries[i].After)
			p.Changes = append(p.Changes, changeViewOf(&entries[i]))
		}
		if len(entries) < asked {
			return jsonAnswer(http.StatusOK, p)
		}
	}
	p.NextAfter = after
	return jsonAnswer(http.StatusOK, p)
}
