package adminapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// maxScanned bounds the accounts that one page looks at for its filters.
const maxScanned = 10_000

// page is one answer of a list.
type page struct {
	Quotas []quotaView `json:"quotas"`
	// NextCursor is "" at the end.
	NextCursor string `json:"next_cursor,omitempty"`
}

// filter says which accounts a list is of.
type filter struct {
	tier   string
	key    string // of subjects; "" is any
	prefix string // of names
}

func (f *filter) matches(v *quotaView) bool {
	return (f.tier == "" || v.Tier == f.tier) && strings.HasPrefix(v.Name, f.prefix)
}

// list answers with a page of accounts.
func (c *call) list() (*answer, error) {
	n, bad := c.number("limit", 1, sqltenant.MaxPage, defaultPage)
	if bad != nil {
		return nil, bad
	}
	query := c.request.URL.Query()
	f, after, bad := parseFilter(query.Get("tier"), query.Get("name_prefix"))
	if bad != nil {
		return nil, bad
	}
	if query.Has("cursor") {
		if after, bad = parseCursor(query.Get("cursor")); bad != nil {
			return nil, bad
		}
	}
	ctx, cancel := c.context()
	defer cancel()
	tiers := c.options.Tiers()
	p := page{Quotas: []quotaView{}}
	step := sqltenant.MaxPage
	if f == (filter{}) {
		step = int(n)
	}
	for scanned := 0; scanned < maxScanned; scanned += step {
		records, err := c.accounts.List(ctx, after, step)
		if err != nil {
			return nil, err
		}
		for i, v := range views(records, tiers, c.now) {
			after = records[i].Subject
			if f.key != "" && after.Key != f.key {
				return jsonAnswer(http.StatusOK, p) // names that begin so are all before it
			}
			if f.matches(&v) {
				p.Quotas = append(p.Quotas, v)
			}
			if len(p.Quotas) == int(n) {
				p.NextCursor = cursorOf(after)
				return jsonAnswer(http.StatusOK, p)
			}
		}
		if len(records) < step {
			return jsonAnswer(http.StatusOK, p)
		}
	}
	p.NextCursor = cursorOf(after)
	return jsonAnswer(http.StatusOK, p)
}

// parseFilter reads a filter, and after which subject to begin. Subjects with one
// key stand together in every order of text, so that is as near as can be told.
func parseFilter(tier, prefix string) (f filter, after tenant.Subject, bad *problem) {
	if len(tier) > tenant.MaxName || deceptive(tier) != "" {
		return f, after, badField(http.StatusBadRequest, "tier", "no tier has such a name")
	}
	if len(prefix) > 2*sqltenant.MaxSubject || deceptive(prefix) != "" {
		return f, after, badField(http.StatusBadRequest, "name_prefix", "no account has such a name")
	}
	f = filter{tier: tier, prefix: prefix}
	kind, rest, found := strings.Cut(prefix, ":")
	switch {
	case prefix == "":
	case kind == "hash" && found:
		f.key = "api_key"
	case kind == "tenant" && found:
		f.key = "tenant"
	case kind == "entry" && found:
		if key, _, whole := strings.Cut(rest, ":"); whole {
			f.key = key
		}
	case !strings.HasPrefix("hash:", prefix) && !strings.HasPrefix("tenant:", prefix) && !strings.HasPrefix("entry:", prefix):
		return f, after, badField(http.StatusBadRequest, "name_prefix", "names begin with hash:, tenant: or entry:; an API key is not searched for by its beginning")
	}
	return f, tenant.Subject{Key: f.key}, nil
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

// openAPI answers with the document of this API.
func (c *call) openAPI() (*answer, error) {
	return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {jsonType}}, body: c.document}, nil
}
