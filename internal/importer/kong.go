package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/rules"
)

// maxKongPlugins bounds the plugins of a file, because each is compared with all others.
const maxKongPlugins = 1000

// kongPlugin is one rate-limiting plugin, with what it is for: "" is everything.
type kongPlugin struct {
	line                     int
	service, route, consumer string
	// within is the service of a route that stands in one.
	within    string
	subject   []entry // what it counts on
	byAddress bool    // what has no subject counts on the address
	limits    []oneLimit
	keys      []setting
	written   bool
}

// ranks are the places of plugins by what they are for: 1 for a service, 2 for a route and 4
// for a consumer, added up. Of a route and a service together Kong thinks more than of a
// consumer alone.
var ranks = [...]int{0: 0, 1: 1, 2: 2, 4: 3, 3: 4, 5: 5, 6: 6, 7: 7}

// rank orders plugins as Kong does: of those that a request meets only the highest acts.
func (p *kongPlugin) rank() int {
	is := 0
	if p.service != "" {
		is++
	}
	if p.route != "" {
		is += 2
	}
	if p.consumer != "" {
		is += 4
	}
	return ranks[is]
}

// meets reports whether one request can be for both.
func (p *kongPlugin) meets(other *kongPlugin) bool {
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return same(cmp.Or(p.service, p.within), cmp.Or(other.service, other.within)) && same(p.route, other.route) && same(p.consumer, other.consumer)
}

// kongReader reads one declarative configuration.
type kongReader struct {
	*reader
	plugins []*kongPlugin
	// names are what entities are called, by their kind and id: a plugin may name either.
	names map[kongRef]string
	// off are the entities that are not enabled.
	off map[kongRef]bool
	// seen are the plugins that were read or noted.
	seen map[*yaml.Node]bool
}

// kongRef is an entity: the list that it stands in, and its id or name.
type kongRef struct{ kind, name string }

// kongKinds are the entities that a plugin can be for, and that may stand in one another.
var kongKinds = []string{"services", "routes", "consumers"}

func readKong(r *reader) error {
	documents, err := r.documents()
	if err != nil {
		return err
	}
	k := &kongReader{reader: r, names: map[kongRef]string{}, off: map[kongRef]bool{}, seen: map[*yaml.Node]bool{}}
	for _, root := range documents {
		version := field(root, "_format_version")
		if version == nil {
			return yamlfile.At(root, "_format_version is missing; hint: write the configuration with deck gateway dump")
		}
		if v := textOf(version); v != "3" && !strings.HasPrefix(v, "3.") {
			return yamlfile.At(version, "_format_version %q is not read; hint: deck file convert makes it 3.0", short(v))
		}
		k.learn(root)
	}
	for _, root := range documents {
		k.scope(root, kongPlugin{})
		k.elsewherePlugins(root)
	}
	if len(k.plugins) > maxKongPlugins {
		return fmt.Errorf("more than %d plugins that limit; hint: split it", maxKongPlugins)
	}
	for _, p := range k.plugins {
		k.write(p)
	}
	for _, p := range k.plugins {
		k.replace(p)
	}
	return nil
}

// learn reads what entities are called, and which of them are not enabled.
func (k *kongReader) learn(n *yaml.Node) {
	for _, kind := range kongKinds {
		for _, entity := range items(field(n, kind)) {
			name := kongName(entity)
			k.names[kongRef{kind, textOf(field(entity, "id"))}] = name
			if on, _ := k.boolean(entity, "enabled", true); !on {
				k.off[kongRef{kind, name}] = true
			}
			k.learn(entity)
		}
	}
}

// scope reads the plugins of a service, a route, a consumer or the whole file, and of what
// stands in it.
func (k *kongReader) scope(n *yaml.Node, in kongPlugin) {
	plugins, _ := k.list(n, "plugins")
	for _, plugin := range plugins {
		k.plugin(plugin, in)
	}
	for _, kind := range kongKinds {
		entities, _ := k.list(n, kind)
		for _, entity := range entities {
			inner, name := in, kongName(entity)
			switch kind {
			case "services":
				inner.service = name
			case "routes":
				inner.service, inner.within, inner.route = "", in.service, name
				if !k.reference(entity, "services", &inner.within) {
					k.note(entity.Line, kind, "the service of the route is not read: a name, or a mapping with one")
				}
			case "consumers":
				inner.consumer = name
			}
			if isSet(field(entity, "plugins")) && name == lineName(entity) {
				k.note(entity.Line, kind, "one without a name: give it a name, or have requests carry %q for it", name)
			}
			k.scope(entity, inner)
		}
	}
	groups, _ := k.list(n, "consumer_groups")
	for _, group := range groups {
		plugins, _ := k.list(group, "plugins")
		for _, plugin := range plugins {
			k.seen[plugin] = true
			k.note(plugin.Line, textOf(field(plugin, "name")), "plugins of consumer groups are not carried over: give their members a tier")
		}
	}
}

