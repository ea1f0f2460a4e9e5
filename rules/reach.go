package rules

import (
	"iter"
	"slices"
	"strings"

	"github.com/headgate/headgate/descriptor"
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
	if len(d.Always) > 0 {
		return true
	}
	at := []*Node{&d.Root}
	for _, alternatives := range parts {
		var next []*Node
		seen := map[*Node]bool{}
		for _, entries := range alternatives {
			for _, n := range d.reached(at, entries) {
				if d.Match == Path && n.Rule != nil {
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
	return slices.ContainsFunc(at, func(n *Node) bool { return n.Rule != nil })
}

// reached returns the nodes that entries may lead to from one of those at. In a domain
// where every limit on the way counts, a node on the way that has one is among them.
func (d *Domain) reached(at []*Node, entries []Possible) []*Node {
	var passed []*Node
	for i := range entries {
		if d.Aside(entries[i].Key) {
			continue
		}
		var next []*Node
		for _, n := range at {
			for _, child := range n.Children {
				if !child.mayMatch(&entries[i]) {
					continue
				}
				next = append(next, child)
				if d.Match == Path && child.Rule != nil {
					passed = append(passed, child)
				}
			}
		}
		at = next
	}
	return append(passed, at...)
}

// mayMatch reports whether n may be what an entry finds.
func (n *Node) mayMatch(e *Possible) bool {
	if n.pattern != nil && (n.pattern.loose || !n.pattern.exactKey) {
		return true // '*' may stand for any key
	}
	return n.Key == e.Key && (e.AnyValue || n.Match != MatchValue || n.pattern != nil || n.Value == e.Value)
}

// Shapes returns the shapes of descriptors that rules of d apply to, most of them at most. A shape
// has the keys of the entries in order, such as "tenant, route=...", where "=..." stands for values
// that the rule names. It does not tell the values, because they may be secrets.
func (d *Domain) Shapes(most int) []string {
	var shapes []string
	var walk func(n *Node, path []string)
	walk = func(n *Node, path []string) {
		for _, child := range n.Children {
			if len(shapes) >= most {
				return
			}
			shape := append(path[:len(path):len(path)], child.shape())
			if text := strings.Join(shape, ", "); child.Rule != nil && !slices.Contains(shapes, text) {
				shapes = append(shapes, text)
			}
			walk(child, shape)
		}
	}
	walk(&d.Root, nil)
	return shapes
}

// shape is the key of n, marked where only some values fit.
func (n *Node) shape() string {
	if n.Match == MatchAny {
		return n.Key
	}
	return n.Key + "=..."
}

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

func (n *Node) fixed(way []descriptor.Entry, yield func(*Rule, []descriptor.Entry) bool) bool {
	for _, child := range n.Children {
		if child.Match != MatchValue || child.pattern != nil {
			continue
		}
		next := append(way, descriptor.Entry{Key: child.Key, Value: child.Value})
		if child.Rule != nil && !yield(child.Rule, next) || !child.fixed(next, yield) {
			return false
		}
	}
	return true
}
