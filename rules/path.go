package rules

// Path returns what the entries that reach r must be, level by level, as
// envoyproxy/ratelimit writes it in its statistics: "key_value", or "key" where any value
// goes. It is made of configuration only, and empty for a rule that always applies.
func (r *Rule) Path() []string {
	if r.node == nil {
		return nil
	}
	path := make([]string, r.node.depth)
	for n := r.node; n.depth > 0; n = n.parent {
		path[n.depth-1] = n.composite()
	}
	return path
}
