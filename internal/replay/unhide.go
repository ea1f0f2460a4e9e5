package replay

import (
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/rules"
)

// Values are those that rules name, by what stands in their place in events with hashed keys. A nil
// *Values knows none. It is not safe for concurrent use.
type Values struct {
	byHash map[string]string
	// found says that one of them was in an event.
	found bool
}

// Unhide returns the values that rules of sets name, so that those rules find their requests. more
// are entries besides, such as the names of tenants, in every domain of the sets. sets may have nil.
func Unhide(h *keyname.Hasher, more []descriptor.Entry, sets ...*rules.Set) *Values {
	v := &Values{byHash: make(map[string]string)}
	for _, set := range sets {
		if set == nil {
			continue
		}
		for _, domain := range set.Domains() {
			add := func(e descriptor.Entry) { v.byHash[h.HashValue(domain, e)] = e.Value }
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
	return v
}

// put puts values in the place of their hashes.
func (v *Values) put(entries []descriptor.Entry) {
	if v == nil {
		return
	}
	for i := range entries {
		if value, ok := v.byHash[entries[i].Value]; ok {
			entries[i].Value, v.found = value, true
		}
	}
}

// missed reports whether there are values to be found, and none was.
func (v *Values) missed() bool { return v != nil && len(v.byHash) > 0 && !v.found }

// literal reports whether a node is for one value.
func literal(n *rules.Node) bool { return n.Match == rules.MatchValue && !n.IsPattern() }

// opaqueRules returns the rules of sets that cannot be compared with hashed values: with a hash key those
// that stand at or below a pattern or take their cost from an entry, and without one those too at or
// below a value. sets may have
// nil.
func opaqueRules(hashKey bool, sets ...*rules.Set) []string {
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
