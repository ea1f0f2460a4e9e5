package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/rules"
)

// maxWays bounds the descriptors of one rule of a policy: its targets times its selectors.
const maxWays = 1000

// policy is one BackendTrafficPolicy.
type policy struct {
	*gatewayReader
	name string
	// rules counts the rules that were read.
	rules int
	// targets are the first entries of its descriptors: the routes that it is for.
	targets []entry
	// badTargets says that a target could not be read, and was noted.
	badTargets bool
}

func readPolicy(r *gatewayReader, d *yaml.Node) {
	spec := field(d, "spec")
	if isSet(spec) && spec.Kind != yaml.MappingNode {
		r.note(spec.Line, "spec", "it is no mapping, and is not read")
	}
	p := &policy{gatewayReader: r, name: cmp.Or(textOf(field(d, "metadata", "namespace")), "default") + "/" + textOf(field(d, "metadata", "name"))}
	for key, value := range pairs(spec) {
		switch key.Value {
		case "targetRef":
			p.target(value)
		case "targetRefs":
			refs, ok := p.list(spec, key.Value)
			p.badTargets = p.badTargets || !ok
			for _, ref := range refs {
				p.target(ref)
			}
		case "targetSelectors":
			r.note(key.Line, key.Value, "no cluster is asked which routes have the labels: write targetRefs")
		case "mergeType":
			r.note(key.Line, key.Value, "policies are not merged with those of their parents")
		case "rateLimit":
		default:
			r.elsewhere(key.Line, key.Value, "it is no limit on requests, and stays in the policy")
		}
	}
	p.limits(field(spec, "rateLimit"))
}

// limits reads the global and the local limits of a policy. A type leaves one of the two out.
func (p *policy) limits(n *yaml.Node) {
	if isSet(n) && n.Kind != yaml.MappingNode {
		p.note(n.Line, "rateLimit", "it is no mapping, and is not read")
	}
	kind, ok := p.text(n, "type")
	if !ok {
		return
	}
	switch {
	case kind != "" && kind != "Global" && kind != "Local":
		p.note(n.Line, "type: "+kind, "it is neither Global nor Local, and the limits are not read")
		return
	case kind != "" && !isSet(field(n, strings.ToLower(kind))):
		p.note(n.Line, "type: "+kind, "it has no limits of this type")
	}
	for key, value := range pairs(n) {
		switch key.Value {
		case "type":
		case "global", "local":
			if isSet(value) && kind != "" && strings.ToLower(kind) != key.Value {
				p.note(key.Line, key.Value, "type: %s leaves it out there: delete one of the two", kind)
				continue
			}
			p.scope(value, key.Value == "local")
		default:
			p.note(key.Line, key.Value, "the key is not known here")
		}
	}
}

// target adds the route that a policy is for.
func (p *policy) target(ref *yaml.Node) {
	p.unknown(ref, "group", "kind", "name", "sectionName")
	kind, ok := p.text(ref, "kind")
	name, named := p.text(ref, "name")
	section, part := p.text(ref, "sectionName")
	if name == "" || !ok || !named || !part {
		p.note(ref.Line, "a target", "it has no name, and is not read")
		p.badTargets = true
		return
	}
	if section != "" {
		name += "/" + section
	}
	e := is("route", name)
	switch {
	case kind == "Gateway":
		e = is("gateway", name)
	case !strings.HasSuffix(kind, "Route"):
		p.note(ref.Line, "a target", "a target of kind '%s' is not carried over", short(kind))
		p.badTargets = true
		return
	}
	if slices.Contains(p.targets, e) {
		p.note(ref.Line, "a target", "another one has the name %s, and both count together here", short(name))
		return
	}
	p.targets = append(p.targets, e)
}

// scope reads the rules of a global or a local limit.
func (p *policy) scope(n *yaml.Node, local bool) {
	if isSet(n) && n.Kind != yaml.MappingNode {
		p.note(n.Line, "rateLimit", "a scope that is no mapping is not read")
	}
	shared, _ := p.boolean(n, "shared", false)
	for key := range pairs(n) {
		switch key.Value {
		case "rules":
			list, _ := p.list(n, key.Value)
			for _, r := range list {
				p.rule(r, local, shared)
			}
		case "shared":
		default:
			p.note(key.Line, key.Value, "the key is not known here")
		}
	}
}

// gatewayUnits are the units of Envoy Gateway.
var gatewayUnits = []string{"Second", "Minute", "Hour", "Day", "Month", "Year"}

