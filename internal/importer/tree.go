package importer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules"
)

// entry is one level of the way to a limit.
type entry struct {
	key   string
	match rules.MatchKind
	value string
	// shared lets all values that match count in one bucket.
	shared bool
}

// any value of a key, each with a bucket of its own.
func each(key string) entry { return entry{key: key} }

// is one value of a key.
func is(key, value string) entry { return entry{key: key, match: rules.MatchValue, value: value} }

// underPrefix is all values of a key that begin with a text, together.
func underPrefix(key, text string) entry {
	return entry{key: key, match: rules.MatchPrefix, value: text, shared: true}
}

// like is all values of a key that match an expression, together.
func like(key, expression string) entry {
	return entry{key: key, match: rules.MatchRegex, value: expression, shared: true}
}

// oneLimit is a limit as it is written. What is empty is not.
type oneLimit struct {
	name      string
	replaces  []string
	requests  int64
	unit      string // a word, or
	window    string // a length
	zone      string
	algorithm string
	burst     int64
	maxDelay  string
	maxQueue  int64
	// countDenied is written where the algorithm takes it.
	countDenied bool
	unlimited   bool
}

// rule is what a descriptor says beside its key and value.
type rule struct {
	limits      []oneLimit
	concurrency int64
	// keys are further keys with their values, in the order in which they are written.
	keys []setting
}

// setting is a key with a value that is a text, a boolean, or a mapping.
type setting struct {
	key   string
	value any
}

// node is a descriptor of the rule file.
type node struct {
	entry
	// valueToMetric has the statistics show the value at this level, with or without a rule here.
	valueToMetric bool
	rule          *rule
	below         []*node
	// index finds what is below by its entry.
	index map[entry]*node
}

// child returns the node for an entry below n, and makes it where it is missing.
func (n *node) child(e entry) *node {
	if child, ok := n.index[e]; ok {
		return child
	}
	if n.index == nil {
		n.index = map[entry]*node{}
	}
	child := &node{entry: e}
	n.index[e] = child
	n.below = append(n.below, child)
	return child
}

// tree is the rule file before it is written.
type tree struct {
	domain string
	// consumption is written when it is not empty.
	consumption string
	// root has the descriptors of the first level below it, and is none itself.
	root node
	// rules counts the nodes with a rule.
	rules int
	// names are those that limits have already, with the number of the last one that began
	// like it.
	names map[string]int
	// shapes are the descriptors that requests must carry, for who reads the file.
	shapes []string
}

// at returns the node that a way leads to, and makes what is missing of it.
func (t *tree) at(way []entry) *node {
	n, shape := &t.root, make([]string, len(way))
	for i, e := range way {
		shape[i] = e.key
		n = n.child(e)
	}
	if text := strings.Join(shape, ", "); !slices.Contains(t.shapes, text) {
		t.shapes = append(t.shapes, text)
	}
	return n
}

// limit adds limits to what a way leads to. It reports false when something limits it
// already: the caller then says so.
func (t *tree) limit(way []entry, r rule) bool {
	if t.rules >= maxRules {
		t.rules = maxRules + 1 // too many: the import is refused, and need not go on
		return true
	}
	n := t.at(way)
	if n.rule != nil {
		return false
	}
	n.rule = &r
	t.rules++
	return true
}

// overlaps reports whether a way leaves what is there already at a level where one request
// may fit both. Only one of the two would then count, though the source counts both.
func (t *tree) overlaps(way []entry) bool {
	list := t.root.below
	for _, e := range way {
		var next *node
		for _, n := range list {
			if n.entry == e {
				next = n
			} else if n.key == e.key && mayBothFit(n.entry, e) {
				return true
			}
		}
		if next == nil {
			return false
		}
		list = next.below
	}
	return false
}

// mayBothFit reports whether some value may fit two entries of the same key.
func mayBothFit(a, b entry) bool {
	if a.match > b.match {
		a, b = b, a
	}
	switch {
	case a.match == rules.MatchValue && b.match == rules.MatchValue:
		return a.value == b.value
	case a.match == rules.MatchValue && b.match == rules.MatchPrefix:
		return strings.HasPrefix(a.value, b.value)
	case a.match == rules.MatchPrefix && b.match == rules.MatchPrefix:
		return strings.HasPrefix(a.value, b.value) || strings.HasPrefix(b.value, a.value)
	}
	return true
}

// order puts siblings that match by a pattern into the order in which nginx and the like
// try them: expressions first, as they stand, then the longest prefix.
func (t *tree) order() { orderNodes(t.root.below) }

func orderNodes(list []*node) {
	slices.SortStableFunc(list, func(a, b *node) int {
		if byPattern(a.match) && byPattern(b.match) && a.key == b.key {
			return cmp.Or(cmp.Compare(b.match, a.match), patternLength(b)-patternLength(a))
		}
		return 0
	})
	for _, n := range list {
		orderNodes(n.below)
	}
}

func byPattern(kind rules.MatchKind) bool {
	return kind == rules.MatchPrefix || kind == rules.MatchRegex
}

// patternLength is what prefixes are ordered by; expressions are not.
func patternLength(n *node) int {
	if n.match == rules.MatchPrefix {
		return len(n.value)
	}
	return 0
}

// maxName bounds the name of a limit that is made of what a source calls it.
const maxName = 60

// name returns a name for a limit, made of what the source calls it and where it stands,
// that no other limit has: what stands where that name is not allowed is left out.
func (t *tree) name(parts ...string) string {
	var words []string
	for _, part := range parts {
		words = append(words, strings.FieldsFunc(part, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
		})...)
	}
	name := strings.Join(words, ".")
	name = cmp.Or(name, "limit")
	name = strings.TrimRight(name[:min(len(name), maxName)], ".")
	if t.names == nil {
		t.names = map[string]int{}
	}
	free := name
	for t.names[free] > 0 {
		t.names[name]++
		free = fmt.Sprintf("%s-%d", name, t.names[name])
	}
	t.names[free]++
	return free
}

// keyOf makes the key of an entry out of the name of a header, a cookie or the like:
// lower case, and '_' for what is no letter or digit.
func keyOf(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, name)
}

// readsAsRE2 reports whether an expression of PCRE is one of RE2 too.
func readsAsRE2(expression string) bool {
	_, err := regexp.Compile(expression)
	return err == nil
}
