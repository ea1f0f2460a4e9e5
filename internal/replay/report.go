package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// Report is what a replay came to.
type Report struct {
	Counts
	// ShadowDenied are those of the candidate that pass because a rule is in shadow mode.
	ShadowDenied int64 `json:"shadow_denied"`
	// Matched are the requests that a rule of the candidate is for.
	Matched int64 `json:"matched"`
	// Others are refunds, resets and charges, which are never denied.
	Others int64 `json:"others"`
	// From and Until are the times of the first request and the last.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Recorded says that what was recorded stands for today, and not rules.
	Recorded bool `json:"recorded"`

	// Rules and Domains are those with the most newly denied first, Hours in their order, and
	// without those in which nothing was asked. HoursCut says that there were more than 9,600.
	Rules    []RuleRow   `json:"rules"`
	Domains  []DomainRow `json:"domains"`
	Hours    []HourRow   `json:"hours"`
	HoursCut bool        `json:"hours_cut,omitempty"`
	// The keys and tenants with the most newly denied, and the keys with the most newly allowed.
	DeniedKeys    Ranking `json:"denied_keys"`
	DeniedTenants Ranking `json:"denied_tenants"`
	AllowedKeys   Ranking `json:"allowed_keys"`

	// Reading is what became of lines, Lacks how many records lack something, and Notes say what
	// cannot be told.
	Reading Reading          `json:"reading"`
	Lacks   map[string]int64 `json:"lacks,omitempty"`
	Notes   []string         `json:"notes,omitempty"`
}

// RuleRow is a rule; the one without a name are denials of which no rule is known.
type RuleRow struct {
	Rule string `json:"rule"`
	RuleCounts
}

// DomainRow is a domain.
type DomainRow struct {
	Domain string `json:"domain"`
	Counts
}

// HourRow is an hour of UTC.
type HourRow struct {
	From time.Time `json:"from"`
	Counts
}

// Ranking is the keys with the most.
type Ranking struct {
	Keys []KeyRow `json:"keys"`
	// Unlisted is the most that a key may have which is not listed.
	Unlisted int64 `json:"unlisted"`
}

// KeyRow is a key of a rule, or a tenant.
type KeyRow struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule,omitempty"`
	Key    string `json:"key"`
	// Count is at most Error too large, and never too small.
	Count int64 `json:"count"`
	Error int64 `json:"error,omitempty"`
}

// lackWords are the names of lacks in reports, in their order.
var lackWords = [numLacks]string{"sampled", "one_key", "cut", "hashed"}

// report makes the report.
func (t *tally) report(q *run, m *merge) *Report {
	r := &Report{
		Counts: t.total, ShadowDenied: t.shadow, Matched: t.matched, Others: t.others,
		From: t.first.Time().UTC(), Until: t.last.Time().UTC(), Recorded: q.current == nil,
		DeniedKeys: t.denied.top(q.o.Top), DeniedTenants: t.tenants.top(q.o.Top), AllowedKeys: t.allowed.top(q.o.Top),
		Reading: m.reading, Lacks: lacksOf(m), Rules: []RuleRow{}, Domains: []DomainRow{}, Hours: []HourRow{},
	}
	inHours := int64(0)
	for hour, c := range t.hours {
		r.Hours = append(r.Hours, HourRow{limit.Micros(hour * time.Hour.Microseconds()).Time().UTC(), *c})
		inHours += c.Requests
	}
	r.HoursCut = inHours < r.Requests
	for name, c := range t.rules {
		r.Rules = append(r.Rules, RuleRow{name, *c})
	}
	for name, c := range t.domains {
		r.Domains = append(r.Domains, DomainRow{name, *c})
	}
	slices.SortFunc(r.Hours, func(a, b HourRow) int { return a.From.Compare(b.From) })
	slices.SortFunc(r.Rules, func(a, b RuleRow) int {
		return cmp.Or(cmp.Compare(b.NewlyDenied, a.NewlyDenied), cmp.Compare(b.NewlyAllowed, a.NewlyAllowed), strings.Compare(a.Rule, b.Rule))
	})
	slices.SortFunc(r.Domains, func(a, b DomainRow) int {
		return cmp.Or(cmp.Compare(b.NewlyDenied, a.NewlyDenied), cmp.Compare(b.NewlyAllowed, a.NewlyAllowed), strings.Compare(a.Domain, b.Domain))
	})
	r.Notes = q.notes(r)
	return r
}

