package adminapi

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// quotaView is an account as it is answered.
type quotaView struct {
	// APIKey is masked; of a tenant it is its name.
	APIKey string `json:"api_key"`
	// Name is what the account can be asked for by.
	Name string `json:"name"`
	// Tier is the one that it has now, "" when there are no tiers.
	Tier   string      `json:"tier"`
	Quotas *quotasView `json:"quotas,omitempty"`
	// Invalid says why the account is not in force.
	Invalid string `json:"invalid,omitempty"`
	// Account is what a PUT of the same would send.
	Account   quotas.Document `json:"account"`
	Version   int64           `json:"version"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// quotasView is what counts now.
type quotasView struct {
	Default quotaOfView `json:"default"`
	// Overrides are the quotas of single descriptors.
	Overrides []quotaOfView `json:"overrides"`
}

// quotaOfView is the quota of one descriptor. The fields of its first limit stand
// in it, and all of its limits in Limits.
type quotaOfView struct {
	Descriptor string `json:"descriptor,omitempty"`
	limitView
	Unlimited bool `json:"unlimited,omitempty"`
	// Limits are there when there are several.
	Limits []limitView `json:"limits,omitempty"`
	// Source is override, tier or rule; of a rule nothing else is said.
	Source string `json:"source"`
}

type limitView struct {
	RequestsPerUnit *int64 `json:"requests_per_unit,omitempty"`
	Unit            string `json:"unit,omitempty"`
	Algorithm       string `json:"algorithm,omitempty"`
	Burst           int64  `json:"burst,omitempty"`
}

// views returns accounts as they are answered, with what counts at now.
func views(records []sqltenant.Record, tiers *tenant.Tiers, now time.Time) []quotaView {
	accounts := make([]tenant.Account, 0, len(records))
	list := make([]quotaView, len(records))
	for i := range records {
		r := &records[i]
		inOrder(r)
		list[i] = quotaView{
			APIKey: quotas.Masked(r), Name: quotas.NameText(r.Subject), Account: quotas.DocumentOf(r),
			Version: r.Version, UpdatedAt: r.UpdatedAt,
		}
		if err := r.Validate(); err != nil {
			list[i].Invalid = err.Error()
			continue
		}
		a, _ := r.Account() // was validated
		accounts = append(accounts, a)
	}
	snapshot := tenant.NewSnapshot(tiers, slices.Values(accounts))
	for i := range records {
		if list[i].Invalid == "" {
			list[i].resolve(snapshot.Standing(records[i].Subject, limit.MicrosOf(now)), &records[i], tiers)
		}
	}
	return list
}

// inOrder sorts what r has, so that it is answered alike after a change and later.
func inOrder(r *sqltenant.Record) {
	slices.SortFunc(r.Tiers, func(a, b tenant.Assignment) int { return a.Term.From.Compare(b.Term.From) })
	slices.SortFunc(r.Overrides, func(a, b sqltenant.Override) int {
		return cmp.Or(strings.Compare(a.Descriptor, b.Descriptor), a.Term.From.Compare(b.Term.From))
	})
}

// resolve fills in what counts.
func (v *quotaView) resolve(has tenant.Standing, r *sqltenant.Record, tiers *tenant.Tiers) {
	v.Tier = has.Tier()
	quota, source, _ := has.Quota(nil)
	v.Quotas = &quotasView{Default: quotaOf(tenant.Default, quota, source), Overrides: []quotaOfView{}}
	v.Quotas.Default.Descriptor = ""
	var texts []string
	for i := range r.Overrides {
		texts = append(texts, r.Overrides[i].Descriptor)
	}
	if t := tiers.Tier(v.Tier); t != nil {
		for text := range t.Quotas {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		entries, err := descriptor.Parse(text)
		if text == tenant.Default || err != nil {
			continue
		}
		if quota, source, _ := has.Quota(entries); quota != nil {
			v.Quotas.Overrides = append(v.Quotas.Overrides, quotaOf(text, quota, source))
		}
	}
}

func quotaOf(text string, q *tenant.Quota, source tenant.Source) quotaOfView {
	v := quotaOfView{Descriptor: tenant.DescriptorText(text), Source: source.String()}
	if q == nil {
		return v
	}
	v.Unlimited = q.Unlimited()
	for i := range q.Limits {
		l := limitOf(q.Limits[i].Limit)
		if i == 0 {
			v.limitView = l
		}
		if len(q.Limits) > 1 {
			v.Limits = append(v.Limits, l)
		}
	}
	return v
}

func limitOf(l *limit.Limit) limitView {
	quota := l.Quota
	return limitView{RequestsPerUnit: &quota, Unit: tenant.UnitText(l.Period), Algorithm: l.Algorithm.String(), Burst: l.Burst}
}
