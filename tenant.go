package headgate

import (
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// grant is what a tenant has in place of the main limits of a rule. The zero value
// leaves them.
type grant struct {
	quota  *tenant.Quota // nil: the limits of the rule count
	source tenant.Source
	// home is what most tenants have for the same entries, nil where the rule says it.
	home *tenant.Quota
	tier string
	// store is the one that the tier names, "" where the rule says it.
	store string
	// by is the rule that names the tenant; nil where no tenant is concerned. tenant is
	// the depth at which it does.
	by     *rules.Rule
	tenant int
	// alone says that no rule stands for these entries. The quota is then decided as
	// by says, and nothing else of by counts.
	alone bool
}

// tenancy is the tenant of one descriptor.
type tenancy struct {
	rules.Matched
	descriptor int
	entries    []descriptor.Entry
	has        tenant.Standing
}

// matchTenant collects the rules that apply to descriptor i, which are x.matched,
// and the quotas of its tenant. It reports false, and has done nothing, when the
// descriptor names none.
func (x *matcher) matchTenant(domain *rules.Domain, i int, entries []descriptor.Entry) bool {
	if !domain.HasTenants() {
		return false
	}
	by, ok := x.tenantOf(domain, entries)
	if !ok {
		return false
	}
	t := tenancy{by, i, entries, x.tenants.Standing(entries[by.Depth-1], x.instant())}
	first := len(x.matches)
	x.rest = x.rest[:0]
	if domain.Match == rules.Path {
		x.matchPath(domain, &t)
	} else {
		x.matchLeaf(domain, &t)
	}
	if last := len(x.matches) - 1; last >= first {
		x.matches[last].innermost = true
	}
	return true
}

// tenantOf returns the rule that names the tenant of a descriptor, whose rules are
// x.matched. With match: leaf it may be one that does not apply.
func (x *matcher) tenantOf(domain *rules.Domain, entries []descriptor.Entry) (rules.Matched, bool) {
	if domain.Match == rules.Leaf {
		return domain.Tenant(entries, x.clock)
	}
	for _, m := range x.matched {
		if m.Rule.Tenant {
			return m, true
		}
	}
	return rules.Matched{}, false
}

// grantOf makes of m, which is unused, what the tenant has for the entries that follow it, and
// the rule that stands for the leading depth entries of the descriptor; nil for none.
func (t *tenancy) grantOf(m *match, rest []descriptor.Entry, depth int, rule *rules.Matched) {
	m.Rule, m.Depth, m.descriptor = t.Rule, depth, t.descriptor
	m.tier, m.store, m.by, m.tenant, m.alone = t.has.Tier(), t.has.Store(), t.Rule, t.Depth, rule == nil
	m.quota, m.source, m.home = t.has.Quota(rest)
	if rule != nil {
		m.Matched = *rule
	}
}

// matchPath collects all rules on the path, and each quota that the tenant has for
// what follows it.
func (x *matcher) matchPath(domain *rules.Domain, t *tenancy) {
	next := 0
	for ; next < len(x.matched) && x.matched[next].Depth < t.Depth; next++ {
		m := x.newMatch()
		m.Matched, m.descriptor = x.matched[next], t.descriptor
		x.addMatch(m)
	}
	for depth := t.Depth; depth <= len(t.entries); depth++ {
		if depth > t.Depth {
			if domain.Aside(t.entries[depth-1].Key) {
				continue
			}
			x.rest = append(x.rest, t.entries[depth-1])
		}
		var rule *rules.Matched
		if next < len(x.matched) && x.matched[next].Depth == depth {
			rule = &x.matched[next]
			next++
		}
		m := x.newMatch()
		if t.grantOf(m, x.rest, depth, rule); rule != nil || m.quota != nil {
			x.addMatch(m)
		}
	}
}

// matchLeaf collects the rule that the last entry reaches or, where that has no main
// limits of its own, the most specific quota of the tenant, and that rule for the
// limits that stand beside the main ones.
func (x *matcher) matchLeaf(domain *rules.Domain, t *tenancy) {
	for _, e := range t.entries[t.Depth:] {
		if !domain.Aside(e.Key) {
			x.rest = append(x.rest, e)
		}
	}
	rest := len(x.rest)
	var leaf match
	for depth := len(t.entries); depth >= t.Depth; depth-- {
		if depth > t.Depth && domain.Aside(t.entries[depth-1].Key) {
			continue
		}
		var rule *rules.Matched
		if len(x.matched) > 0 && x.matched[0].Depth == depth {
			rule = &x.matched[0]
		}
		m := x.newMatch()
		t.grantOf(m, x.rest[:rest], depth, rule)
		rest--
		if rule != nil {
			leaf = *m
		} else if m.quota != nil {
			x.addMatch(m)
		}
		if m.quota != nil || rule != nil && (rule.Rule.Unlimited || hasMain(rule.Rule)) {
			break
		}
	}
	if leaf.Rule != nil {
		m := x.newMatch()
		*m = leaf
		x.addMatch(m)
	}
}

// hasMain reports whether r has main limits, which come first.
func hasMain(r *rules.Rule) bool { return len(r.Limits) > 0 && r.Limits[0].Role == rules.Main }

// addQuota appends what a asks of the quota of m.
func (p *plan) addQuota(resp *Response, m *match, a *ask) {
	take := p.newTake()
	if !a.of(rules.Main, take) {
		return
	}
	hits := take.Hits
	charges := take.Op != store.Hit || hits > 0
	if !m.alone && hasMain(m.Rule) && p.replaced(m.Rule.Limits[0].Name) {
		v := p.addQuotaVerdict(resp, m, hits)
		v.Name, v.By = m.Rule.Limits[0].Name, verdict.ByReplacement
		return
	}
	if m.quota.Unlimited() {
		if a.op != store.Reset {
			p.addQuotaVerdict(resp, m, hits)
		}
		return
	}
	for i := range m.quota.Limits {
		l := &m.quota.Limits[i]
		take := p.newTake()
		a.of(rules.Main, take)
		v := p.addQuotaVerdict(resp, m, hits)
		v.Limit, v.Name = p.scaled(m, l.Limit), l.Name
		start := len(p.keys)
		p.keys = p.appendTenantKey(m, a.entries, m.quota, i)
		p.addBucket(m, v, take, start)
	}
	if charges {
		p.addHome(m, a)
	}
}

// addQuotaVerdict appends a verdict on the quota of m, for so many hits.
func (p *plan) addQuotaVerdict(resp *Response, m *match, hits int64) *Verdict {
	v := p.addVerdictOn(resp, m)
	v.Source, v.Hits = m.source, hits
	return v
}

// addHome appends takes on what most tenants have for the entries of m, as far as the
// quota of m counts in no bucket of it, so that what is used under the quota has been
// used when it ends, or when it gets another window. They hold nothing back, and no
// verdict tells of them.
func (p *plan) addHome(m *match, a *ask) {
	home := p.homeOf(m, m.quota)
	if home == m.quota {
		return
	}
	for i := range home.Limits {
		slot := slotOf(home, i, home)
		if countsIn(m.quota, slot, home) {
			continue
		}
		take := p.newTake()
		a.of(rules.Main, take)
		start := len(p.keys)
		p.keys = rules.Matched{Rule: m.by, Depth: m.Depth}.AppendTenantKey(p.keys, a.entries, slot)
		take.Limit, _ = p.raised(m, p.scaled(m, home.Limits[i].Limit), start)
		take.Shadow, take.Mode = true, p.rules.modes.Get(m.Rule, false, m.store)
		p.takeOn(m, take, start)
	}
}

// countsIn reports whether a limit of a quota counts in a slot.
func countsIn(q *tenant.Quota, slot int, home *tenant.Quota) bool {
	for i := range q.Limits {
		if slotOf(q, i, home) == slot {
			return true
		}
	}
	return false
}

// appendTenantKey appends the key of limit i of a quota that the tenant of m has.
func (p *plan) appendTenantKey(m *match, entries []descriptor.Entry, q *tenant.Quota, i int) []byte {
	return rules.Matched{Rule: m.by, Depth: m.Depth}.AppendTenantKey(p.keys, entries, slotOf(q, i, p.homeOf(m, q)))
}

// homeOf returns what most tenants have for the entries of m: what the fallback tier
// says, else the rule, else q.
func (p *plan) homeOf(m *match, q *tenant.Quota) *tenant.Quota {
	home := m.home
	if home == nil && !m.alone {
		home = p.rules.quotas[m.Rule.Index()]
	}
	if home == nil || home.Unlimited() {
		home = q
	}
	return home
}

// slotOf returns which bucket of a tenant limit i of a quota counts in, given what most
// tenants have for the same entries, their home. What was used counts on for a limit of
// the same length; and for one of a length that the home does not have, that which is
// counted by the longest limit of the home, wherever the quota has room for it. So a
// window may change and the counter lives on.
func slotOf(q *tenant.Quota, i int, home *tenant.Quota) int {
	length, main := q.Limits[i].Period, home.Longest()
	if length == main || length == q.Longest() && !home.Has(length) && !q.Has(main) {
		return 0
	}
	return int(length / time.Second)
}

// mainQuota returns the main limits of a rule as the quota of a tenant: where one is
// concerned they count in its buckets, so that what was used counts on when the tenant
// gets a quota of its own. It returns nil where that cannot be: for limits that are no
// quota, for want of a length or since they are of one length, and for buckets that
// values share.
func mainQuota(r *rules.Rule) *tenant.Quota {
	var q tenant.Quota
	for i := range r.Limits {
		if r.Limits[i].Role == rules.Main {
			q.Limits = append(q.Limits, tenant.Limit{Limit: r.Limits[i].Limit, Name: r.Limits[i].Name})
		}
	}
	if r.SharesBuckets() || q.Unlimited() || q.Validate() != nil {
		return nil
	}
	return &q
}
