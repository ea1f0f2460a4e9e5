package importer

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
)

// nginxZone is a limit_req_zone or limit_conn_zone.
type nginxZone struct {
	line int
	way  []entry
	// requests in period are its rate; 0 of limit_conn_zone.
	requests int64
	period   time.Duration
	// used is where a directive counted in it first.
	used string
	// bad says that the zone could not be read, and was noted.
	bad bool
}

// nginxScope is where directives stand: http, server or location.
type nginxScope struct {
	// way is what a request has of the scope: its host and its route.
	way []entry
	// text names it, "" for the whole server.
	text string
	// outer are the names of limits that a limit of an inner scope takes the place of.
	outer []string
	// inFlight says that an outer scope limits connections.
	inFlight bool
	// dryReq and dryConn say that limits of requests, or of connections, are not enforced.
	dryReq, dryConn bool
}

// nginxReader reads one configuration of nginx.
type nginxReader struct {
	*reader
	req, conn map[string]*nginxZone
	// made are the lines of variables that map, geo and the like make.
	made map[string]int
	// hosts says that servers are told apart by their names.
	hosts bool
	// bare are the lines of servers without limits by their names.
	bare map[string]int
	// dumped says that the files which are included follow, as nginx -T prints them.
	dumped bool
}

// dumpMark begins each file in what nginx -T prints.
const dumpMark = "# configuration file "

// joinDump puts what the included files of nginx -T have into the block http, where nearly
// all of them are included. What may belong to a server is not told apart, and noted.
func (n *nginxReader) joinDump(list []*directive) []*directive {
	at := slices.IndexFunc(list, func(d *directive) bool { return d.name() == "http" && d.isBlock })
	if at < 0 {
		return list
	}
	for _, d := range list[at+1:] {
		switch d.name() {
		case "location", "limit_req", "limit_conn":
			if hasLimit([]*directive{d}) {
				n.note(d.line, d.text(), "which server includes its file is not known: write it there")
			}
		default:
			list[at].block = append(list[at].block, d)
		}
	}
	return list[:at+1]
}

func readNginx(r *reader) error {
	list, err := parseNginx(r.data)
	if err != nil {
		return err
	}
	n := &nginxReader{reader: r, req: map[string]*nginxZone{}, conn: map[string]*nginxZone{}, made: map[string]int{}, bare: map[string]int{}}
	if n.dumped = bytes.Contains(r.data, []byte(dumpMark)); n.dumped {
		list = n.joinDump(list)
	}
	n.zones(list)
	limited, others := n.servers(list)
	n.hosts = limited > 1 || limited == 1 && others > 0
	n.scope(list, nginxScope{})
	n.tree.order()
	return nil
}

// servers counts the servers in which a limit stands, and the others. Those that answer each
// request themselves, such as with a redirect, are none of the others.
func (n *nginxReader) servers(list []*directive) (limited, others int) {
	for _, d := range list {
		switch {
		case d.name() == "stream" || d.name() == "mail":
		case d.name() != "server":
			inner, more := n.servers(d.block)
			limited, others = limited+inner, others+more
		case d.isBlock && hasLimit(d.block):
			limited++
		case d.isBlock && !answers(d.block):
			others++
			for _, name := range serverNames(d) {
				n.bare[strings.ToLower(name)] = d.line
			}
		}
	}
	return limited, others
}

// answers reports whether a server answers each request itself.
func answers(list []*directive) bool {
	return slices.ContainsFunc(list, func(d *directive) bool {
		return d.name() == "return" || d.name() == "location" && len(d.words) == 2 && d.words[1] == "/" && answers(d.block)
	})
}

// serverNames are the names of a server.
func serverNames(d *directive) []string {
	var names []string
	for _, inner := range d.block {
		if inner.name() == "server_name" {
			names = append(names, inner.words[1:]...)
		}
	}
	return names
}

func hasLimit(list []*directive) bool {
	return slices.ContainsFunc(list, func(d *directive) bool {
		return d.name() == "limit_req" || d.name() == "limit_conn" || hasLimit(d.block)
	})
}

