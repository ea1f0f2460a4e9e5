package adminapi

import (
	"fmt"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// decidesAll is an Unfit for stores that decide all limits.
func decidesAll(string, *limit.Limit) error { return nil }

// fit returns why a rule cannot be decided, nil if it can.
func (c *call) fit(r *rules.Rule) error {
	for i := range r.Limits {
		if err := c.unfit(r.Mode.Store, r.Limits[i].Limit); err != nil {
			return err
		}
	}
	return nil
}

// checkAccount is checkDocument, and says also which limits cannot be decided.
func (c *call) checkAccount(d *quotas.Document, subject tenant.Subject, tiers *tenant.Tiers) []fieldError {
	list := checkDocument(d, subject, tiers, c.now)
	if len(list) > 0 {
		return list
	}
	r := sqltenant.Record{Subject: subject}
	whole := d.Filled(nil, c.now)
	if err := whole.Record(&r, tiers); err != nil {
		return nil // whoever writes it says so
	}
	account, err := r.Account()
	if err != nil {
		return nil
	}
	for where, l := range account.Limits() {
		if err := c.unfit("", l); err != nil {
			list = append(list, fieldError{Field: where, Message: fmt.Sprint(err)})
		}
	}
	return list
}
