package adminapi

import (
	"net/http"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// accounts are what is kept of accounts, but for their top-ups.
type accounts struct{ *Options }

func (a accounts) routes() []route {
	const path = "quotas/{api_key}"
	return []route{
		{
			method: http.MethodGet, path: "quotas", scope: Read, serve: a.list, id: "listQuotas", summary: "List accounts",
			query: append(page[:len(page):len(page)],
				parameter{"tier", "Only accounts that have this tier now.", schema{"type": "string"}},
				parameter{"name_prefix", "Only accounts whose name begins so, such as tenant:ac; of entry:KEY: with the whole key.", schema{"type": "string"}},
			),
			answers: []reply{ok(accountsPage{}, "A page.")},
		},
		{
			method: http.MethodGet, path: path, scope: Read, serve: ofAccount(a.get), id: "getQuota", summary: "Show an account",
			answers: []reply{ok(quotaView{}, "The account.").tagged(), notThere},
		},
		{
			method: http.MethodPut, path: path, scope: Write, conditions: changeable, serve: ofAccount(a.put), id: "putQuota", summary: "Make or change an account",
			body:    &payload{kinds: jsonOnly, most: quotas.MaxDocument, of: quotas.Document{}, about: "The account as it shall be, whole: what is left out is not there."},
			answers: []reply{ok(quotaView{}, "The account as it is now.").tagged(), created(quotaView{}, "The account, which was not there.").tagged()},
		},
		{
			method: http.MethodDelete, path: path, scope: Write, conditions: removable, serve: ofAccount(a.remove), id: "deleteQuota", summary: "Take an account out",
			about:   "The fallback tier counts then. The log of changes keeps what was there.",
			answers: []reply{deleted("It is not there any more."), notThere},
		},
	}
}

// get answers with one account.
func (a accounts) get(c *call, name quotas.Name) (*answer, error) {
	r, err := c.account(name.Subject)
	if err != nil {
		return nil, err
	}
	if r.Version == 0 {
		return nil, a.missing()
	}
	return a.answerWith(c, http.StatusOK, &r)
}

func (a accounts) missing() *problem {
	if fallback := a.Tiers().Fallback(); fallback != "" {
		return fail(http.StatusNotFound, "no such account: the tier %s counts", fallback)
	}
	return fail(http.StatusNotFound, "no such account: the rules alone count")
}

// answerWith answers with an account and its ETag.
func (a accounts) answerWith(c *call, status int, r *sqltenant.Record) (*answer, error) {
	return versioned(status, views([]sqltenant.Record{*r}, a.Tiers(), c.now)[0], r.Version)
}

// put makes an account what the body says.
func (a accounts) put(c *call, name quotas.Name) (*answer, error) {
	document, bad := parseDocument(c.body)
	if bad != nil {
		return nil, bad
	}
	tiers := a.Tiers()
	if list := c.checkAccount(&document, name.Subject, tiers); len(list) > 0 {
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
	return a.answerWith(c, status, &r)
}

// remove takes an account out.
func (a accounts) remove(c *call, name quotas.Name) (*answer, error) {
	_, err := c.change(name.Subject, func(r *sqltenant.Record) error {
		if r.Version == 0 {
			return a.missing()
		}
		r.Tiers, r.Overrides, r.TopUps = nil, nil, nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	return gone(), nil
}

// change edits one account, if it is as the request's conditions ask.
func (c *call) change(subject tenant.Subject, edit func(*sqltenant.Record) error) (sqltenant.Record, error) {
	conditions, bad := parseConditions(c.request.Header)
	if bad != nil {
		return sqltenant.Record{}, bad
	}
	records, err := c.db.UpdateAll(c.context(), []sqltenant.Change{{
		Subject: subject, Actor: c.who.actor, Version: sqltenant.Anyway, At: c.now,
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