// gatewayRule is what was read of a rule of a policy.
type gatewayRule struct {
	*policy
	node      *yaml.Node
	what      string // in notes
	local     bool
	shared    bool
	good      bool
	out       rule
	selectors []*yaml.Node
}

// rule reads a rule, and adds a descriptor for each of its targets and selectors.
func (p *policy) rule(n *yaml.Node, local, shared bool) {
	p.rules++
	r := &gatewayRule{
		policy: p, node: n, what: "a rule of " + p.name, local: local, shared: shared, good: true, selectors: []*yaml.Node{nil},
	}
	if local {
		r.out.keys = append(r.out.keys, setting{"consistency", "local"}, setting{"local_share", "whole"})
	}
	for key, value := range pairs(n) {
		r.field(key, value)
	}
	if !r.good || len(r.out.limits) == 0 {
		p.note(n.Line, r.what, "it has no limit")
		return
	}
	r.add()
}

// field reads one field of the rule.
func (r *gatewayRule) field(key, value *yaml.Node) {
	switch key.Value {
	case "name":
	case "clientSelectors":
		list, ok := r.list(r.node, key.Value)
		if r.good = r.good && ok; len(list) > 0 {
			r.selectors = list
		}
	case "limit":
		r.unknown(value, "requests", "unit")
		requests, ok := numberOf(field(value, "requests"))
		unit := textOf(field(value, "unit"))
		if !ok || !slices.Contains(gatewayUnits, unit) {
			r.note(key.Line, r.what, "its limit is no number of requests in a %s", strings.Join(gatewayUnits, ", "))
			r.good = false
		}
		r.out.limits = []oneLimit{{requests: requests, unit: strings.ToLower(unit), algorithm: "fixed_window", countDenied: !r.local}}
	case "cost":
		r.note(key.Line, r.what, "its cost is not carried over: write cost, or have Envoy send hits_addend")
	case "shared":
		r.shared, _ = r.boolean(r.node, key.Value, false)
	case "shadowMode":
		switch on, _ := r.boolean(r.node, key.Value, false); {
		case on && r.local:
			r.note(key.Line, key.Value, "there it is for global rules alone, and is not read")
		case on:
			r.out.keys = append(r.out.keys, setting{"shadow_mode", true})
		}
	default:
		r.note(key.Line, key.Value, "the key is not known here")
	}
}

// add adds the descriptors of the rule.
func (r *gatewayRule) add() {
	starts, line := r.targets, r.node.Line
	if r.badTargets && !r.shared {
		r.note(line, r.what, "its targets are not read")
		return
	}
	if r.shared || len(starts) == 0 {
		starts = []entry{is("policy", r.name)}
	}
	if len(starts)*len(r.selectors) > maxWays {
		r.note(line, r.what, "it has more than %d targets and selectors", maxWays)
		return
	}
	if len(r.selectors) > 1 {
		r.elsewhere(line, r.what, "each of its %d selectors counts by itself, as there", len(r.selectors))
	}
	for _, start := range starts {
		for _, selector := range r.selectors {
			r.way(start, selector)
		}
	}
}

// way adds the descriptor of one selector of the rule.
func (r *gatewayRule) way(start entry, selector *yaml.Node) {
	way := []entry{start}
	if selector != nil && selector.Kind != yaml.MappingNode {
		r.note(selector.Line, "clientSelectors", "one that is no mapping is not read")
		return
	}
	for key, value := range pairs(selector) {
		var more []entry
		ok := true
		switch key.Value {
		case "headers", "queryParams":
			var list []*yaml.Node
			list, ok = r.list(selector, key.Value)
			for _, item := range list {
				e, fits := r.matched(item, keyOf(textOf(field(item, "name"))), "Exact")
				more, ok = append(more, e), ok && fits
			}
		case "methods":
			more, ok = r.methods(selector)
		case "path":
			e, fits := r.matched(value, "path", "PathPrefix")
			more, ok = []entry{e}, fits
		case "sourceCIDR":
			e, fits := r.network(value)
			more, ok = []entry{e}, fits
		default:
			r.note(key.Line, key.Value, "what it selects by is not known here")
			ok = false
		}
		if !ok {
			return
		}
		way = append(way, more...)
	}
	if slices.ContainsFunc(way, func(e entry) bool { return e.match == rules.MatchValue && strings.Contains(e.value, "*") }) {
		r.note(r.node.Line, r.what, "a value with a '*' would be a pattern here")
		return
	}
	if r.tree.overlaps(way) {
		// An entry of its own keeps it apart from the rules that the request fits too.
		way = slices.Insert(way, 1, is("rule", fmt.Sprintf("%s/%d", r.name, r.rules)))
	}
	if !r.tree.limit(way, r.out) {
		at := r.tree.at(way)
		if r.owners[at] != r.policy {
			r.note(r.node.Line, r.what, "%s limits what has this name already: of routes in several namespaces import one at a time", r.owners[at].name)
			return
		}
		if !slices.EqualFunc(at.rule.keys, r.out.keys, func(a, b setting) bool { return a == b }) {
			r.note(r.node.Line, r.what, "another rule is for the same requests, and in another mode")
			return
		}
		at.rule.limits = append(at.rule.limits, r.out.limits...)
		return
	}
	if r.tree.rules <= maxRules {
		r.owners[r.tree.at(way)] = r.policy
	}
}

