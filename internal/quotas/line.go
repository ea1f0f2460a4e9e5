package quotas

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// Line is one line of an export: an account with its name. Lines that follow each
// other are a file for import.
type Line struct {
	// Name is as NameText writes it.
	Name string `json:"name"`
	// Last4 are the last four letters of an API key.
	Last4 string `json:"last4,omitempty"`
	Document
}

// LineOf returns the line of an account.
func LineOf(r *sqltenant.Record) Line { return Line{NameText(r.Subject), r.Last4, DocumentOf(r)} }

// Append appends l as JSON and a line end.
func (l *Line) Append(dst []byte) ([]byte, error) {
	text, err := json.Marshal(l)
	return append(append(dst, text...), '\n'), err
}

// ParseLine reads a line of an export or one that a person wrote. Its name may be
// all that ParseName takes. Errors hold no name of an account, which may be an API key.
func ParseLine(data []byte) (Line, error) {
	var l Line
	if len(data) > MaxDocument {
		return l, wrong("", "%d bytes; hint: at most %d", len(data), MaxDocument)
	}
	if err := strictjson.Decode(data, &l); err != nil {
		err = err.Guarded()
		_, column := err.Place(data)
		return l, &FieldError{err.Path, err.Problem(), column}
	}
	return l, nil
}

// Change makes the account of name what l says, as of now; its actor is still to be filled in.
// tiers is as for Document.Record.
func (l *Line) Change(name Name, tiers *tenant.Tiers, now time.Time) sqltenant.Change {
	if l.Last4 != "" {
		name.Last4 = l.Last4
	}
	return sqltenant.Change{
		Subject: name.Subject, Version: sqltenant.Anyway, At: now,
		Edit: func(r *sqltenant.Record) error {
			r.Last4 = name.Last4
			whole := l.Filled(r.TopUps, now)
			return whole.Record(r, tiers)
		},
	}
}

// Changer makes changes, as many as sqltenant.MaxChanges at once.
type Changer interface {
	UpdateAll(ctx context.Context, changes []sqltenant.Change) ([]sqltenant.Record, error)
}

// Write has db make any number of changes, some at a time, until one fails.
func Write(ctx context.Context, db Changer, changes []sqltenant.Change) error {
	for some := range slices.Chunk(changes, sqltenant.MaxChanges) {
		if _, err := db.UpdateAll(ctx, some); err != nil {
			return err
		}
	}
	return nil
}
