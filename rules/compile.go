package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/descriptor"
)

// node is one descriptor of the tree of a domain.
type node struct {
	parent   *node
	depth    int // levels above, the root has 0
	key      string
	match    matchKind
	value    string
	at       position
	file     string
	share    bool
	toMetric bool
	pattern  *pattern // nil when a map finds the node
	order    int      // position among the patterns of the level
	rule     *Rule    // nil: matches without a limit
	children []*node  // in the order of the file

	// How the next entry finds a child: by key and value, then the patterns in
	// order, then by its key alone.
	exact    map[descriptor.Entry]*node
	patterns []*node
	bare     map[string]*node
}

// composite is the node's part of the composite path: what
// envoyproxy/ratelimit calls it, with the kind of match where that service has
// none.
func (n *node) composite() string {
	switch n.match {
	case matchCIDR, matchPrefix, matchRegex:
		return n.key + "_" + matchWords[n.match] + ":" + n.value
	}
	return compositeText(n.key, n.value)
}

// path is the composite path of a node without its domain.
func (n *node) path() string {
	if n.parent == nil || n.parent.parent == nil {
		return n.composite()
	}
	return n.parent.path() + "." + n.composite()
}

// compiler builds the Set from the specs of all files.
type compiler struct {
	*reporter // of the file that is being compiled
	compat    bool
	domain    *Domain
	set       *Set
	// fileAnswer is the answer of the file, the default of its rules; nil for
	// none.
	fileAnswer *Answer
}

// addFile adds the descriptors of a file to their domain.
func (c *compiler) addFile(f *fileSpec) {
	c.fileAnswer = c.answer(f.answer)
	for _, spec := range f.descriptors {
		if spec.always {
			c.addAlways(f, spec)
		}
	}
	c.addNodes(f, c.domain.root, f.descriptors)
}

// addNodes adds the children of parent.
func (c *compiler) addNodes(f *fileSpec, parent *node, specs []*descriptorSpec) {
	taken := make(map[string]*node, len(parent.children)+len(specs))
	for _, n := range parent.children {
		taken[n.identity()] = n
	}
	for _, spec := range specs {
		if spec.always {
			if parent.depth > 0 {
				c.errorf(spec.alwaysAt, "move it to the top of the file", "an always rule is nested in another descriptor")
			}
			continue
		}
		n := c.newNode(f, parent, spec)
		if spec.key == "" {
			if !spec.keyBroken {
				c.errorf(spec.keyAt, "write - key: NAME", "descriptor has empty key")
			}
			c.newRule(f, n, spec) // for what else is wrong
			c.addNodes(f, n, spec.nested)
			continue
		}
		if before, ok := taken[n.identity()]; ok {
			c.errorf(spec.at, fmt.Sprintf("it stands at %s:%d already; put both limits into 'limits' of one descriptor", before.file, before.at.line),
				"duplicate descriptor composite key '%s'", c.domain.Name+"."+n.path())
			continue
		}
		taken[n.identity()] = n
		parent.children = append(parent.children, n)
		n.rule = c.newRule(f, n, spec)
		if n.rule != nil {
			c.set.rules = append(c.set.rules, n.rule)
		}
		c.addNodes(f, n, spec.nested)
	}
}

// identity tells siblings apart: those of envoyproxy/ratelimit by their
// composite key, as that service does.
func (n *node) identity() string {
	switch n.match {
	case matchCIDR, matchPrefix, matchRegex:
		return string(rune('0'+n.match)) + "\x00" + n.key + "\x00" + n.value
	}
	return compositeText(n.key, n.value)
}

func (c *compiler) newNode(f *fileSpec, parent *node, spec *descriptorSpec) *node {
	n := &node{
		parent: parent, depth: parent.depth + 1, key: spec.key, match: spec.match, value: spec.value,
		at: spec.at, file: f.name, share: spec.share, toMetric: spec.valueToMetric,
	}
	isPattern := n.match != matchAny && n.match != matchValue
	star := !isPattern && strings.Contains(compositeText(n.key, n.value), "*")
	if spec.share && !isPattern && !star {
		c.errorf(spec.shareAt, "write a value with '*', or delete share_threshold",
			"share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", n.composite())
	}
	if isPattern || star {
		kind := n.match
		if star {
			kind = matchValue
		}
		p, hint, err := newPattern(kind, n.key, n.value, c.compat)
		if err != nil {
			c.errorf(spec.valueAt, hint, "%v", err)
		}
		n.pattern = p
	}
	return n
}

// seal fills the maps by which the entries of requests find the children of n
// and of all nodes below.
func (n *node) seal(compat bool) {
	for _, child := range n.children {
		child.seal(compat)
		if child.pattern != nil {
			child.order = len(n.patterns)
			n.patterns = append(n.patterns, child)
		}
		if child.match == matchAny || child.match == matchValue {
			n.index(child, compat)
		}
	}
	n.children = slices.Clip(n.children)
}

// index enters a child into the maps of n. In compatibility mode, an entry finds
// the child wherever key and value joined by "_" are the same text as the
// child's: all ways to cut that text at an underscore are entered, so that a
// look-up need not join anything.
func (n *node) index(child *node, compat bool) {
	if n.exact == nil {
		n.exact = make(map[descriptor.Entry]*node)
		n.bare = make(map[string]*node)
	}
	if !compat {
		if child.match == matchAny {
			n.bare[child.key] = child
		} else {
			n.exact[descriptor.Entry{Key: child.key, Value: child.value}] = child
		}
		return
	}
	text := compositeText(child.key, child.value)
	n.bare[text] = child
	for i := range len(text) {
		if text[i] == '_' && i > 0 {
			n.exact[descriptor.Entry{Key: text[:i], Value: text[i+1:]}] = child
		}
	}
}
