package rules

import (
	"iter"

	"github.com/headgate/headgate/descriptor"
)

// Fixed yields the rules below r that fixed values lead to, each with the entries that
// follow those which reach r, in the order of the file. Rules below a pattern or a key
// of any value are left out: there are as many buckets of them as there are values.
// The entries are only valid until the next rule.
func (r *Rule) Fixed() iter.Seq2[*Rule, []descriptor.Entry] {
	return func(yield func(*Rule, []descriptor.Entry) bool) {
		if r.node != nil {
			r.node.fixed(nil, yield)
		}
	}
}

func (n *node) fixed(way []descriptor.Entry, yield func(*Rule, []descriptor.Entry) bool) bool {
	for _, child := range n.children {
		if child.match != matchValue || child.pattern != nil {
			continue
		}
		next := append(way, descriptor.Entry{Key: child.key, Value: child.value})
		if child.rule != nil && !yield(child.rule, next) || !child.fixed(next, yield) {
			return false
		}
	}
	return true
}
