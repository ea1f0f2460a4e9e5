package rulefile

import "github.com/headgate/headgate/rules"

// rowTree is the tree of a domain while rows join it. It finds what stands there without
// going through all of it for each row.
type rowTree struct {
	root *rules.Node
	// scopes are the children of root for any value, by their keys; children those of
	// scopes by their identities; keys all keys in the tree. They are nil until they are
	// asked for.
	scopes   map[string]*rules.Node
	children map[*rules.Node]map[string]*rules.Node
	keys     map[string]bool
}

// scope returns the child of the root for any value of a key, nil if there is none.
func (t *rowTree) scope(key string) *rules.Node {
	if t.scopes == nil {
		t.scopes = make(map[string]*rules.Node)
		for _, child := range t.root.Children {
			if child.Match == rules.MatchAny && !child.IsPattern() && t.scopes[child.Key] == nil {
				t.scopes[child.Key] = child
			}
		}
	}
	return t.scopes[key]
}

// child returns the child of a scope with an identity, nil if there is none.
func (t *rowTree) child(scope *rules.Node, identity string) *rules.Node {
	if scope == nil {
		return nil
	}
	known, ok := t.children[scope]
	if !ok {
		known = make(map[string]*rules.Node, len(scope.Children))
		for _, child := range scope.Children {
			if id := child.Identity(); known[id] == nil {
				known[id] = child
			}
		}
		if t.children == nil {
			t.children = make(map[*rules.Node]map[string]*rules.Node)
		}
		t.children[scope] = known
	}
	return known[identity]
}

// hasKey reports whether a descriptor of the domain has a key.
func (t *rowTree) hasKey(key string) bool {
	if t.keys == nil {
		t.keys = make(map[string]bool)
		for n := range t.root.Below() {
			t.keys[n.Key] = true
		}
	}
	return t.keys[key]
}

// addScope adds a child of the root, and returns it.
func (t *rowTree) addScope(n *rules.Node) *rules.Node {
	t.root.Add(n)
	t.scopes[n.Key] = n
	t.noteKey(n.Key)
	return n
}

// add adds a child of a scope.
func (t *rowTree) add(scope, n *rules.Node) {
	t.child(scope, "") // so that they are known
	scope.Add(n)
	t.children[scope][n.Identity()] = n
	t.noteKey(n.Key)
}

func (t *rowTree) noteKey(key string) {
	if t.keys != nil {
		t.keys[key] = true
	}
}