// scope reads the directives of a scope, and of those in it.
func (n *nginxReader) scope(list []*directive, s nginxScope) {
	n.dryRun(list, &s)
	own := n.limits(list, s)
	if len(own.names) > 0 {
		s.outer = append(slices.Clone(s.outer), own.names...)
	}
	s.inFlight = s.inFlight || own.inFlight
	for _, d := range list {
		switch {
		case luaPhase.MatchString(d.name()):
			n.noteLua(d)
		case !d.isBlock:
			n.other(d)
		case d.name() == "server":
			for _, inner := range n.server(d, s) {
				n.scope(d.block, inner)
			}
		case d.name() == "location":
			n.location(d, list, s)
		case d.name() == "stream" || d.name() == "mail":
			if hasLimit(d.block) {
				n.note(d.line, d.name(), "limits of connections of other protocols are not carried over")
			}
		case d.name() == "if" && hasLimit(d.block):
			n.note(d.line, d.text(), "limits under a condition are not carried over")
		default:
			n.scope(d.block, s)
		}
	}
}

// dryRun reads which limits a scope does not enforce. That of an outer scope keeps its mode
// here, because it is one rule for all scopes that have no limit of their own.
func (n *nginxReader) dryRun(list []*directive, s *nginxScope) {
	for _, d := range list {
		mode, own, outer := &s.dryReq, "limit_req", len(s.outer) > 0
		switch d.name() {
		case "limit_req_dry_run":
		case "limit_conn_dry_run":
			mode, own, outer = &s.dryConn, "limit_conn", s.inFlight
		default:
			continue
		}
		on := len(d.words) == 2 && strings.EqualFold(d.words[1], "on")
		switch {
		case !on && !(len(d.words) == 2 && strings.EqualFold(d.words[1], "off")):
			n.note(d.line, d.text(), "it is neither on nor off, and is not read")
		case on != *mode:
			*mode = on
			if outer && !slices.ContainsFunc(list, func(d *directive) bool { return d.name() == own }) {
				n.note(d.line, d.text(), "a limit of the scope around it keeps its mode here: write %s into this scope", own)
			}
		}
	}
}

// lua notes functions in a location without limits, which is not read otherwise.
func (n *nginxReader) lua(list []*directive) {
	for _, d := range list {
		if luaPhase.MatchString(d.name()) {
			n.noteLua(d)
			continue
		}
		n.lua(d.block)
	}
}

func (n *nginxReader) noteLua(d *directive) {
	n.note(d.line, d.name(), "whether a function of Lua limits is not read")
}

// luaPhase matches directives whose functions may deny a request.
var luaPhase = regexp.MustCompile(`^(?:server_rewrite|rewrite|access)_by_lua`)

// server returns the scopes of a server: one for each of its names where names matter.
func (n *nginxReader) server(d *directive, s nginxScope) []nginxScope {
	if !n.hosts || !hasLimit(d.block) {
		return []nginxScope{s}
	}
	names := serverNames(d)
	var scopes []nginxScope
	for _, name := range names {
		if name == "" || name == "_" || strings.HasPrefix(name, "~") || strings.Contains(name, "*") {
			n.note(d.line, "server_name "+name, "the name is a pattern, and other servers have other limits or none: import the server by itself")
			continue
		}
		if line := n.bare[strings.ToLower(name)]; line > 0 {
			n.note(d.line, "server_name "+name, "the server on line %d has this name too, and none of the limits there", line)
		}
		inner := s
		inner.way, inner.text = []entry{is("host", strings.ToLower(name))}, name
		scopes = append(scopes, inner)
	}
	if len(names) == 0 {
		n.note(d.line, d.text(), "the server has no name, and other servers have other limits or none: import it by itself")
	}
	if len(scopes) > 1 {
		n.note(d.line, d.text(), "its %d names count together there, and each apart here", len(scopes))
	}
	return scopes
}

// location reads a location: its own limits, or that it has none where others would count.
func (n *nginxReader) location(d *directive, siblings []*directive, s nginxScope) {
	e, ok := locationEntry(d)
	limited := hasLimit(d.block)
	if !limited {
		n.lua(d.block)
		without := s
		n.dryRun(d.block, &without)
	}
	if !ok {
		if limited {
			n.note(d.line, d.text(), "a location of this kind is not carried over")
		}
		return
	}
	host := s.way
	if len(host) > 0 && host[len(host)-1].key == "route" {
		host = host[:len(host)-1]
	}
	inner := s
	inner.way = append(slices.Clone(host), e)
	inner.text = strings.TrimSpace(strings.Join(d.words[1:], " "))
	if len(host) > 0 {
		inner.text = host[0].value + " " + inner.text
	}
	if d.words[1] == "^~" && anyRegex(siblings) {
		n.note(d.line, d.text(), "expressions are tried before it here")
	}
	if !limited {
		n.exempt(d, siblings, e, host)
		return
	}
	n.scope(d.block, inner)
}