// lacksOf returns how many records lack what.
func lacksOf(m *merge) map[string]int64 {
	lacks := make(map[string]int64)
	for i, n := range m.lacks {
		if n > 0 {
			lacks[lackWords[i]] = n
		}
	}
	return lacks
}

// top returns the n keys with the most.
func (k *ranking) top(n int) Ranking {
	r := Ranking{Keys: []KeyRow{}, Unlisted: int64(k.summary.Floor())}
	for i := range k.summary.Slots {
		s := &k.summary.Slots[i]
		rule, key, _ := strings.Cut(string(s.Text), "\t")
		r.Keys = append(r.Keys, KeyRow{Domain: s.Domain, Rule: rule, Key: key, Count: int64(s.Count), Error: int64(s.Over)})
	}
	slices.SortFunc(r.Keys, func(a, b KeyRow) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Domain, b.Domain), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Key, b.Key))
	})
	if len(r.Keys) > n {
		r.Unlisted = max(r.Unlisted, r.Keys[n].Count)
		r.Keys = r.Keys[:n:n]
	}
	return r
}

// maxNamed bounds the rules that a note names.
const maxNamed = 5

// notes say what cannot be told.
func (q *run) notes(r *Report) (notes []string) {
	var flying []string
	for _, rule := range q.o.Candidate.Rules() {
		if rule.LimitOf(rules.InFlight) != nil || rule.LimitOf(rules.Sustained) != nil {
			flying = append(flying, rule.ID)
		}
	}
	notes = noted(notes, flying, "limits on requests in flight deny nobody here, because nothing says when requests ended")
	return append(append(notes, q.unknown()...), q.lacking(r.Lacks)...)
}

// unknown says what no record holds.
func (q *run) unknown() (notes []string) {
	var attributes, tenants []string
	for _, rule := range q.o.Candidate.Rules() {
		if rule.Cost.Source == rules.CostAttribute {
			attributes = append(attributes, rule.ID)
		}
		if rule.Tenant {
			tenants = append(tenants, rule.ID)
		}
	}
	notes = noted(notes, attributes, "costs that come from a header field, a claim or the length of a body count as 1, because they are not recorded")
	if q.o.Tenants == nil {
		notes = noted(notes, tenants, "rules of tenants count by the limits of the rule; --tiers and --accounts say what tenants have")
	}
	return notes
}

// noted appends a note on rules, if there are any.
func noted(notes, rules []string, text string) []string {
	if len(rules) == 0 {
		return notes
	}
	return append(notes, names(rules)+": "+text)
}

// lacking says what records lack.
func (q *run) lacking(lacks map[string]int64) (notes []string) {
	for i, text := range [hashedLack]string{
		"events are samples that stand for more than themselves: limits counted less than there was",
		"events have the key of one limit in place of all descriptors: other limits were not asked",
		"events hold only some of their descriptors: limits on the others were not asked",
	} {
		if n := lacks[lackWords[i]]; n > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n, text))
		}
	}
	if lacks[lackWords[hashedLack]] > 0 && len(q.opaque) > 0 {
		notes = append(notes, names(q.opaque)+": cannot be compared with hashes, and were asked about nothing or about too much")
	}
	return notes
}

func names(list []string) string {
	if len(list) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNamed], ", "), len(list)-maxNamed)
	}
	return strings.Join(list, ", ")
}
