package quotas

import (
	"encoding/json"

	"github.com/headgate/headgate/internal/strictjson"
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
