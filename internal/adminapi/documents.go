package adminapi

import (
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/tenant/sqltenant"
)

// documentView is what is told of a document, without its text.
type documentView struct {
	Name      string    `json:"name"`
	Bytes     int       `json:"bytes"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
}

func documentViewOf(d *sqltenant.Document) documentView {
	return documentView{d.Name, len(d.Text), d.Version, d.UpdatedAt, d.UpdatedBy}
}

// putDocument makes a document what text says, "" for taking it out, if it is as the
// request's conditions ask, and returns it as it is then and as it was before.
func (c *call) putDocument(kind sqltenant.Kind, name, text string) (after, before sqltenant.Document, err error) {
	conditions, bad := parseConditions(c.request.Header)
	if bad != nil {
		return after, before, bad
	}
	ctx, cancel := c.context()
	defer cancel()
	if before, err = c.accounts.Document(ctx, kind, name); err != nil {
		return after, before, err
	}
	if bad := conditions.check(before.Version); bad != nil {
		return after, before, bad
	}
	if text == "" && before.Version == 0 {
		return after, before, fail(http.StatusNotFound, "there is none of that name")
	}
	version := int64(sqltenant.Anyway)
	if conditions.any() {
		version = before.Version // and it must not change between the two
	}
	after, err = c.accounts.PutDocument(ctx, sqltenant.DocumentChange{Kind: kind, Name: name, Text: text, Actor: c.actor, Version: version, At: c.now})
	if errors.Is(err, sqltenant.ErrConflict) {
		return after, before, fail(http.StatusPreconditionFailed, "If-Match: it has changed just now")
	}
	return after, before, err
}

// any reports whether a condition was asked for.
func (c *conditions) any() bool { return c.match != nil || c.there || c.missing }

// statusOf is that of an answer to a change of what was in a version before.
func statusOf(before int64) int {
	if before == 0 {
		return http.StatusCreated
	}
	return http.StatusOK
}

// versioned answers with a body of JSON and an ETag.
func versioned(status int, body any, version int64) (*answer, error) {
	a, err := jsonAnswer(status, body)
	if err == nil {
		a.header.Set("ETag", etag(version))
	}
	return a, err
}

// textOf answers with the text of a document.
func (c *call) textOf(kind sqltenant.Kind, name string) (*answer, error) {
	ctx, cancel := c.context()
	defer cancel()
	d, err := c.accounts.Document(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	if d.Version == 0 {
		return nil, fail(http.StatusNotFound, "there is none of that name")
	}
	return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {yamlType}, "Etag": {etag(d.Version)}}, body: []byte(d.Text)}, nil
}

func gone() *answer { return &answer{status: http.StatusNoContent, header: http.Header{}} }

// maxCursor bounds the text in a cursor of a list by names, in bytes.
const maxCursor = 1024

// window is a page of a list that is in the order of names and known whole.
func window[T any](c *call, all []T, name func(*T) string) (page []T, next string, bad *problem) {
	n, bad := c.number("limit", 1, sqltenant.MaxPage, defaultPage)
	if bad != nil {
		return nil, "", bad
	}
	after := ""
	if query := c.request.URL.Query(); query.Has("cursor") {
		raw, err := base64.RawURLEncoding.DecodeString(query.Get("cursor"))
		if err != nil || len(raw) == 0 || len(raw) > maxCursor || !printable(string(raw)) {
			return nil, "", badField(http.StatusBadRequest, "cursor", "none of ours; hint: next_cursor of the page before")
		}
		after = string(raw)
	}
	page = make([]T, 0, min(len(all), int(n)))
	for i := range all {
		if name(&all[i]) <= after {
			continue
		}
		if len(page) == int(n) {
			return page, base64.RawURLEncoding.EncodeToString([]byte(name(&page[n-1]))), nil
		}
		page = append(page, all[i])
	}
	return page, "", nil
}
