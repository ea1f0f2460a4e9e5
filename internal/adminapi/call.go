package adminapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// call is a request that is allowed, on its way through a route.
type call struct {
	request *http.Request
	who     *grant
	now     time.Time
	db      Accounts // nil where the route does without and there is none
	body    []byte
	hasher  *identity.Hasher
	unfit   func(string, *limit.Limit) error // that of Options
	// bad is the first thing that is wrong with the parameters of the query that were read; nil while nothing is.
	bad *problem
	// ends are of what was bounded.
	ends []context.CancelFunc
}

// refuse notes what is wrong with a parameter.
func (c *call) refuse(bad *problem) {
	if c.bad == nil {
		c.bad = bad
	}
}

// databaseTimeout bounds how long one question waits for the database.
const databaseTimeout = 10 * time.Second

func (c *call) context() context.Context { return c.within(databaseTimeout) }

// within bounds what is done for the call. It ends with the call, too.
func (c *call) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.request.Context(), d)
	c.ends = append(c.ends, cancel)
	return ctx
}

// end gives back what contexts hold.
func (c *call) end() {
	for _, cancel := range c.ends {
		cancel()
	}
}

// name reads {api_key}.
func (c *call) name() (quotas.Name, *problem) {
	parse := parseNewName
	if method := c.request.Method; method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete {
		parse = parseName
	}
	return parse(c.param("api_key"), "api_key", c.hasher)
}

// ofAccount serves what is about the account {api_key}.
func ofAccount(serve func(*call, quotas.Name) (*answer, error)) func(*call) (*answer, error) {
	return func(c *call) (*answer, error) {
		name, bad := c.name()
		if bad != nil {
			return nil, bad
		}
		return serve(c, name)
	}
}

// account reads an account; one that there is not has version 0.
func (c *call) account(subject tenant.Subject) (sqltenant.Record, error) {
	return c.db.Get(c.context(), subject)
}

// printableName is the name of a parameter for an answer.
func printableName(name string) string {
	if quotas.Deceptive(name) != "" || name == "" || len(name) > 64 {
		return "query"
	}
	return name
}

// number reads a parameter of the query, or returns what it is when it is not there.
func (c *call) number(name string, low, high, usual int64) int64 {
	if !c.request.URL.Query().Has(name) {
		return usual
	}
	n, err := strconv.ParseInt(c.request.URL.Query().Get(name), 10, 64)
	if err != nil || n < low || n > high {
		c.refuse(badField(http.StatusBadRequest, name, "not a whole number from %d to %d", low, high))
	}
	return n
}

// instant reads a parameter of the query that is an instant of RFC 3339, or returns what it is when it is
// not there.
func (c *call) instant(name string, usual time.Time) time.Time {
	if !c.request.URL.Query().Has(name) {
		return usual
	}
	at, err := time.Parse(time.RFC3339, c.request.URL.Query().Get(name))
	if err != nil {
		c.refuse(badField(http.StatusBadRequest, name, "not an instant such as 2026-11-28T18:00:00Z"))
	}
	return at
}

// flag reads a parameter of the query that is true or false, and false when it is not
// there.
func (c *call) flag(name string) bool {
	query := c.request.URL.Query()
	text := query.Get(name)
	if query.Has(name) && text != "true" && text != "false" {
		c.refuse(badField(http.StatusBadRequest, name, "neither true nor false"))
	}
	return text == "true"
}

// filterText reads a parameter that is the text of something.
func (c *call) filterText(name string) string {
	text := c.request.URL.Query().Get(name)
	if len(text) > maxFilter || !utf8.ValidString(text) {
		c.refuse(badField(http.StatusBadRequest, name, "more than %d bytes, or not UTF-8", maxFilter))
	}
	return text
}

// answer is what a route answers. One with stream is written by that.
type answer struct {
	status int
	header http.Header
	body   []byte
	stream func(http.ResponseWriter) error
}

// jsonAnswer is an answer with a body of JSON.
func jsonAnswer(status int, body any) (*answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &answer{status: status, header: http.Header{"Content-Type": {jsonType}}, body: append(text, '\n')}, nil
}

func (a *answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // nobody is there to hear of an error
}

// etag is the ETag of what is in that version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

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

func gone() *answer { return &answer{status: http.StatusNoContent, header: http.Header{}} }

// maxCursor bounds the text in a cursor of a list by names, in bytes.
const maxCursor = 1024

// window is a page of a list that is in the order of names and known whole, each of it as view shows it.
func window[T, V any](c *call, all []T, name func(*T) string, view func(*T) V) (page []V, next string, bad *problem) {
	n := c.number("limit", 1, sqltenant.MaxPage, defaultPage)
	if c.bad != nil {
		return nil, "", c.bad
	}
	after := ""
	if query := c.request.URL.Query(); query.Has("cursor") {
		raw, err := base64.RawURLEncoding.DecodeString(query.Get("cursor"))
		if err != nil || len(raw) == 0 || len(raw) > maxCursor || !printable(string(raw)) {
			return nil, "", badField(http.StatusBadRequest, "cursor", "none of ours; hint: next_cursor of the page before")
		}
		after = string(raw)
	}
	page, last := make([]V, 0, min(len(all), int(n))), ""
	for i := range all {
		at := name(&all[i])
		switch {
		case at <= after:
			continue
		case len(page) == int(n):
			return page, base64.RawURLEncoding.EncodeToString([]byte(last)), nil
		}
		page, last = append(page, view(&all[i])), at
	}
	return page, "", nil
}
