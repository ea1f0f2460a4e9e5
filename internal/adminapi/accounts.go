package adminapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// databaseTimeout bounds how long one question waits for the database.
const databaseTimeout = 10 * time.Second

func (c *call) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.request.Context(), databaseTimeout)
}

// name reads {api_key}.
func (c *call) name() (quotas.Name, *problem) {
	parse := parseNewName
	if method := c.request.Method; method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete {
		parse = parseName
	}
	return parse(c.path["api_key"], "api_key", c.options.Hasher)
}

// get answers with one account.
func (c *call) get() (*answer, error) {
	name, bad := c.name()
	if bad != nil {
		return nil, bad
	}
	ctx, cancel := c.context()
	defer cancel()
	r, err := c.accounts.Get(ctx, name.Subject)
	if err != nil {
		return nil, err
	}
	if r.Version == 0 {
		return nil, c.missing()
	}
	return c.answerWith(http.StatusOK, &r)
}

func (c *call) missing() *problem {
	if fallback := c.options.Tiers().Fallback(); fallback != "" {
		return fail(http.StatusNotFound, "no such account: the tier %s counts", fallback)
	}
	return fail(http.StatusNotFound, "no such account: the rules alone count")
}

// answerWith answers with an account and its ETag.
func (c *call) answerWith(status int, r *sqltenant.Record) (*answer, error) {
	a, err := jsonAnswer(status, views([]sqltenant.Record{*r}, c.options.Tiers(), c.now)[0])
	if err == nil {
		a.header.Set("ETag", etag(r.Version))
	}
	return a, err
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// put makes an account what the body says.
func (c *call) put() (*answer, error) {
	name, bad := c.name()
	if bad != nil {
		return nil, bad
	}
	document, bad := parseDocument(c.body)
	if bad != nil {
		return nil, bad
	}
	tiers := c.options.Tiers()
	if list := checkDocument(&document, name.Subject, tiers, c.now); len(list) > 0 {
		return nil, badFields(http.StatusUnprocessableEntity, list)
	}
	status := http.StatusOK
	r, err := c.change(name.Subject, func(r *sqltenant.Record) error {
		status = statusOf(r.Version)
		if name.Last4 != "" {
			r.Last4 = name.Last4
		}
		whole := document.Filled(r.TopUps, c.now)
		return whole.Record(r, tiers)
	})
	if err != nil {
		return nil, err
	}
	return c.answerWith(status, &r)
}

// remove takes an account out.
func (c *call) remove() (*answer, error) {
	name, bad := c.name()
	if bad != nil {
		return nil, bad
	}
	_, err := c.change(name.Subject, func(r *sqltenant.Record) error {
		if r.Version == 0 {
			return c.missing()
		}
		r.Tiers, r.Overrides, r.TopUps = nil, nil, nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusNoContent, header: http.Header{}}, nil
}

// change edits one account, if it is as the request's conditions ask.
func (c *call) change(subject tenant.Subject, edit func(*sqltenant.Record) error) (sqltenant.Record, error) {
	conditions, bad := parseConditions(c.request.Header)
	if bad != nil {
		return sqltenant.Record{}, bad
	}
	ctx, cancel := c.context()
	defer cancel()
	records, err := c.accounts.UpdateAll(ctx, []sqltenant.Change{{
		Subject: subject, Actor: c.actor, Version: sqltenant.Anyway, At: c.now,
		Edit: func(r *sqltenant.Record) error {
			// In the transaction, so that of two with one condition one finds it met.
			if bad := conditions.check(r.Version); bad != nil {
				return bad
			}
			return edit(r)
		},
	}})
	if err != nil {
		return sqltenant.Record{}, err
	}
	return records[0], nil
}

// conditions are If-Match and If-None-Match (RFC 9110, section 13.1).
type conditions struct {
	match   []string // entity tags; nil: not asked
	there   bool     // If-Match: *
	missing bool     // If-None-Match: *
}

// maxTags bounds the entity tags of one condition.
const maxTags = 100

func parseConditions(h http.Header) (c conditions, bad *problem) {
	if values := h.Values("If-None-Match"); len(values) > 0 {
		if len(values) != 1 || strings.TrimSpace(values[0]) != "*" {
			return c, badField(http.StatusBadRequest, "If-None-Match", "not *, which is all that it may be")
		}
		c.missing = true
	}
	values := h.Values("If-Match")
	if len(values) == 0 {
		return c, nil
	}
	list := strings.Split(strings.Join(values, ","), ",")
	if len(list) == 1 && strings.TrimSpace(list[0]) == "*" {
		c.there = true
		return c, nil
	}
	for _, tag := range list[:min(len(list), maxTags)] {
		tag = strings.TrimSpace(tag)
		if text := strings.TrimPrefix(tag, "W/"); len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
			return c, badField(http.StatusBadRequest, "If-Match", "not an ETag; hint: send it as it was answered, with its quotes")
		}
		c.match = append(c.match, tag)
	}
	return c, nil
}

// check refuses what is in another version; 0 is what is not there.
func (c *conditions) check(version int64) *problem {
	switch {
	case c.missing && version != 0:
		return fail(http.StatusPreconditionFailed, "If-None-Match: it is there, in version %d", version).with("ETag", etag(version))
	case (c.there || c.match != nil) && version == 0:
		return fail(http.StatusPreconditionFailed, "If-Match: it is not there")
	case c.match == nil:
		return nil
	}
	for _, tag := range c.match {
		if tag == etag(version) {
			return nil
		}
	}
	return fail(http.StatusPreconditionFailed, "If-Match: it has changed since; it is in version %d", version).with("ETag", etag(version))
}

// printableName is the name of a parameter for an answer.
func printableName(name string) string {
	if quotas.Deceptive(name) != "" || name == "" || len(name) > 64 {
		return "query"
	}
	return name
}

// number reads a parameter of the query, or returns what it is when it is not there.
func (c *call) number(name string, low, high, usual int64) (int64, *problem) {
	text := c.request.URL.Query().Get(name)
	if text == "" && !c.request.URL.Query().Has(name) {
		return usual, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, badField(http.StatusBadRequest, name, "not a whole number from %d to %d", low, high)
	}
	return n, nil
}