// elsewherePlugins notes the plugins that stand where none was read.
func (k *kongReader) elsewherePlugins(n *yaml.Node) {
	name := textOf(field(n, "name"))
	if !k.seen[n] && kongLimits(name) && isSet(field(n, "config")) {
		k.note(n.Line, name, "a plugin in this place is not read")
	}
	for _, inner := range n.Content {
		k.elsewherePlugins(inner)
	}
}

// kongName is what an entity is called: its name, else its id.
func kongName(n *yaml.Node) string {
	return cmp.Or(calledIn(n), lineName(n))
}

// calledIn is the name in a mapping, "" for none.
func calledIn(n *yaml.Node) string {
	return cmp.Or(textOf(field(n, "name")), textOf(field(n, "username")), textOf(field(n, "custom_id")), textOf(field(n, "id")))
}

// lineName is what an entity without a name is called.
func lineName(n *yaml.Node) string { return fmt.Sprintf("line-%d", n.Line) }

// reference sets name to what an entity is called that a plugin names, if it names one of
// that kind: by a text, or by a mapping. It reports false for what it cannot read.
func (k *kongReader) reference(n *yaml.Node, kind string, name *string) bool {
	value := field(n, strings.TrimSuffix(kind, "s"))
	if !isSet(value) {
		return true
	}
	*name = cmp.Or(textOf(value), calledIn(value))
	*name = cmp.Or(k.names[kongRef{kind, *name}], *name)
	return *name != ""
}

// plugin reads one plugin, or notes why not.
func (k *kongReader) plugin(n *yaml.Node, p kongPlugin) {
	k.seen[n] = true
	name := textOf(field(n, "name"))
	if slices.Contains(kongOthers, name) {
		return
	}
	on, _ := k.boolean(n, "enabled", true)
	switch {
	case name == "":
		k.note(n.Line, "plugins", "one without a name is not read")
		return
	case !on:
		k.note(n.Line, name, "the plugin is not enabled")
		return
	case name != "rate-limiting" && kongLimits(name):
		k.note(n.Line, name, "only the plugin rate-limiting is read")
		return
	case name != "rate-limiting":
		k.note(n.Line, name, "the plugin is not known here: if it limits, write its limits yourself")
		return
	}
	p.line = n.Line
	if !k.place(n, &p) || !k.when(n) {
		return
	}
	config := field(n, "config")
	if !k.subject(&p, config) {
		return
	}
	k.config(&p, config)
	if len(p.limits) == 0 {
		k.note(n.Line, name, "the plugin has no limit")
		return
	}
	k.plugins = append(k.plugins, &p)
}

// place reads what a plugin is for, and reports false where no request is for it.
func (k *kongReader) place(n *yaml.Node, p *kongPlugin) bool {
	const name = "rate-limiting"
	if isSet(field(n, "consumer_group")) {
		k.note(n.Line, name, "plugins of consumer groups are not carried over: give their members a tier")
		return false
	}
	if !k.reference(n, "services", &p.service) || !k.reference(n, "routes", &p.route) || !k.reference(n, "consumers", &p.consumer) {
		k.note(n.Line, name, "what it is for is not read: a name, or a mapping with one")
		return false
	}
	for _, ref := range []kongRef{{"services", p.service}, {"services", p.within}, {"routes", p.route}, {"consumers", p.consumer}} {
		if k.off[ref] {
			k.note(n.Line, name, "%s of %s is not enabled", short(ref.name), ref.kind)
			return false
		}
	}
	return true
}

// when reads the keys of a plugin that say when it acts, and reports false where that is
// under a condition: the limit would be one for all requests here.
func (k *kongReader) when(n *yaml.Node) bool {
	for key, value := range pairs(n) {
		if !isSet(value) {
			continue
		}
		switch key.Value {
		case "name", "enabled", "service", "route", "consumer", "consumer_group", "config", "tags", "id", "instance_name", "created_at", "updated_at":
		case "condition":
			k.note(key.Line, "rate-limiting", "it acts under a condition there, and is not carried over")
			return false
		case "protocols":
			if !allProtocols(value) {
				k.note(key.Line, "protocols", "it is for these alone there, and for all here")
			}
		case "ordering":
			k.note(key.Line, "ordering", "it has its turn among other plugins there; here it is asked where requests come in")
		case "_config":
			k.note(key.Line, "_config", "shared configurations are not merged: write it out")
		default:
			k.note(key.Line, key.Value, "the key is not known here")
		}
	}
	return true
}

// allProtocols reports whether a list has the protocols that a plugin is for by default.
func allProtocols(n *yaml.Node) bool {
	for _, want := range []string{"grpc", "grpcs", "http", "https"} {
		if !slices.ContainsFunc(items(n), func(e *yaml.Node) bool { return textOf(e) == want }) {
			return false
		}
	}
	return true
}

