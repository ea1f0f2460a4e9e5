package adminapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// checkDocument says all that is wrong with a document and that can be seen field by
// field.
func checkDocument(d *quotas.Document, subject tenant.Subject, tiers *tenant.Tiers, now time.Time) []fieldError {
	termed := d.WithTerms()
	list := checkTerms(&termed)
	for field, err := range d.UnfitDescriptors() {
		list = append(list, fieldError{Field: field, Message: err.Error()})
	}
	if d.Tier == "" && len(d.Tiers) == 0 && len(d.Overrides) == 0 && len(d.TopUps) == 0 {
		list = append(list, fieldError{Field: "tier", Message: "neither a tier nor overrides; hint: DELETE takes an account out"})
	}
	whole := d.Filled(nil, now)
	if err := whole.Record(&sqltenant.Record{Subject: subject}, tiers); err != nil {
		// What it says of the body as a whole is what was found above, if that was.
		if bad, _ := problemOf(err); len(list) == 0 || bad.Errors[0].Field != wholeBody {
			list = append(bad.Errors, list...)
		}
	}
	return list
}

// checkTerms finds terms that end before they begin, and two of one thing that begin
// at one instant.
func checkTerms(d *quotas.Document) (list []fieldError) {
	begun := map[string]bool{}
	check := func(path, what string, from, until *time.Time) {
		if from != nil && until != nil && !until.IsZero() && !until.After(*from) {
			list = append(list, fieldError{Field: path + "expires_at", Message: "it is not after effective_at"})
		}
		if until != nil && !until.IsZero() && until.UnixMicro() <= 0 {
			list = append(list, fieldError{Field: path + "expires_at", Message: "before 1970; hint: leave it out for never"})
		}
		at := int64(0)
		if from != nil {
			at = from.UnixMicro()
			if at < 0 && !from.IsZero() {
				list = append(list, fieldError{Field: path + "effective_at", Message: "before 1970; hint: leave it out for always"})
			}
		}
		key := fmt.Sprintf("%d %s", at, what)
		if begun[key] {
			list = append(list, fieldError{Field: path + "effective_at", Message: "a second one of " + what + " that begins at this instant"})
		}
		begun[key] = true
	}
	if d.Tier != "" {
		check("", "the tier", d.EffectiveAt, d.ExpiresAt)
	}
	for i, t := range d.Tiers {
		check(fmt.Sprintf("tiers[%d].", i), "the tier", t.EffectiveAt, t.ExpiresAt)
	}
	for i := range d.Overrides {
		o := &d.Overrides[i]
		if canonical, err := tenant.ParseDescriptor(o.Descriptor); err == nil {
			check(fmt.Sprintf("overrides[%d].", i), "the descriptor "+tenant.DescriptorText(canonical), o.EffectiveAt, o.ExpiresAt)
		}
	}
	return list
}

// parseDocument reads the body of a request.
func parseDocument(data []byte) (quotas.Document, *problem) {
	d, err := quotas.Parse(data)
	if err == nil {
		return d, nil
	}
	bad, _ := problemOf(err)
	bad.Status, bad.Title = http.StatusBadRequest, http.StatusText(http.StatusBadRequest)
	return d, bad
}

// wholeBody is the field of an error that is of no single one.
const wholeBody = "body"

// fieldOf is the error of a field as this API tells it.
func fieldOf(e *quotas.FieldError) fieldError {
	if e.Field == "" {
		return fieldError{Field: wholeBody, Message: e.Problem}
	}
	return fieldError{Field: e.Field, Message: e.Problem}
}
