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
}

// rank orders plugins as Kong does: of those that a request meets only the highest acts.
func (p *kongPlugin) rank() int {
	rank := 0
	if p.service != "" {
		rank++
	}
	if p.route != "" {
		rank += 2
	}
	if p.consumer != "" {
		rank += 3
		if p.route != "" {
			rank++
		}
	}
	return rank
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
}

func readKong(r *reader) error {
	documents, err := r.documents()
	if err != nil {
		return err
	}
	k := &kongReader{reader: r}
	for _, root := range documents {
		version := field(root, "_format_version")
		if version == nil {
			return yamlfile.At(root, "_format_version is missing; hint: write the configuration with deck gateway dump")
		}
		if v := textOf(version); v != "3" && !strings.HasPrefix(v, "3.") {
			return yamlfile.At(version, "_format_version %q is not read; hint: deck file convert makes it 3.0", short(v))
		}
		k.scope(root, kongPlugin{})
	}
	if len(k.plugins) > maxKongPlugins {
		return fmt.Errorf("more than %d plugins that limit; hint: split it", maxKongPlugins)
	}
	for _, p := range k.plugins {
		k.write(p)
	}
	return nil
}

// scope reads the plugins of a service, a route, a consumer or the whole file, and of what
// stands in it.
func (k *kongReader) scope(n *yaml.Node, in kongPlugin) {
	for _, plugin := range items(field(n, "plugins")) {
		k.plugin(plugin, in)
	}
	for _, service := range items(field(n, "services")) {
		inner := in
		inner.service = kongName(service)
		k.scope(service, inner)
	}
	for _, route := range items(field(n, "routes")) {
		inner := in
		inner.service, inner.within, inner.route = "", in.service, kongName(route)
		k.scope(route, inner)
	}
	for _, consumer := range items(field(n, "consumers")) {
		inner := in
		inner.consumer = cmp.Or(textOf(field(consumer, "username")), kongName(consumer))
		k.scope(consumer, inner)
	}
	for _, group := range items(field(n, "consumer_groups")) {
		for _, plugin := range items(field(group, "plugins")) {
			k.note(plugin.Line, textOf(field(plugin, "name")), "plugins of consumer groups are not carried over: give their members a tier")
		}
	}
}

// kongName is what an entity is called: its name, else its id.
func kongName(n *yaml.Node) string {
	return cmp.Or(textOf(field(n, "name")), textOf(field(n, "id")), fmt.Sprintf("line-%d", n.Line))
}

// reference is the entity that a plugin names: a name, or a mapping with one.
func reference(n *yaml.Node) string {
	return cmp.Or(textOf(n), textOf(field(n, "name")), textOf(field(n, "username")), textOf(field(n, "id")))
}

func (k *kongReader) plugin(n *yaml.Node, p kongPlugin) {
	name := textOf(field(n, "name"))
	switch {
	case name == "rate-limiting":
	case strings.HasPrefix(name, "rate-limiting") || strings.HasSuffix(name, "-ratelimiting") || strings.HasPrefix(name, "ai-rate-limiting") || name == "request-size-limiting" || name == "service-protection":
		k.note(n.Line, name, "only the plugin rate-limiting is read")
		return
	default:
		return
	}
	if textOf(field(n, "enabled")) == "false" {
		k.note(n.Line, name, "the plugin is not enabled")
		return
	}
	p.line = n.Line
	p.service = cmp.Or(reference(field(n, "service")), p.service)
	p.route = cmp.Or(reference(field(n, "route")), p.route)
	p.consumer = cmp.Or(reference(field(n, "consumer")), p.consumer)
	if isSet(field(n, "consumer_group")) {
		k.note(n.Line, name, "plugins of consumer groups are not carried over: give their members a tier")
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

// subject reads what a plugin counts on.
func (k *kongReader) subject(p *kongPlugin, config *yaml.Node) bool {
	by := field(config, "limit_by")
	p.byAddress = true
	switch word := cmp.Or(textOf(by), "consumer"); word {
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
			requests, ok := count(strings.TrimSuffix(text, ".0"))
			if !ok {
				k.note(key.Line, what, "it is no whole number of requests")
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
			if text == "false" {
				p.keys = append(p.keys, setting{"failure_mode", "closed"})
			}
		case "hide_client_headers":
			if text == "true" {
				answer["headers"], answer["x_ratelimit"] = "off", "off"
			}
		case "error_code":
			if text != "429" {
				k.elsewhere(key.Line, what, "the way in answers denials: 429, or what a gateway makes of it")
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

// write adds the rules of a plugin. They take the place of those of all plugins that Kong
// passes over for it.
func (k *kongReader) write(p *kongPlugin) {
	var replaces []string
	for _, other := range k.plugins {
		if other.rank() < p.rank() && p.meets(other) {
			for _, l := range other.limits {
				replaces = append(replaces, l.name)
			}
		}
	}
	slices.Sort(replaces)
	limits := slices.Clone(p.limits)
	limits[0].replaces = replaces
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
		if len(way) == 0 || !k.tree.limit(way, rule{limits: limits, keys: p.keys}) {
			k.note(p.line, "rate-limiting", "another plugin limits the same requests")
			return
		}
	}
}
