package httpcheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/repeat"
)

// Repeater is a Checker that also decides checks with an id once, as headgate.Door does: ids
// has that of each request, "" for none.
type Repeater interface {
	CheckOnce(ctx context.Context, requests []headgate.Request, ids []string, responses []headgate.Response) error
}

// checkID reads the id of a check.
func (d *decoder) checkID() (string, *strictjson.Error) {
	id, err := d.id(repeat.MaxID, "leave it out, or draw one for each check")
	d.named = d.named || err == nil
	return id, err
}

// id reads an id of at most so many bytes; hint says what to do in place of an empty one.
func (d *decoder) id(most int, hint string) (string, *strictjson.Error) {
	id, err := d.Text()
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", &strictjson.Error{What: "empty", Hint: hint}
	case len(id) > most:
		return "", &strictjson.Error{What: fmt.Sprintf("an id of %d bytes", len(id)), Hint: fmt.Sprintf("at most %d; hash longer ones", most)}
	}
	return id, nil
}

// statusOfID returns the status of an error about ids, 0 for others.
func statusOfID(err error) int {
	switch {
	case errors.Is(err, repeat.ErrConflict):
		return http.StatusConflict
	case errors.Is(err, repeat.ErrNoStore):
		return http.StatusNotImplemented
	}
	return 0
}
