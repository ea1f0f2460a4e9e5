package tenantusage

import (
	"context"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
)

// survey is what quotas are looked up by: one state of rules and tenants at one instant.
type survey struct {
	rules   *rules.Set // nil: none
	tenants *tenant.Snapshot
	now     time.Time
}

func (r *Reader) survey() *survey {
	s := &survey{r.limiter.Rules(), r.limiter.Tenants(), r.now()}
	if s.tenants == nil {
		s.tenants = tenant.Nobody
	}
	return s
}

func (s *survey) instant() time.Time { return s.now }

func (s *survey) standing(subject tenant.Subject) tenant.Standing {
	return s.tenants.Standing(subject, limit.MicrosOf(s.now))
}

// quota is what a subject has in a domain for the entries that follow it in a descriptor.
type quota struct {
	domain  string
	entries []descriptor.Entry // the subject first
	text    string             // of those that follow it
}

// domains are those with rules of tenants.
func (s *survey) domains() (list []*rules.Domain) {
	if s.rules == nil {
		return nil
	}
	for _, name := range s.rules.Domains() {
		if d := s.rules.Domain(name); d.HasTenants() {
			list = append(list, d)
		}
	}
	return list
}

// tenantRule returns the rule at the top of a domain that names a subject.
func (s *survey) tenantRule(d *rules.Domain, subject tenant.Subject) (rules.Matched, bool) {
	by, ok := d.Tenant([]descriptor.Entry{subject}, s.instant)
	return by, ok && by.Depth == 1
}

// quotas returns all quotas of a subject that are known by name.
func (s *survey) quotas(subject tenant.Subject, has tenant.Standing) (list []quota) {
	for _, d := range s.domains() {
		by, ok := s.tenantRule(d, subject)
		if !ok {
			continue
		}
		seen := map[string]bool{}
		add := func(text string) {
			if seen[text] || len(list) > MaxQuotas {
				return
			}
			seen[text] = true
			if q, ok := s.find(d, subject, has, text); ok {
				list = append(list, q)
			}
		}
		add(tenant.Default)
		for _, text := range has.Descriptors() {
			add(text)
		}
		for rule, rest := range by.Rule.Fixed() {
			if rule.Unlimited || len(rule.Limits) > 0 && rule.Limits[0].Role == rules.Main {
				add(descriptor.Format(rest))
			}
		}
	}
	return list
}

// quotasFor returns what a subject has for one descriptor, in one domain or with "" in
// all.
func (s *survey) quotasFor(domain string, subject tenant.Subject, has tenant.Standing, text string) (list []quota) {
	for _, d := range s.domains() {
		if domain != "" && d.Name != domain {
			continue
		}
		if _, ok := s.tenantRule(d, subject); ok {
			if q, ok := s.find(d, subject, has, text); ok {
				list = append(list, q)
			}
		}
	}
	return list
}

// find returns what a subject has for a descriptor in a domain: its quota, or the rule
// that stands there.
func (s *survey) find(d *rules.Domain, subject tenant.Subject, has tenant.Standing, text string) (quota, bool) {
	entries := []descriptor.Entry{subject}
	if text != tenant.Default {
		rest, err := descriptor.Parse(text)
		if err != nil {
			return quota{}, false
		}
		entries = append(entries, rest...)
	}
	for i := range entries {
		if d.Aside(entries[i].Key) {
			return quota{}, false // no request is limited on it
		}
	}
	own, _, _ := has.Quota(entries[1:])
	matched, ruled := d.AppendMatches(nil, entries, s.instant), false
	if last := len(matched) - 1; last >= 0 && matched[last].Depth == len(entries) {
		ruled = matched[last].Rule.Unlimited || len(matched[last].Rule.Limits) > 0
	}
	return quota{d.Name, entries, text}, own != nil || ruled
}

// beyond is what a subject has where its quotas deny: its burst pool, or a top-up.
type beyond struct {
	Limit
	take  store.Take
	grant *tenant.Grant // nil: the pool
}

// beyond returns what a subject has where its quotas deny.
func (s *survey) beyond(subject tenant.Subject, has tenant.Standing) (list []beyond) {
	if pool := has.Pool(); pool != nil {
		list = append(list, beyond{
			Limit{Name: pool.Name, Source: tenant.FromPool, Limit: pool.Limit.Limit},
			store.Take{Key: tenant.AppendPoolKey(nil, subject), Limit: pool.Limit.Limit}, nil,
		})
	}
	for _, g := range s.tenants.Grants(subject, limit.MicrosOf(s.now)) {
		list = append(list, beyond{
			Limit{Descriptor: g.Descriptor(), Name: g.ID, Source: tenant.FromTopUp, Limit: g.Shown},
			store.Take{Key: tenant.AppendTopUpKey(nil, subject, g.ID), Limit: g.Ask}, g,
		})
	}
	return list
}

// peek fills in what was used of list, as in tells.
func (s *survey) peek(ctx context.Context, in store.Store, list []beyond) {
	takes, results := make([]store.Take, len(list)), make([]store.Result, len(list))
	for i := range list {
		takes[i] = list[i].take
	}
	in.Take(ctx, takes, results)
	for i := range list {
		b, r := &list[i], &results[i]
		if r.Err != nil {
			b.Degraded = store.ReasonOf(r.Err)
			_, r.Decision = limit.Decide(b.take.Limit, limit.State{}, 0, 0)
		}
		if b.count(&r.Decision, s.now); b.grant != nil {
			term := b.grant.Term()
			b.Start, b.End, b.ResetAfter = term.From, term.Until, 0
		}
	}
}
