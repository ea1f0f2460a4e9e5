package rulefile

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/rules"
)

// compiler builds the Set from the specs of all files.
type compiler struct {
	*reporter // of the file that is being compiled
	options   *Options
	domain    *domain
	rules     *[]*rules.Rule // of all domains, so far
	// fileAnswer is the answer of the file, the default of its rules; nil for
	// none.
	fileAnswer *rules.Answer
	// fileStore is the store of the file, the default of its rules; "" for none.
	fileStore string
	// names may be nil.
	names Namer
}

// addFile adds the descriptors of a file to their domain.
func (c *compiler) addFile(f *fileSpec) {
	c.fileAnswer, c.fileStore = c.answer(f.answer), f.store
	for _, spec := range f.descriptors {
		if spec.always {
			c.addAlways(f, spec)
		}
	}
	c.addNodes(f, &c.domain.Root, f.descriptors)
}

// addNodes adds the children of parent.
func (c *compiler) addNodes(f *fileSpec, parent *rules.Node, specs []*descriptorSpec) {
	taken := make(map[string]*rules.Node, len(parent.Children)+len(specs))
	for _, n := range parent.Children {
		taken[n.Identity()] = n
	}
	for _, spec := range specs {
		if spec.always {
			if parent.Parent != nil {
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
		if before, ok := taken[n.Identity()]; ok {
			c.errorf(spec.at, fmt.Sprintf("it stands at %s:%d already; put both limits into 'limits' of one descriptor", before.File, before.Line),
				"duplicate descriptor composite key '%s'", c.domain.Name+"."+n.Path())
			continue
		}
		taken[n.Identity()] = n
		parent.Add(n)
		c.setRule(n, c.newRule(f, n, spec))
		c.addNodes(f, n, spec.nested)
	}
}

// setRule makes r, which may be nil, the rule of a node.
func (c *compiler) setRule(n *rules.Node, r *rules.Rule) {
	if n.Rule = r; r != nil {
		*c.rules = append(*c.rules, r)
	}
}

// newNode returns the node of a descriptor, which parent does not have for a child yet.
func (c *compiler) newNode(f *fileSpec, parent *rules.Node, spec *descriptorSpec) *rules.Node {
	n := &rules.Node{
		Key: spec.key, Match: spec.match, Value: spec.value, Shared: spec.share, ValueToMetric: spec.valueToMetric,
		Parent: parent, File: f.name, Line: spec.at.line, Column: spec.at.column,
	}
	c.conceal(n, spec)
	if spec.share && !n.IsPattern() {
		c.errorf(spec.shareAt, "write a value with '*', or delete share_threshold",
			"share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", n.Composite())
	}
	var broken *rules.PatternError
	if err := n.Compile(c.options.Compat); errors.As(err, &broken) {
		c.errorf(spec.valueAt, broken.Hint, "%v", broken)
	}
	return n
}