// subject reads what a plugin counts on.
func (k *kongReader) subject(p *kongPlugin, config *yaml.Node) bool {
	by := field(config, "limit_by")
	p.byAddress = true
	word := textOf(by)
	if !isSet(by) {
		word = "consumer"
	}
	switch word {
	case "consumer":
		p.subject = []entry{each("consumer")}
		if p.consumer != "" {
			p.subject, p.byAddress = nil, false // its own scope names the consumer
		}
	case "credential":
		p.subject = []entry{each("api_key")}
	case "ip":
		p.subject, p.byAddress = []entry{each("remote_address")}, false
	case "service":
		p.subject, p.byAddress = []entry{each("service")}, false
		if p.service != "" {
			p.subject = nil
		}
	case "header":
		header := textOf(field(config, "header_name"))
		if header == "" {
			k.note(by.Line, "limit_by: header", "header_name is missing")
			return false
		}
		p.subject = []entry{each(keyOf(header))}
	case "path":
		path := textOf(field(config, "path"))
		if path == "" || strings.Contains(path, "*") {
			k.note(by.Line, "limit_by: path", "the path is missing, or has a '*'")
			return false
		}
		p.subject = []entry{is("path", path)}
	default:
		k.note(by.Line, "limit_by: "+word, "what it counts on is not known here")
		return false
	}
	return true
}

// kongUnits are the windows of the plugin: fixed ones, of the calendar in UTC.
var kongUnits = map[string]oneLimit{
	"second": {unit: "second"}, "minute": {unit: "minute"}, "hour": {unit: "hour"},
	"day": {unit: "day"}, "month": {unit: "month", zone: "UTC"}, "year": {unit: "year", zone: "UTC"},
}

// config reads the limits of a plugin, and what else it says.
func (k *kongReader) config(p *kongPlugin, config *yaml.Node) {
	answer := map[string]string{}
	for key, value := range pairs(config) {
		if !isSet(value) {
			continue
		}
		text := textOf(value)
		what := key.Value + ": " + text
		if unit, ok := kongUnits[key.Value]; ok {
			number := *value
			number.Value = strings.TrimSuffix(text, ".0")
			requests, ok := numberOf(&number)
			if !ok || requests == 0 {
				k.note(key.Line, what, "it is no whole number of requests above 0")
				continue
			}
			unit.requests, unit.algorithm = requests, "fixed_window"
			unit.name = k.tree.name(p.service, p.route, p.consumer, "per", key.Value)
			p.limits = append(p.limits, unit)
			continue
		}
		switch key.Value {
		case "limit_by", "header_name", "path":
		case "fault_tolerant":
			if on, _ := k.boolean(config, key.Value, true); !on {
				p.keys = append(p.keys, setting{"failure_mode", "closed"})
			}
		case "hide_client_headers":
			if on, _ := k.boolean(config, key.Value, false); on {
				answer["headers"], answer["x_ratelimit"] = "off", "off"
			}
		case "error_code":
			if text != "429" {
				k.elsewhere(key.Line, what, "the front answers denials: 429, or what a gateway makes of it")
			}
		case "error_message":
			k.elsewhere(key.Line, what, "answer.message of rules is the sentence in the body")
		case "sync_rate":
			if text != "-1" {
				k.note(key.Line, what, "counts are exact here: write consistency: synced to exchange them now and then")
			}
		case "policy", "redis", "redis_host", "redis_port", "redis_username", "redis_password", "redis_ssl", "redis_ssl_verify", "redis_server_name", "redis_timeout", "redis_database":
			k.elsewhere(key.Line, key.Value, "where counters are is said by --store")
		default:
			k.note(key.Line, key.Value, "the key is not known here")
		}
	}
	if len(answer) > 0 {
		p.keys = append(p.keys, setting{"answer", answer})
	}
}

// write adds the rules of a plugin.
func (k *kongReader) write(p *kongPlugin) {
	var scope []entry
	for _, e := range []entry{is("service", p.service), is("route", p.route), is("consumer", p.consumer)} {
		if e.value != "" {
			scope = append(scope, e)
		}
	}
	if slices.ContainsFunc(scope, func(e entry) bool { return e.match == rules.MatchValue && strings.Contains(e.value, "*") }) {
		k.note(p.line, "rate-limiting", "a name with a '*' would be a pattern here")
		return
	}
	subjects := [][]entry{p.subject}
	if p.byAddress {
		subjects = append(subjects, []entry{each("remote_address")})
	}
	for _, subject := range subjects {
		way := append(slices.Clone(scope), subject...)
		if len(way) == 0 || !k.tree.limit(way, rule{limits: p.limits, keys: p.keys}) {
			k.note(p.line, "rate-limiting", "another plugin limits the same requests")
			return
		}
		p.written = true
	}
}

// replace has the limits of a plugin that was written take the place of those of all written
// plugins that Kong passes over for it.
func (k *kongReader) replace(p *kongPlugin) {
	if !p.written {
		return
	}
	var names []string
	for _, other := range k.plugins {
		if other.written && other.rank() < p.rank() && p.meets(other) {
			for _, l := range other.limits {
				names = append(names, l.name)
			}
		}
	}
	slices.Sort(names)
	p.limits[0].replaces = names // the rules of the tree have the same list of limits
}
