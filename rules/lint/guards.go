package lint

import (
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
)

// guards warns of limits beside the main ones that do nothing, or more than is
// probably meant.
func (l *linter) guards(r *rules.Rule) {
	l.sharedBan(r)
	l.unreachedSustained(r)
	l.lateSoft(r)
}

// sharedBan warns of a ban on a bucket that all clients share: one of them gets
// all of them banned.
func (l *linter) sharedBan(r *rules.Rule) {
	if r.LimitOf(rules.Banning) == nil || tellsClientsApart(r) {
		return
	}
	l.warnRule(r, "move ban to a descriptor whose values are clients, such as user, api_key or remote_address",
		"the ban of rule %s is for all requests that reach it, so that denials of one client ban every other", r.ID)
}

// tellsClientsApart reports whether an entry with more than one value names the
// buckets of r.
func tellsClientsApart(r *rules.Rule) bool {
	return slices.ContainsFunc(r.Way(), (*rules.Node).ManyValues)
}

// unreachedSustained warns of a limit on time in flight that the limit on
// concurrency lets nobody reach.
func (l *linter) unreachedSustained(r *rules.Rule) {
	slots := r.LimitOf(rules.InFlight)
	if slots == nil {
		return
	}
	for i := range r.Limits {
		n := &r.Limits[i]
		if n.Role == rules.Sustained && n.Quota/n.Period.Milliseconds() >= slots.Quota {
			l.warnRule(r, "write a smaller concurrency in the entry of secondary_limits, or delete it",
				"a limit of rule %s is never reached: %s, when no more than %d are at any time", r.ID, n, slots.Quota)
		}
	}
}

// lateSoft warns of a soft limit so close to a small limit that it is reached by
// the last request alone.
func (l *linter) lateSoft(r *rules.Rule) {
	if r.Soft == nil {
		return
	}
	for i := range r.Limits {
		n := &r.Limits[i]
		if n.Role != rules.Main || n.Algorithm == limit.LeakyQueue || n.Quota == 0 {
			continue
		}
		most := describe.HitsAtOnce(n.Limit)
		if most < maxLateSoft && most*int64(r.Soft.Percent) > (most-1)*100 {
			l.warnRule(r, "lower its percentage, or delete it: so small a limit has no room for a threshold below it",
				"the soft limit of rule %s is reached only by the last of %s, after which requests are denied", r.ID, rules.CountText(most, "hit"))
			return
		}
	}
}

// maxLateSoft is above every limit at which 99%, the highest threshold, is only
// reached by the last hit.
const maxLateSoft = 100

// tenants warns of what leaves a tenant without its quota.
func (l *linter) tenants(r *rules.Rule) {
	if !r.Tenant {
		return
	}
	for _, n := range r.Node().Parent.Children {
		if n == r.Node() || n.Key != r.Node().Key || n.Rule != nil && n.Rule.Tenant {
			continue
		}
		l.warn(n, "write tenant: true here too, or delete the descriptor and give the account a quota of its own",
			"%s.%s is picked before %s on line %d and is not one of tenants: that account has no quota here", r.Domain, n.Path(), r.Node().Composite(), r.Line)
	}
}
