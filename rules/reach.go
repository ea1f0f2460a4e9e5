package rules

import (
	"slices"
	"strings"
)

// Possible is an entry of which the key is known, and perhaps the value.
type Possible struct {
	Key string
	// Value counts unless AnyValue.
	Value    string
	AnyValue bool
}

// Reaches reports whether a rule of d may apply to descriptors that are made of parts,
// one after the other. Each part is a list of alternatives, of which one is taken, and
// each alternative a list of entries. A rule that always applies is reached by any.
//
// It may report true where a pattern of a key or a value keeps every descriptor out, but
// never false for one that is matched.
func (d *Domain) Reaches(parts [][][]Possible) bool {
	if len(d.always) > 0 {
		return true
	}
	at := []*node{d.root}
	for _, alternatives := range parts {
		var next []*node
		seen := map[*node]bool{}
		for _, entries := range alternatives {
			for _, n := range d.reached(at, entries) {
				if d.Match == Path && n.rule != nil {
					return true
				}
				if !seen[n] {
					seen[n] = true
					next = append(next, n)
				}
			}
		}
		at = next
	}
	return slices.ContainsFunc(at, func(n *node) bool { return n.rule != nil })
}

// reached returns the nodes that entries may lead to from one of those at. In a domain
// where every limit on the way counts, a node on the way that has one is among them.
func (d *Domain) reached(at []*node, entries []Possible) []*node {
	var passed []*node
	for i := range entries {
		if d.asideOf(entries[i].Key) != nil {
			continue
		}
		var next []*node
		for _, n := range at {
			for _, child := range n.children {
				if !child.mayMatch(&entries[i]) {
					continue
				}
				next = append(next, child)
				if d.Match == Path && child.rule != nil {
					passed = append(passed, child)
				}
			}
		}
		at = next
	}
	return append(passed, at...)
}

// mayMatch reports whether n may be what an entry finds.
func (n *node) mayMatch(e *Possible) bool {
	if n.pattern != nil && (n.pattern.loose || !n.pattern.exactKey) {
		return true // '*' may stand for any key
	}
	return n.key == e.Key && (e.AnyValue || n.match != matchValue || n.pattern != nil || n.value == e.Value)
}

// Shapes returns of what entries descriptors must be that rules of d apply to, most of
// them at most: their keys in order, such as "tenant, route=...", where "=..." stands
// for values that the rule names. It tells no values: they may be secrets.
func (d *Domain) Shapes(most int) []string {
	var shapes []string
	var walk func(n *node, path []string)
	walk = func(n *node, path []string) {
		for _, child := range n.children {
			if len(shapes) >= most {
				return
			}
			shape := append(path[:len(path):len(path)], child.shape())
			if text := strings.Join(shape, ", "); child.rule != nil && !slices.Contains(shapes, text) {
				shapes = append(shapes, text)
			}
			walk(child, shape)
		}
	}
	walk(d.root, nil)
	return shapes
}

// shape is the key of n, marked where only some values fit.
func (n *node) shape() string {
	if n.match == matchAny {
		return n.key
	}
	return n.key + "=..."
}
