package rules

// rowTree is the tree of a domain while rows join it. It finds what stands there without
// going through all of it for each row.
type rowTree struct {
	root *node
	// scopes are the children of root for any value, by their keys; children those of
	// scopes by their identities; keys all keys in the tree. They are nil until they are
	// asked for.
	scopes   map[string]*node
	children map[*node]map[string]*node
	keys     map[string]bool
}

// scope returns the child of the root for any value of a key, nil if there is none.
func (t *rowTree) scope(key string) *node {
	if t.scopes == nil {
		t.scopes = make(map[string]*node)
		for _, child := range t.root.children {
			if child.match == matchAny && child.pattern == nil && t.scopes[child.key] == nil {
				t.scopes[child.key] = child
			}
		}
	}
	return t.scopes[key]
}

// child returns the child of a scope with an identity, nil if there is none.
func (t *rowTree) child(scope *node, identity string) *node {
	if scope == nil {
		return nil
	}
	known, ok := t.children[scope]
	if !ok {
		known = make(map[string]*node, len(scope.children))
		for _, child := range scope.children {
			if id := child.identity(); known[id] == nil {
				known[id] = child
			}
		}
		if t.children == nil {
			t.children = make(map[*node]map[string]*node)
		}
		t.children[scope] = known
	}
	return known[identity]
}

// hasKey reports whether a descriptor of the domain has a key.
func (t *rowTree) hasKey(key string) bool {
	if t.keys == nil {
		t.keys = make(map[string]bool)
		t.root.addKeys(t.keys)
	}
	return t.keys[key]
}

// addKeys notes the keys of the descriptors below n.
func (n *node) addKeys(keys map[string]bool) {
	for _, child := range n.children {
		keys[child.key] = true
		child.addKeys(keys)
	}
}

// addScope adds a child of the root, and returns it.
func (t *rowTree) addScope(n *node) *node {
	n.parent, n.depth = t.root, 1
	t.root.children = append(t.root.children, n)
	t.scopes[n.key] = n
	t.noteKey(n.key)
	return n
}

// add adds a child of a scope.
func (t *rowTree) add(scope, n *node) {
	t.child(scope, "") // so that they are known
	n.parent = scope
	scope.children = append(scope.children, n)
	t.children[scope][n.identity()] = n
	t.noteKey(n.key)
}

func (t *rowTree) noteKey(key string) {
	if t.keys != nil {
		t.keys[key] = true
	}
}