// matched is the entry for a header, a query parameter or a path, of a type where none is
// given.
func (p *policy) matched(n *yaml.Node, key, otherwise string) (entry, bool) {
	p.unknown(n, "name", "type", "value", "invert")
	kind, typed := p.text(n, "type")
	value, ok := p.text(n, "value")
	invert, read := p.boolean(n, "invert", false)
	kind = cmp.Or(kind, otherwise)
	switch {
	case !ok || !typed || !read:
	case key == "":
		p.note(n.Line, "a match", "it has no name")
	case kind != "Distinct" && value == "":
		p.note(n.Line, key, "it has no value")
	case kind == "Distinct" && value != "":
		p.note(n.Line, key, "it has a value, and its type is Distinct: delete one of the two")
	case invert:
		p.note(n.Line, key, "invert is not carried over: write the values that it is for")
	case kind == "Distinct":
		return each(key), true
	case kind == "Exact":
		return is(key, value), true
	case kind == "PathPrefix":
		return underPrefix(key, value), true
	case kind == "RegularExpression" && readsAsRE2(value):
		return like(key, value), true
	default:
		p.note(n.Line, key, "a match of type %s is not carried over", short(kind))
	}
	return entry{}, false
}

// methods is the entry for methods, any of which is meant.
func (p *policy) methods(selector *yaml.Node) ([]entry, bool) {
	var names []string
	list, ok := p.list(selector, "methods")
	for _, m := range list {
		p.unknown(m, "value", "invert")
		if invert, read := p.boolean(m, "invert", false); invert || !read {
			p.note(m.Line, "methods", "invert is not carried over: write the methods that it is for")
			return nil, false
		}
		name, fits := p.text(m, "value")
		switch {
		case m.Kind != yaml.MappingNode:
			p.note(m.Line, "methods", "one that is no mapping is not read: write {value: %s}", cmp.Or(short(textOf(m)), "GET"))
			return nil, false
		case fits && name == "":
			p.note(m.Line, "methods", "one has no value")
			return nil, false
		case !fits:
			return nil, false
		}
		names = append(names, name)
	}
	switch len(names) {
	case 0:
		return nil, ok
	case 1:
		return []entry{is("method", names[0])}, true
	}
	for i := range names {
		names[i] = regexp.QuoteMeta(names[i])
	}
	return []entry{like("method", strings.Join(names, "|"))}, true
}

// network is the entry for the address of a client.
func (p *policy) network(n *yaml.Node) (entry, bool) {
	text, _ := p.text(n, "value")
	network, err := netip.ParsePrefix(text)
	kind, typed := p.text(n, "type")
	kind = cmp.Or(kind, "Exact")
	p.unknown(n, "type", "value", "invert")
	invert, ok := p.boolean(n, "invert", false)
	switch {
	case !ok || !typed:
		return entry{}, false
	case kind != "Exact" && kind != "Distinct":
		p.note(n.Line, "sourceCIDR", "a match of type %s is not carried over", short(kind))
		return entry{}, false
	case invert:
		p.note(n.Line, "sourceCIDR", "invert is not carried over: write the networks that it is for")
		return entry{}, false
	case err != nil:
		p.note(n.Line, "sourceCIDR", "'%s' is no network", short(text))
		return entry{}, false
	}
	return entry{key: "remote_address", match: rules.MatchCIDR, value: network.Masked().String(), shared: kind == "Exact"}, true
}
