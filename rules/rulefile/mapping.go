package rulefile

import (
	"fmt"
	"maps"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/spelling"
	"github.com/headgate/headgate/rules"
)

// reader walks the YAML of one file. It follows aliases and merge keys, checks
// keys and where they stand, and collects everything that is wrong.
type reader struct {
	reporter
	// usesHeadgate says that the file has a key that envoyproxy/ratelimit does not know.
	usesHeadgate bool
	// tolerated are the things that envoyproxy/ratelimit puts up with: warnings
	// in its files, errors in files that use keys of Headgate.
	tolerated []rules.Diagnostic

	inAlias    int // how many aliases the walk is inside of
	aliasNodes int // nodes visited inside of aliases
	aborted    bool
}

// field is one key of a mapping and its value.
type field struct {
	name  string
	at    position
	value *yaml.Node
	// alias is set when the value is reached through an alias.
	alias bool
}

func at(n *yaml.Node) position { return position{n.Line, n.Column} }

// tolerate notes what envoyproxy/ratelimit accepts silently.
func (r *reader) tolerate(at position, hint, message string) {
	r.tolerated = append(r.tolerated, rules.Diagnostic{
		File: r.file, Line: at.line, Column: at.column, Message: message, Hint: hint,
	})
}

// settleTolerated reports what was tolerated, once it is known what kind of
// file this is. With compat, every file is one of envoyproxy/ratelimit's.
func (r *reader) settleTolerated(compat bool) {
	severity := rules.SeverityWarning
	if r.usesHeadgate && !compat {
		severity = rules.SeverityError
	}
	for _, d := range r.tolerated {
		r.report(severity, position{d.Line, d.Column}, d.Hint, d.Message)
	}
}

// follow returns the node that n stands for, counting what aliases cost. It
// returns nil when the file has used up what it may.
func (r *reader) follow(n *yaml.Node) *yaml.Node {
	if r.aborted {
		return nil
	}
	if r.inAlias > 0 || n.Kind == yaml.AliasNode {
		r.aliasNodes++
		if r.aliasNodes > maxAliasNodes || r.inAlias > maxYAMLDepth {
			r.aborted = true
			r.errorf(at(n), "write the rules out, or use value patterns instead of aliases",
				"error loading config file: document contains excessive aliasing")
			return nil
		}
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// ofKind is follow for a node of one kind: nil for a null too, and after reporting one of
// another kind, which is not what into names.
func (r *reader) ofKind(kind yaml.Kind, n *yaml.Node, hint, into string) *yaml.Node {
	n = r.follow(n)
	if n == nil || isNull(n) {
		return nil
	}
	if n.Kind != kind {
		r.mistyped(n, hint, into)
		return nil
	}
	return n
}

// mistyped reports that what stands at n is of another type than into.
func (r *reader) mistyped(n *yaml.Node, hint, into string) {
	if n = r.follow(n); n != nil {
		r.errorf(at(n), hint, "error loading config file: yaml: cannot unmarshal %s into %s", kindText(n), into)
	}
}

// enter calls visit inside of the value of f.
func (r *reader) enter(alias bool, visit func()) {
	if alias {
		r.inAlias++
		defer func() { r.inAlias-- }()
	}
	visit()
}

// mapping returns the fields of n that mean something in p, and reports all
// others. A null is an empty mapping.
func (r *reader) mapping(n *yaml.Node, p place) []field {
	n = r.ofKind(yaml.MappingNode, n, "write it as a map of keys and values", places[p].name)
	if n == nil {
		return nil
	}
	all := r.fields(n, textKeys)
	known := all[:0]
	for _, f := range all {
		if r.checkKey(f, p) {
			known = append(known, f)
		}
	}
	return known
}

// keyTypes says which scalars may be keys.
type keyTypes bool

const (
	textKeys keyTypes = false
	anyKeys  keyTypes = true // read as they are written
)

// fields returns the fields of the mapping n. Of equal keys the last one counts,
// and a key of the mapping itself counts more than a merged one, as in the YAML
// library of envoyproxy/ratelimit.
func (r *reader) fields(n *yaml.Node, types keyTypes) []field {
	fs := make([]field, 0, len(n.Content)/2)
	index := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if isMerge(k) {
			continue
		}
		key := r.follow(k)
		if key == nil {
			return nil
		}
		if key.Kind != yaml.ScalarNode || types == textKeys && scalarOf(key).kind != textScalar {
			r.errorf(at(k), "quote the key", "config error, key is not of type string: %s", plain(key))
			continue
		}
		f := field{name: key.Value, at: at(k), value: v, alias: v.Kind == yaml.AliasNode}
		if before, ok := index[f.name]; ok {
			r.tolerate(f.at, "delete one of them; the last one counts",
				fmt.Sprintf("key '%s' stands twice in one map, first on line %d", f.name, fs[before].at.line))
			fs[before] = f
			continue
		}
		index[f.name] = len(fs)
		fs = append(fs, f)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isMerge(n.Content[i]) {
			fs = r.merge(n.Content[i+1], fs, index, types)
		}
	}
	return fs
}

// merge appends the fields of "<<: source" that the mapping does not have.
func (r *reader) merge(source *yaml.Node, fs []field, index map[string]int, types keyTypes) []field {
	r.inAlias++ // a merged source costs what an alias costs
	defer func() { r.inAlias-- }()
	n := r.follow(source)
	if n == nil {
		return fs
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			fs = r.merge(item, fs, index, types)
		}
	case yaml.MappingNode:
		for _, f := range r.fields(n, types) {
			if _, ok := index[f.name]; !ok {
				f.alias = true
				index[f.name] = len(fs)
				fs = append(fs, f)
			}
		}
	default:
		r.errorf(at(source), "write <<: *name, or <<: [*a, *b]",
			"error loading config file: yaml: map merge requires map or sequence of maps as the value")
	}
	return fs
}

