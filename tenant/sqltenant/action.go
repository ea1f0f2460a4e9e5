package sqltenant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/tenant"
)

// ActionEntry is the kind of entries for what was done to something that the database
// does not keep, such as counters. They have no state before.
const ActionEntry Kind = "action"

// MaxAction bounds the text of an action, in bytes.
const MaxAction = 4096

// Action is something that an operator does and that changes nothing in the database.
type Action struct {
	// Actor and At are as in Change.
	Actor string
	At    time.Time
	// Subject is whom it concerns.
	Subject tenant.Subject
	// Text says what is done: a JSON object.
	Text string
}

// Note puts an action at the end of the audit chain. Note it before it is done: then
// none is done that is not there. ErrInvalid says that it cannot be.
func (d *DB) Note(ctx context.Context, a Action) error {
	if err := a.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return d.change(ctx, func(w *writer) error {
		w.add(Entry{At: a.At.UTC().Truncate(time.Microsecond), Actor: a.Actor, Kind: ActionEntry, Subject: a.Subject, Before: "{}", After: a.Text})
		return nil
	})
}

func (a *Action) validate() error {
	if err := cmp.Or(printable("actor", a.Actor, MaxActor), storable(a.Subject)); err != nil {
		return err
	}
	if len(a.Text) > MaxAction {
		return fmt.Errorf("action of %d bytes; hint: at most %d", len(a.Text), MaxAction)
	}
	if !json.Valid([]byte(a.Text)) || a.Text[0] != '{' {
		return errors.New("the action is not a JSON object")
	}
	return nil
}
