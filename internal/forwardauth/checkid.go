package forwardauth

import (
	"context"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/repeat"
)

// Repeater is a Checker that also decides checks with an id once. One is needed where
// Options.IDHeader is not "".
type Repeater interface {
	CheckOnce(ctx context.Context, requests []headgate.Request, ids []string, responses []headgate.Response) error
}

// check decides c, once where the gateway has given an id.
func (a *Authorizer) check(original *http.Request, c *call) error {
	id := ""
	if a.options.IDHeader != "" {
		var err error
		if id, err = a.idOf(original); err != nil {
			return err
		}
	}
	ctx, end := a.options.Turns.Begin(original.Context())
	defer end()
	if id == "" {
		return a.options.Checker.Check(ctx, c.requests[:], c.responses[:])
	}
	repeater, ok := a.options.Checker.(Repeater)
	if !ok {
		return repeat.ErrNoStore
	}
	return repeater.CheckOnce(ctx, c.requests[:], []string{id}, c.responses[:])
}

// idOf returns the id of the check, "" if it has none. A field that is there twice is
// malformed: one of them may be the client's.
func (a *Authorizer) idOf(original *http.Request) (string, error) {
	switch ids := original.Header.Values(a.options.IDHeader); {
	case len(ids) == 0:
		return "", nil
	case len(ids) > 1:
		return "", malformed("%d header fields %s; hint: the gateway sets it in place of what the client sent", len(ids), a.options.IDHeader)
	case len(ids[0]) > repeat.MaxID:
		return "", malformed("%s has %d bytes; hint: at most %d", a.options.IDHeader, len(ids[0]), repeat.MaxID)
	default:
		return ids[0], nil
	}
}
