package rules

import (
	"time"

	"github.com/headgate/headgate/descriptor"
)

// tenant reports whether a descriptor may be one of tenants, and what is wrong
// with it if not. n is nil for an always rule, which is refused elsewhere.
func (c *compiler) tenant(n *node, spec *descriptorSpec) bool {
	if n == nil {
		return false
	}
	if n.share || n.pattern != nil {
		c.errorf(spec.tenantAt, "delete the pattern: an entry of any value names a tenant, one value names one",
			"tenant does not go with patterns and share_threshold, by which many values are one")
		return false
	}
	for outer := n.parent; outer != nil; outer = outer.parent {
		if outer.rule != nil && outer.rule.Tenant {
			c.errorf(spec.tenantAt, "keep one of the two: one entry of a request names its tenant",
				"tenant stands below %s on line %d, which is one of tenants too", outer.path(), outer.at.line)
			return false
		}
	}
	c.domain.tenants = true
	return true
}

// HasTenants reports whether a rule of the domain is one of tenants.
func (d *Domain) HasTenants() bool { return d.tenants }

// Tenant returns the rule of tenants that a descriptor reaches or passes, whatever
// the domain's Match is; ok is false when there is none, or none in force. The last
// of the leading Depth entries names the tenant.
func (d *Domain) Tenant(entries []descriptor.Entry, now func() time.Time) (m Matched, ok bool) {
	n := d.root
	for i := range entries {
		if d.Aside(entries[i].Key) {
			continue
		}
		if n = n.child(&entries[i]); n == nil {
			return Matched{}, false
		}
		if n.rule != nil && n.rule.Tenant {
			return Matched{n.rule, i + 1}, n.rule.InForce(now)
		}
	}
	return Matched{}, false
}

// Aside reports whether entries with that key take no part in matching nor in any
// bucket's key: they measure a request or name it.
func (d *Domain) Aside(key string) bool { return len(d.asides) > 0 && d.asideOf(key) != nil }

// Aside is Domain.Aside of the domain of r.
func (r *Rule) Aside(key string) bool { return r.domain != nil && r.domain.Aside(key) }

// AppendTenantKey appends the bucket key of a quota that a tenant has for the
// leading m.Depth entries of a descriptor. m.Rule is one of tenants and m.Depth not
// less than that at which it matched. What stands before the tenant is named as in
// the keys of the rule.
//
// The slot tells the limits of one quota apart. The rest of a limit is not part of the
// key, nor is whether an override, a tier or a rule is where the quota comes from: they
// may change, and the counters stay.
func (m Matched) AppendTenantKey(dst []byte, entries []descriptor.Entry, slot int) []byte {
	r := m.Rule
	dst = append(dst, r.tenantStart...)
	level := 0
	for j := range entries[:m.Depth] {
		e := &entries[j]
		if r.domain.Aside(e.Key) {
			continue
		}
		if r.hasShared && level < len(r.shared) && r.shared[level] != "" {
			dst = descriptor.AppendKeyPattern(dst, r.node.ancestor(level+1).key, r.shared[level])
		} else {
			dst = descriptor.AppendKeyEntry(dst, *e)
		}
		level++
	}
	return descriptor.AppendKeyEnd(dst, slot)
}

// SharesBuckets reports whether all values that a pattern of the rule takes count in
// one bucket (share_threshold).
func (r *Rule) SharesBuckets() bool { return r.hasShared }

// tenants warns of what leaves a tenant without its quota.
func (l *linter) tenants(r *Rule) {
	if !r.Tenant {
		return
	}
	for _, n := range r.node.parent.children {
		if n == r.node || n.key != r.node.key || n.rule != nil && n.rule.Tenant {
			continue
		}
		l.warn(n.file, n.at, "write tenant: true here too, or delete the descriptor and give the account a quota of its own",
			"%s.%s is picked before %s on line %d and is not one of tenants: that account has no quota here", r.Domain, n.path(), r.node.composite(), r.Line)
	}
}
