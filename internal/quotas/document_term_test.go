package quotas

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestTimesAtTheTopHoldForOverrides: for those that have none of their own, begin and end
// each by itself.
func TestTimesAtTheTopHoldForOverrides(t *testing.T) {
	const jan, feb, mar = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"
	at := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, test := range []struct{ text, tierFrom, tierUntil, from, until string }{
		{`"tier":"pro","effective_at":"` + jan + `","expires_at":"` + mar + `"`, jan, mar, jan, mar},
		{`"effective_at":"` + jan + `","expires_at":"` + mar + `"`, "", "", jan, mar},
		{`"expires_at":"` + mar + `"`, "", "", "", mar},
		{`"tier":"pro","effective_at":"` + jan + `","expires_at":"` + mar + `" own "effective_at":"` + feb + `"`, jan, mar, feb, mar},
		{`"tier":"pro","effective_at":"` + jan + `","expires_at":"` + mar + `" own "expires_at":"` + feb + `"`, jan, mar, jan, feb},
		{`"tier":"pro","effective_at":"` + jan + `" own "effective_at":"0001-01-01T00:00:00Z"`, jan, "", jan, ""},
		{`"tiers":[{"tier":"pro","effective_at":"` + jan + `"}]`, jan, "", "", ""},
	} {
		top, own, _ := strings.Cut(test.text, " own ")
		if own != "" {
			own = "," + own
		}
		d := parsed(t, `{`+top+`,"overrides":[{"descriptor":"default","requests_per_unit":1,"unit":"hour"`+own+`}]}`)
		r := sqltenant.Record{Subject: tenant.Subject{Key: "tenant", Value: "acme"}}
		if err := d.Record(&r, nil); err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got, want := r.Overrides[0].Term, (tenant.Term{From: at(test.from), Until: at(test.until)}); !got.From.Equal(want.From) || !got.Until.Equal(want.Until) {
			t.Errorf("%s: the override counts %v, want %v", test.text, got, want)
		}
		if len(r.Tiers) > 0 && (!r.Tiers[0].Term.From.Equal(at(test.tierFrom)) || !r.Tiers[0].Term.Until.Equal(at(test.tierUntil))) {
			t.Errorf("%s: the tier counts %v", test.text, r.Tiers[0].Term)
		}
	}
	d := parsed(t, `{"tier":"pro","effective_at":"`+mar+`","overrides":[{"descriptor":"default","requests_per_unit":1,"unit":"hour","expires_at":"`+feb+`"}]}`)
	if err := d.Record(&sqltenant.Record{Subject: tenant.Subject{Key: "tenant", Value: "acme"}}, nil); err == nil || !strings.Contains(err.Error(), "ends before it begins") {
		t.Errorf("an override that ends before the account begins: %v", err)
	}
}

// TestKeptFilesOfBefore: in a file that was written before the times of a tier held for
// overrides, they do not.
func TestKeptFilesOfBefore(t *testing.T) {
	a, err := accountOf([]byte(`{"name":"tenant:acme","tier":"pro","effective_at":"2026-01-01T00:00:00Z","overrides":[{"descriptor":"default","requests_per_unit":1,"unit":"hour"}]}`))
	if err != nil || !a.Overrides[0].Term.From.IsZero() || a.Tiers[0].Term.From.IsZero() {
		t.Errorf("%+v, %v", a, err)
	}
}
