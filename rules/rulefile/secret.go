package rulefile

import (
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
)

// conceal puts into a node what requests carry in place of a secret.
func (c *compiler) conceal(n *rules.Node, spec *descriptorSpec) {
	if c.names == nil {
		return
	}
	names := c.names.Names(descriptor.Entry{Key: n.Key, Value: n.Value})
	if names == nil {
		return
	}
	if n.IsPattern() {
		c.errorf(spec.valueAt, "write keys in full, or let an entry beside it say what kind of key it is; --identity names the entries that hold API keys",
			"no pattern can be compared with entries of '%s': they hold API keys, which are hashed before they are matched", n.Key)
		return
	}
	n.Key, n.Value = names[0].Key, names[0].Value
	if len(names) > 1 {
		n.Also = names[1].Value
	}
}

// concealed returns entries with what requests carry in place of secrets.
func (c *compiler) concealed(entries []descriptor.Entry) []descriptor.Entry {
	var all []descriptor.Entry
	for _, e := range entries {
		if names := c.names.Names(e); names != nil {
			all = append(all, names...)
		} else {
			all = append(all, e)
		}
	}
	return all
}
