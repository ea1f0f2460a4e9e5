package rules

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/headgate/headgate/descriptor"
)

// MatchKind says how a Node compares the value of an entry.
type MatchKind uint8

const (
	MatchAny    MatchKind = iota // no value: any one
	MatchValue                   // as it is written, or with '*' for any characters
	MatchCIDR                    // an IP address in a network
	MatchPrefix                  // begins with
	MatchRegex                   // the whole value matches an expression of RE2
)

// String returns "any value", "value", "cidr", "prefix" or "regex".
func (k MatchKind) String() string {
	return [...]string{"any value", "value", "cidr", "prefix", "regex"}[k]
}

// Node is one descriptor of the tree of a domain, which has a level for each entry of a
// request. Nodes are immutable once New has taken them.
type Node struct {
	Key   string
	Match MatchKind
	// Value is what Match compares with; "" for MatchAny.
	Value string
	// Also, where it is not empty, is a second value that finds a node of MatchValue
	// which is no pattern.
	Also string
	// Shared lets all values that match count in one bucket (share_threshold).
	Shared bool
	// ValueToMetric has the statistics of envoyproxy/ratelimit show the value that a request has
	// at this level, of this rule and of those below (value_to_metric).
	ValueToMetric bool
	// Rule, when not nil, limits what reaches the node.
	Rule *Rule
	// Parent is nil for the Root of a Domain alone.
	Parent *Node
	// Children are in the order of the file: of patterns, the first that fits is taken.
	Children []*Node
	// File, Line and Column say where the node stands.
	File         string
	Line, Column int

	pattern    *pattern // nil when a map finds the node
	sharedText string   // stands for the values in keys; "" unless Shared
	// How the next entry finds a child: by key and value, then the patterns in
	// order, then by its key alone.
	exact    map[descriptor.Entry]*Node
	patterns []*Node
	bare     map[string]*Node
}

// Add makes child the last of n's Children.
func (n *Node) Add(child *Node) {
	child.Parent = n
	n.Children = append(n.Children, child)
}

// Composite is the node's part of the composite path: what envoyproxy/ratelimit calls
// it, "key_value", with the kind of match where that service has none.
func (n *Node) Composite() string {
	if n.Match > MatchValue {
		return n.Key + "_" + n.Match.String() + ":" + n.Value
	}
	return compositeText(n.Key, n.Value)
}

// Path is the composite path of a node without its domain, such as "tenant_acme.op".
func (n *Node) Path() string {
	if n.Parent == nil || n.Parent.Parent == nil {
		return n.Composite()
	}
	return n.Parent.Path() + "." + n.Composite()
}

// Identity tells siblings apart: those that envoyproxy/ratelimit has by their composite
// key, as that service does.
func (n *Node) Identity() string {
	if n.Match > MatchValue {
		return string(rune('0'+n.Match)) + "\x00" + n.Key + "\x00" + n.Value
	}
	return compositeText(n.Key, n.Value)
}

// Way returns the nodes that lead to n, the outermost first and n last, without the
// Root.
func (n *Node) Way() []*Node {
	var way []*Node
	for ; n != nil && n.Parent != nil; n = n.Parent {
		way = append(way, n)
	}
	slices.Reverse(way)
	return way
}

// Below yields all nodes below n, each before its children, in the order of the file.
func (n *Node) Below() iter.Seq[*Node] {
	return func(yield func(*Node) bool) { n.below(yield) }
}

func (n *Node) below(yield func(*Node) bool) bool {
	for _, child := range n.Children {
		if !yield(child) || !child.below(yield) {
			return false
		}
	}
	return true
}

// IsPattern reports whether n is compared with each entry, not found by a map.
func (n *Node) IsPattern() bool {
	return n.Match > MatchValue || n.hasStar()
}

func (n *Node) hasStar() bool {
	return strings.Contains(n.Key, "*") || strings.Contains(n.Value, "*")
}

