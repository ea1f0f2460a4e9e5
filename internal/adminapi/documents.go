package adminapi

import (
	"errors"
	"net/http"

	"github.com/headgate/headgate/tenant/sqltenant"
)

// reasonField is the parameter that says why a document is changed. Routes without it refuse it.
const reasonField = "reason"

// putDocument makes a document what text says, "" for taking it out, if it is as the
// request's conditions ask, and returns it as it is then and as it was before.
func (c *call) putDocument(kind sqltenant.Kind, name, text string) (after, before sqltenant.Document, err error) {
	return c.putDocumentIn(c.db, kind, name, text)
}

// putDocumentIn is putDocument for documents that are kept elsewhere.
func (c *call) putDocumentIn(kept Switches, kind sqltenant.Kind, name, text string) (after, before sqltenant.Document, err error) {
	conditions, bad := parseConditions(c.request.Header)
	if bad != nil {
		return after, before, bad
	}
	ctx := c.context()
	if before, err = kept.Document(ctx, kind, name); err != nil {
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
	after, err = kept.PutDocument(ctx, sqltenant.DocumentChange{Kind: kind, Name: name, Text: text, Reason: c.request.URL.Query().Get(reasonField), Actor: c.who.actor, Version: version, At: c.now})
	if errors.Is(err, sqltenant.ErrConflict) {
		return after, before, fail(http.StatusPreconditionFailed, "If-Match: it has changed just now")
	}
	return after, before, err
}

// textOf answers with the text of a document.
func (c *call) textOf(kind sqltenant.Kind, name string) (*answer, error) {
	d, err := c.db.Document(c.context(), kind, name)
	if err != nil {
		return nil, err
	}
	if d.Version == 0 {
		return nil, fail(http.StatusNotFound, "there is none of that name")
	}
	return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {yamlType}, "Etag": {etag(d.Version)}}, body: []byte(d.Text)}, nil
}