// anyRegex reports whether a location is for an expression.
func anyRegex(list []*directive) bool {
	return slices.ContainsFunc(list, func(d *directive) bool {
		return d.name() == "location" && len(d.words) > 1 && strings.HasPrefix(d.words[1], "~")
	})
}

// locationEntry is the entry for the path of a location.
func locationEntry(d *directive) (entry, bool) {
	switch words := d.words[1:]; {
	case len(words) == 1 && strings.HasPrefix(words[0], "/"):
		return underPrefix("route", words[0]), true
	case len(words) != 2:
		return entry{}, false
	case words[0] == "=":
		return is("route", words[1]), !strings.Contains(words[1], "*")
	case words[0] == "^~":
		return underPrefix("route", words[1]), true
	case words[0] == "~":
		return like("route", "(?s).*(?:"+words[1]+").*"), readsAsRE2(words[1])
	case words[0] == "~*":
		return like("route", "(?si).*(?:"+words[1]+").*"), readsAsRE2(words[1])
	}
	return entry{}, false
}

// exempt lets a location without limits of its own pass where a sibling with limits would
// take it for its own: nginx gives it those of the server alone.
func (n *nginxReader) exempt(d *directive, siblings []*directive, e entry, host []entry) {
	for _, sibling := range siblings {
		if sibling == d || sibling.name() != "location" || !hasLimit(sibling.block) {
			continue
		}
		other, ok := locationEntry(sibling)
		if ok && e.match == rules.MatchRegex {
			n.note(d.line, d.text(), "requests that it takes have the limits of other locations here, such as that on line %d", sibling.line)
			return
		}
		if !ok || other.match != rules.MatchPrefix || !strings.HasPrefix(e.value, other.value) {
			continue
		}
		for _, inner := range sibling.block {
			z := n.zoneOf(inner)
			if z == nil || z.bad {
				continue
			}
			way := append(append(slices.Clone(host), e), z.way...)
			n.tree.limit(way, rule{limits: []oneLimit{{unlimited: true}}})
		}
	}
}

// zoneOf is the zone that a limit_req or limit_conn counts in, nil for none.
func (n *nginxReader) zoneOf(d *directive) *nginxZone {
	switch {
	case d.name() == "limit_conn" && len(d.words) == 3:
		return n.conn[d.words[1]]
	case d.name() == "limit_req":
		for _, word := range d.words[1:] {
			if name, ok := strings.CutPrefix(word, "zone="); ok {
				return n.req[name]
			}
		}
	}
	return nil
}

// other notes directives that are about limits and are not carried over.
func (n *nginxReader) other(d *directive) {
	switch d.name() {
	case "limit_req_status", "limit_conn_status":
		if len(d.words) == 2 && d.words[1] == "429" {
			return
		}
		n.elsewhere(d.line, d.text(), "the front answers denials: 429, or what a gateway makes of it")
	case "limit_req_log_level", "limit_conn_log_level":
		n.elsewhere(d.line, d.text(), "denials are counted in the metrics")
	case "limit_rate", "limit_rate_after":
		n.note(d.line, d.text(), "it limits bytes of an answer in a second, and Headgate decides on requests")
	case "limit_req_zone", "limit_conn_zone", "limit_req", "limit_conn", "limit_req_dry_run", "limit_conn_dry_run":
	case "server":
		if slices.ContainsFunc(d.words, func(word string) bool { return strings.HasPrefix(word, "max_conns=") }) {
			n.elsewhere(d.line, d.text(), "it bounds connections to one server, and stays there")
		}
	case "limit_zone":
		n.note(d.line, d.text(), "nginx has it no more: write limit_conn_zone")
	case "include":
		if !n.dumped && !knownInclude(d) {
			n.note(d.line, d.text(), "no other file is read: import what nginx -T prints")
		}
	default:
		if strings.HasPrefix(d.name(), "limit_") {
			n.note(d.line, d.text(), "the directive is not known here")
		}
	}
}

// knownInclude reports whether a file comes with nginx and has no limits.
func knownInclude(d *directive) bool {
	name := d.words[len(d.words)-1]
	name = name[strings.LastIndexByte(name, '/')+1:]
	return slices.Contains([]string{"mime.types", "fastcgi_params", "fastcgi.conf", "proxy_params", "scgi_params", "uwsgi_params"}, name)
}
