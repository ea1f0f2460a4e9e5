package replay

import (
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/rules"
)

// Unhide returns the values that rules of sets name, by what stands in their place in events with
// hashed keys, so that those rules find their requests. more are entries besides, such as the
// names of tenants, in every domain of the sets. sets may have nil.
func Unhide(h *keyname.Hasher, more []descriptor.Entry, sets ...*rules.Set) map[string]string {
	values := make(map[string]string)
	for _, set := range sets {
		if set == nil {
			continue
		}
		for _, domain := range set.Domains() {
			add := func(e descriptor.Entry) { values[h.HashValue(domain, e)] = e.Value }
			for n := range set.Domain(domain).Root.Below() {
				if !literal(n) {
					continue
				}
				add(descriptor.Entry{Key: n.Key, Value: n.Value})
				if n.Also != "" {
					add(descriptor.Entry{Key: n.Key, Value: n.Also})
				}
			}
			for _, e := range more {
				add(e)
			}
		}
	}
	return values
}

// literal reports whether a node is for one value.
func literal(n *rules.Node) bool { return n.Match == rules.MatchValue && !n.IsPattern() }

// Opaque returns the rules of sets that cannot be compared with hashed values: with a hash key those
// that stand at or below a pattern or take their cost from an entry, and without one those too at or
// below a value. sets may have
// nil.
func Opaque(hashKey bool, sets ...*rules.Set) []string {
	var opaque []string
	for _, set := range sets {
		if set == nil {
			continue
		}
		for _, r := range set.Rules() {
			if r.Cost.Source == rules.CostEntry || slices.ContainsFunc(r.Way(), func(n *rules.Node) bool { return n.IsPattern() || !hashKey && literal(n) }) {
				opaque = append(opaque, r.ID)
			}
		}
	}
	return opaque
}