// ManyValues reports whether entries of more than one value reach n, and are counted
// apart.
func (n *Node) ManyValues() bool {
	return !n.Shared && (n.Match != MatchValue || n.IsPattern())
}

// Exact returns the child that is found by the key and the value of e, nil for none.
func (n *Node) Exact(e descriptor.Entry) *Node { return n.exact[e] }

// Patterns returns the children that are compared with an entry which Exact finds
// nothing for, in their order. The caller must not change the slice.
func (n *Node) Patterns() []*Node { return n.patterns }

// Fits reports whether the pattern n fits e.
func (n *Node) Fits(e descriptor.Entry) bool {
	var a address
	return n.pattern.matches(&e, &a)
}

// Bare returns the child that is found by a key alone when nothing else is, nil for none.
func (n *Node) Bare(key string) *Node { return n.bare[key] }

// child returns the child that an entry finds, nil if there is none.
func (n *Node) child(e *descriptor.Entry) *Node {
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

// Compile readies a pattern to be compared with entries, or says what is wrong with it;
// the error is a *PatternError. With compat, a '*' may stand for the '_' between key and
// value, as in envoyproxy/ratelimit. Of a node that is none it does nothing. New compiles
// what was not.
func (n *Node) Compile(compat bool) error {
	if !n.IsPattern() {
		return nil
	}
	p, hint, err := newPattern(max(n.Match, MatchValue), n.Key, n.Value, compat)
	if err != nil {
		return &PatternError{Err: err, Hint: hint}
	}
	n.pattern = p
	return nil
}

// PatternError says why entries cannot be compared with a Node.
type PatternError struct {
	Err error
	// Hint is what to do about it.
	Hint string
}

func (e *PatternError) Error() string { return e.Err.Error() }
func (e *PatternError) Unwrap() error { return e.Err }

// seal fills the maps by which the entries of requests find the children of n and of
// all nodes below.
func (n *Node) seal(compat bool) error {
	for _, child := range n.Children {
		if child.Parent != n {
			return fmt.Errorf("%s is a child of two nodes, or of none", child.Composite())
		}
		if err := child.seal(compat); err != nil {
			return err
		}
		if child.IsPattern() {
			if child.pattern == nil {
				if err := child.Compile(compat); err != nil {
					return err
				}
			}
			n.patterns = append(n.patterns, child)
		}
		if child.Shared {
			child.sharedText = child.Match.String() + ":" + child.Value
		}
		if child.Match == MatchAny || child.Match == MatchValue {
			n.index(child, compat)
		}
	}
	n.Children = slices.Clip(n.Children)
	return nil
}

// index enters a child into the maps of n. In compatibility mode, an entry finds
// the child wherever key and value joined by "_" are the same text as the
// child's: all ways to cut that text at an underscore are entered, so that a
// look-up need not join anything.
func (n *Node) index(child *Node, compat bool) {
	if n.exact == nil {
		n.exact = make(map[descriptor.Entry]*Node)
		n.bare = make(map[string]*Node)
	}
	if also := (descriptor.Entry{Key: child.Key, Value: child.Also}); child.Also != "" && n.exact[also] == nil {
		n.exact[also] = child // a sibling of that value goes before it
	}
	if !compat {
		if child.Match == MatchAny {
			n.bare[child.Key] = child
		} else {
			n.exact[descriptor.Entry{Key: child.Key, Value: child.Value}] = child
		}
		return
	}
	text := compositeText(child.Key, child.Value)
	n.bare[text] = child
	for i := range len(text) {
		if text[i] == '_' && i > 0 {
			n.exact[descriptor.Entry{Key: text[:i], Value: text[i+1:]}] = child
		}
	}
}

// compositeText is what envoyproxy/ratelimit calls a descriptor's key: its key,
// and its value after an underscore if it has one.
func compositeText(key, value string) string {
	if value == "" {
		return key
	}
	return key + "_" + value
}
