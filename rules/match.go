package rules

import (
	"time"

	"github.com/headgate/headgate/descriptor"
)

// Matched is one rule that applies to a descriptor.
type Matched struct {
	Rule *Rule
	// Depth is the number of leading entries that identify the bucket.
	Depth int
}

// AppendMatches appends the rules that apply to a descriptor to dst, the
// outermost first, and returns it. Rules outside of their validity at now() are
// left out; now is only called when a rule on the way has one.
//
// The walk takes one level of the tree for each entry, and never goes back: an
// entry finds the descriptor with its key and value, else the first pattern in
// the order of the file, else the descriptor with its key alone.
func (d *Domain) AppendMatches(dst []Matched, entries []descriptor.Entry, now func() time.Time) []Matched {
	n, depth := &d.Root, 0
	for i := range entries {
		e := &entries[i]
		if d.Aside(e.Key) {
			continue
		}
		if n = n.child(e); n == nil {
			return dst // path: what was walked counts; leaf: nothing was appended
		}
		depth = i + 1
		if d.Match == Path && n.Rule != nil && n.Rule.InForce(now) {
			dst = append(dst, Matched{n.Rule, depth})
		}
	}
	if d.Match == Leaf && n.Rule != nil && n.Rule.InForce(now) {
		dst = append(dst, Matched{n.Rule, depth})
	}
	return dst
}

// AppendKey appends the bucket key of limit number i of m.Rule for a descriptor
// that it matched: the domain, the leading m.Depth entries, and the role of the
// limit and its position among those of the rule that have it. What the limit
// says is not part of it, so that it may change and keep its counters; nor are
// the limits of other roles, so that they may come and go.
//
// Two rules never reach the same entries in one domain, so none shares a bucket
// with another. Entries that are costs or holds are left out; where values share
// a threshold, their pattern stands in their place.
func (m Matched) AppendKey(dst []byte, entries []descriptor.Entry, i int) []byte {
	dst = m.appendCounted(append(dst, m.Rule.keyStart...), entries)
	return descriptor.AppendKeyEnd(dst, m.Rule.Limits[i].ordinal)
}

// appendCounted appends the leading m.Depth entries as keys name them. There may be more
// of them than nodes on the way to the rule.
func (m Matched) appendCounted(dst []byte, entries []descriptor.Entry) []byte {
	r := m.Rule
	level := 0
	for j := range entries[:m.Depth] {
		e := &entries[j]
		if r.domain.Aside(e.Key) {
			continue
		}
		if r.shares && level < len(r.way) && r.way[level].Shared {
			dst = descriptor.AppendKeyPattern(dst, e.Key, r.way[level].sharedText)
		} else {
			dst = descriptor.AppendKeyEntry(dst, *e)
		}
		level++
	}
	return dst
}

// CountedEntries returns the entries that a rule which matched the first depth of
// entries counts by: what AppendKey makes keys of, with the pattern in place of a value
// that shares its bucket. They are in dst's array only where they differ from the first
// of entries. Of a rule that is in no set, such as one that a remote service has named,
// they are all entries.
func (r *Rule) CountedEntries(dst, entries []descriptor.Entry, depth int) []descriptor.Entry {
	if r.domain == nil {
		return entries
	}
	entries = entries[:depth]
	if len(r.domain.asides) == 0 && !r.shares {
		return entries
	}
	level := 0
	for _, e := range entries {
		if r.domain.Aside(e.Key) {
			continue
		}
		if r.shares && r.way[level].Shared {
			e.Value = r.way[level].Value
		}
		dst = append(dst, e)
		level++
	}
	return dst
}

// roleShift keeps the positions of limits of one role apart from those of the next. No
// rule has so many.
const roleShift = 24

// numberLimits gives each limit of r what stands for it in keys: its position
// among the limits of its role, and the role in the bits above. That of a main
// limit is its index.
func (r *Rule) numberLimits() {
	var next [Candidate + 1]int
	for i := range r.Limits {
		role := r.Limits[i].Role
		r.Limits[i].ordinal = int(role)<<roleShift | next[role]
		next[role]++
	}
}

// Tenant returns the rule of tenants that a descriptor reaches or passes, whatever
// the domain's Match is; ok is false when there is none, or none in force. The last
// of the leading Depth entries names the tenant.
func (d *Domain) Tenant(entries []descriptor.Entry, now func() time.Time) (m Matched, ok bool) {
	n := &d.Root
	for i := range entries {
		if d.Aside(entries[i].Key) {
			continue
		}
		if n = n.child(&entries[i]); n == nil {
			return Matched{}, false
		}
		if n.Rule != nil && n.Rule.Tenant {
			return Matched{n.Rule, i + 1}, n.Rule.InForce(now)
		}
	}
	return Matched{}, false
}

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
	dst = m.appendCounted(append(dst, m.Rule.tenantStart...), entries)
	return descriptor.AppendKeyEnd(dst, slot)
}

// SharesBuckets reports whether all values that a pattern of the rule takes count in
// one bucket (share_threshold).
func (r *Rule) SharesBuckets() bool { return r.shares }

// AppendOverrideKey appends the bucket key of a limit that the caller named
// itself. It never equals the key of a rule. Limits of one descriptor with windows
// of different length, which are told apart by milliseconds, count apart, as those of
// different units do in envoyproxy/ratelimit; 0 is for callers that name the window
// in the entries or have one limit only.
func AppendOverrideKey(dst []byte, domain string, entries []descriptor.Entry, window time.Duration) []byte {
	return descriptor.AppendKey(dst, descriptor.KindCaller, domain, entries, int(window.Milliseconds()))
}
