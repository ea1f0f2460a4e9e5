package adminapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// accountsPage is one answer of a list.
type accountsPage struct {
	Quotas []quotaView `json:"quotas"`
	// NextCursor is "" at the end.
	NextCursor string `json:"next_cursor,omitempty"`
}

// list answers with a page of accounts.
func (a accounts) list(c *call) (*answer, error) {
	n := c.number("limit", 1, sqltenant.MaxPage, defaultPage)
	if c.bad != nil {
		return nil, c.bad
	}
	var bad *problem
	query := c.request.URL.Query()
	o := sqltenant.ListOptions{N: int(n), At: c.now}
	if o.Prefix, bad = parsePrefix(query.Get("name_prefix")); bad != nil {
		return nil, bad
	}
	if query.Has("cursor") {
		if o.After, bad = parseCursor(query.Get("cursor")); bad != nil {
			return nil, bad
		}
	}
	tiers := a.Tiers()
	if tier := query.Get("tier"); tier != "" {
		if len(tier) > tenant.MaxName || quotas.Deceptive(tier) != "" {
			return nil, badField(http.StatusBadRequest, "tier", "no tier has such a name")
		}
		if !tiers.Has(tier) {
			return jsonAnswer(http.StatusOK, accountsPage{Quotas: []quotaView{}})
		}
		havingTier(&o, tier, tiers)
	}
	records, err := c.db.Find(c.context(), o)
	if err != nil {
		return nil, err
	}
	p := accountsPage{Quotas: views(records, tiers, c.now)}
	if len(records) == int(n) {
		p.NextCursor = cursorOf(records[n-1].Subject)
	}
	return jsonAnswer(http.StatusOK, p)
}

// havingTier keeps o to accounts that have a tier: the fallback tier is that of all who
// have none of the others.
func havingTier(o *sqltenant.ListOptions, tier string, tiers *tenant.Tiers) {
	if tier != tiers.Fallback() {
		o.Tier = tier
		return
	}
	o.OtherTiers = slices.DeleteFunc(tiers.Names(), func(name string) bool { return name == tier })
}

// parsePrefix reads the beginning of a name.
func parsePrefix(text string) (s tenant.Subject, bad *problem) {
	if len(text) > 2*sqltenant.MaxSubject || quotas.Deceptive(text) != "" {
		return s, badField(http.StatusBadRequest, "name_prefix", "no account has such a name")
	}
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		return s, nil
	case strings.HasPrefix("hash:", text) || kind == "hash":
		return tenant.Subject{Key: "api_key", Value: rest}, nil
	case strings.HasPrefix("tenant:", text) || kind == "tenant":
		return tenant.Subject{Key: "tenant", Value: rest}, nil
	case kind == "entry":
		key, value, whole := strings.Cut(rest, ":")
		if whole && key != "" && key != "api_key" && key != "tenant" {
			return tenant.Subject{Key: key, Value: value}, nil
		}
	}
	return s, badField(http.StatusBadRequest, "name_prefix", "names begin with hash:, tenant: or entry:KEY:; an API key is not searched for by its beginning")
}

// cursorOf is where a page ended.
func cursorOf(s tenant.Subject) string {
	text, err := json.Marshal([2]string{s.Key, s.Value})
	if err != nil {
		panic(err) // strings only
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(text string) (tenant.Subject, *problem) {
	var pair [2]string
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &pair)
	}
	s := tenant.Subject{Key: pair[0], Value: pair[1]}
	if err != nil || len(s.Key) > sqltenant.MaxSubject || len(s.Value) > sqltenant.MaxSubject || !printable(s.Key) || !printable(s.Value) {
		return s, badField(http.StatusBadRequest, "cursor", "none of ours; hint: next_cursor of the page before")
	}
	return s, nil
}
