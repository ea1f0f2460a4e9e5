package importer

import (
	"fmt"
	"strings"
	"time"
)

// zones reads what directives refer to by name, wherever it stands.
func (n *nginxReader) zones(list []*directive) {
	for _, d := range list {
		switch d.name() {
		case "limit_req_zone":
			n.zone(d, n.req)
		case "limit_conn_zone":
			n.zone(d, n.conn)
		case "map", "geo", "split_clients", "set":
			for _, word := range d.words[1:] {
				if strings.HasPrefix(word, "$") {
					n.made[strings.Trim(word, "${}")] = d.line
				}
			}
		}
		n.zones(d.block)
	}
}

// zone reads a zone: limit_req_zone KEY zone=NAME:SIZE rate=RATE, or without a rate.
func (n *nginxReader) zone(d *directive, zones map[string]*nginxZone) {
	z := &nginxZone{line: d.line}
	name := ""
	for _, word := range d.words[1:] {
		option, value, _ := strings.Cut(word, "=")
		switch option {
		case "zone":
			name, _, _ = strings.Cut(value, ":")
		case "rate":
			if !z.setRate(value) {
				n.note(d.line, d.text(), "the rate '%s' is not read: it is a number of r/s or r/m", short(value))
				z.bad = true
			}
		case "sync":
			n.elsewhere(d.line, d.text(), "all nodes count together in the store")
		default:
			z.way = append(z.way, n.keys(d, word, z)...)
		}
	}
	switch {
	case z.bad:
	case d.name() == "limit_req_zone" && z.requests == 0:
		n.note(d.line, d.text(), "the zone has no rate")
		z.bad = true
	case len(z.way) == 0:
		n.note(d.line, d.text(), "the zone has no key")
		z.bad = true
	}
	if other, twice := zones[name]; twice {
		n.note(d.line, d.text(), "a zone of this name is on line %d already, and counts", other.line)
		return
	}
	if name != "" {
		zones[name] = z
	}
}

func (z *nginxZone) setRate(text string) bool {
	number, unit, _ := strings.Cut(text, "r/")
	requests, ok := count(number)
	switch unit {
	case "s":
		z.period = time.Second
	case "m":
		z.period = time.Minute
	default:
		return false
	}
	z.requests = requests
	return ok && requests > 0
}

// keys are the entries for the variables of a key.
func (n *nginxReader) keys(d *directive, text string, z *nginxZone) []entry {
	var way []entry
	for _, name := range strings.Split(text, "$")[1:] {
		name = strings.Trim(name, "{}:-_.|/")
		e, ok := nginxEntry(name)
		if !ok {
			why := "nothing that Headgate is told of a request is like it"
			if line := n.made[name]; line > 0 {
				why = fmt.Sprintf("it is made on line %d: have whoever asks Headgate send an entry for it", line)
			}
			n.note(d.line, d.text(), "$%s is no key here: %s", short(name), why)
			z.bad = true
			return nil
		}
		way = append(way, e)
	}
	if len(way) == 0 {
		n.note(d.line, d.text(), "the key '%s' has no variable", short(text))
		z.bad = true
	}
	return way
}

// nginxEntry is the entry for a variable.
func nginxEntry(name string) (entry, bool) {
	switch name {
	case "binary_remote_addr", "remote_addr", "realip_remote_addr", "proxy_add_x_forwarded_for":
		return each("remote_address"), name != "proxy_add_x_forwarded_for"
	case "host", "http_host", "server_name":
		return each("host"), true
	case "request_method":
		return each("method"), true
	case "remote_user":
		return each("user"), true
	}
	for _, prefix := range []string{"http_", "cookie_", "arg_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			return each(keyOf(rest)), true
		}
	}
	return entry{}, false
}