// checkKey reports whether f is a key that means something in p.
func (r *reader) checkKey(f field, p place) bool {
	info, known := keys()[f.name]
	if !known {
		if len(r.diagnostics) < maxDiagnostics { // finding the nearest key takes a while
			r.errorf(f.at, unknownHint(f.name), "config error, unknown key '%s'", f.name)
		}
		return false
	}
	r.usesHeadgate = r.usesHeadgate || !info.envoy
	if info.belongs(p) {
		return true
	}
	hint := fmt.Sprintf("move it into %s", info.home())
	if info.belongs(inDescriptor) && p.isHeadgates() {
		hint = "move it out into the descriptor"
	}
	if !info.envoy || p.isHeadgates() {
		r.errorf(f.at, hint, "key '%s' means nothing in %s", f.name, places[p].name)
		return false
	}
	r.warnf(f.at, hint, "key '%s' means nothing in %s and is ignored", f.name, places[p].name)
	if f.name != "metadata" {
		r.enter(f.alias, func() { r.checkLoose(f.value) })
	}
	return false
}

func unknownHint(name string) string {
	if near := spelling.Nearest(name, maps.Keys(keys())); near != "" {
		return fmt.Sprintf("did you mean '%s'?", near)
	}
	return "headgate rules schema prints the JSON Schema with all keys"
}

// checkLoose checks the keys and types of a value that is ignored, because
// envoyproxy/ratelimit refuses a file for them all the same.
func (r *reader) checkLoose(n *yaml.Node) {
	alias := n.Kind == yaml.AliasNode
	n = r.follow(n)
	if n == nil {
		return
	}
	switch n.Kind {
	case yaml.ScalarNode:
		r.checkLeaf(n, textLeaf)
	case yaml.SequenceNode:
		for _, item := range n.Content {
			r.enter(alias, func() { r.checkLooseItem(item) })
		}
	case yaml.MappingNode:
		for _, f := range r.fields(n, textKeys) {
			if _, known := keys()[f.name]; !known {
				r.errorf(f.at, "delete it", "config error, unknown key '%s'", f.name)
			} else if f.name != "metadata" {
				r.enter(alias || f.alias, func() { r.checkLoose(f.value) })
			}
		}
	}
}

func (r *reader) checkLooseItem(item *yaml.Node) {
	if target := r.follow(item); target != nil && target.Kind != yaml.MappingNode {
		r.notAMap(target)
		return
	}
	r.checkLoose(item)
}

// items returns the maps of the list n. A null is an empty list.
func (r *reader) items(f field) []*yaml.Node {
	n := r.ofKind(yaml.SequenceNode, f.value, "write a list, each entry beginning with '- '", "the list '"+f.name+"'")
	if n == nil {
		return nil
	}
	maps := make([]*yaml.Node, 0, len(n.Content))
	for _, item := range n.Content {
		if target := r.follow(item); target == nil {
			return nil
		} else if target.Kind != yaml.MappingNode {
			r.notAMap(target)
			continue
		}
		maps = append(maps, item)
	}
	return maps
}

func (r *reader) notAMap(n *yaml.Node) {
	r.errorf(at(n), "every entry of a list is a map of keys and values",
		"config error, yaml file contains list of type other than map: %s", plain(n))
}
