package rules

import (
	"time"

	"github.com/headgate/headgate/descriptor"
)

// AppendMatches appends the rules that apply to a descriptor to dst, the
// outermost first, and returns it. Rules outside of their validity at now() are
// left out; now is only called when a rule on the way has one.
//
// The walk takes one level of the tree for each entry, and never goes back: an
// entry finds the descriptor with its key and value, else the first pattern in
// the order of the file, else the descriptor with its key alone.
func (d *Domain) AppendMatches(dst []Matched, entries []descriptor.Entry, now func() time.Time) []Matched {
	n, depth := d.root, 0
	for i := range entries {
		e := &entries[i]
		if len(d.asides) > 0 && d.asideOf(e.Key) != nil {
			continue
		}
		if n = n.child(e); n == nil {
			return dst // path: what was walked counts; leaf: nothing was appended
		}
		depth = i + 1
		if d.Match == Path && n.rule != nil && n.rule.InForce(now) {
			dst = append(dst, Matched{n.rule, depth})
		}
	}
	if d.Match == Leaf && n.rule != nil && n.rule.InForce(now) {
		dst = append(dst, Matched{n.rule, depth})
	}
	return dst
}

// child returns the child that an entry finds, nil if there is none.
func (n *node) child(e *descriptor.Entry) *node {
	if child, ok := n.exact[*e]; ok {
		return child
	}
	if len(n.patterns) > 0 {
		var a address
		for _, child := range n.patterns {
			if child.pattern.matches(e, &a) {
				return child
			}
		}
	}
	return n.bare[e.Key]
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
	r := m.Rule
	dst = append(dst, r.keyStart...)
	level := 0
	for j := range entries[:m.Depth] {
		e := &entries[j]
		if len(r.domain.asides) > 0 && r.domain.asideOf(e.Key) != nil {
			continue
		}
		if r.hasShared && r.shared[level] != "" {
			dst = descriptor.AppendKeyPattern(dst, r.node.ancestor(level+1).key, r.shared[level])
		} else {
			dst = descriptor.AppendKeyEntry(dst, *e)
		}
		level++
	}
	return descriptor.AppendKeyEnd(dst, r.Limits[i].ordinal)
}

// CountedEntries returns the entries that a rule which matched the first depth of
// entries counts by: what AppendKey makes keys of, with the pattern in place of a value
// that shares its bucket. They are in dst's array only where they differ from the first
// of entries.
func (r *Rule) CountedEntries(dst, entries []descriptor.Entry, depth int) []descriptor.Entry {
	entries = entries[:depth]
	if len(r.domain.asides) == 0 && !r.hasShared {
		return entries
	}
	level := 0
	for _, e := range entries {
		if r.domain.asideOf(e.Key) != nil {
			continue
		}
		if r.hasShared && r.shared[level] != "" {
			e.Value = r.node.ancestor(level + 1).value
		}
		dst = append(dst, e)
		level++
	}
	return dst
}

// roleShift keeps the positions of limits of one role apart from those of the
// next: a file has fewer bytes than a role has room for limits.
const roleShift = 24

const _ = uint(1<<roleShift - MaxFileSize)

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

// ancestor returns the node at a depth on the way to n.
func (n *node) ancestor(depth int) *node {
	for n.depth > depth {
		n = n.parent
	}
	return n
}
