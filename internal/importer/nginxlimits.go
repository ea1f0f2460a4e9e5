package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ownLimits are the limits of one scope.
type ownLimits struct {
	names    []string
	inFlight bool
}

// nginxPlace is where limits of one scope stand that count on one key, in one mode.
type nginxPlace struct {
	way  []entry
	line int
	// dry says that they are not enforced.
	dry bool
	rule
}

// limits writes the limits of a scope, those on one key into one descriptor.
func (n *nginxReader) limits(list []*directive, s nginxScope) ownLimits {
	var places []*nginxPlace
	at := func(z *nginxZone, line int, dry bool) *nginxPlace {
		way := append(slices.Clone(s.way), z.way...)
		for _, p := range places {
			if p.dry == dry && slices.Equal(p.way, way) {
				return p
			}
		}
		p := &nginxPlace{way: way, line: line, dry: dry}
		if dry {
			p.keys = append(p.keys, setting{"shadow_mode", true})
		}
		places = append(places, p)
		return p
	}
	for _, d := range list {
		if d.name() != "limit_req" && d.name() != "limit_conn" {
			continue
		}
		z := n.zoneOf(d)
		switch {
		case z == nil:
			n.note(d.line, d.text(), "its zone is not in this file")
			continue
		case z.bad:
			n.note(d.line, d.text(), "its zone on line %d is not carried over", z.line)
			continue
		}
		if z.used == "" {
			z.used = fmt.Sprintf("line %d", d.line)
		} else if z.used != fmt.Sprintf("line %d", d.line) {
			n.note(d.line, d.text(), "it counts together with that on %s there, and apart here", z.used)
		}
		if d.name() == "limit_conn" {
			if slots, ok := n.slots(d, s); ok {
				p := at(z, d.line, s.dryConn)
				if p.concurrency == 0 || slots < p.concurrency {
					p.concurrency = slots
				}
			}
			continue
		}
		if l, ok := n.limit(d, z, s); ok {
			p := at(z, d.line, s.dryReq)
			p.limits = append(p.limits, l)
		}
	}
	return n.put(places)
}

// put writes the limits of a scope. A descriptor has one mode: of limits of both modes on
// one key those are written that are enforced.
func (n *nginxReader) put(places []*nginxPlace) ownLimits {
	var own ownLimits
	for _, p := range places {
		enforced := func(other *nginxPlace) bool { return !other.dry && slices.Equal(other.way, p.way) }
		switch {
		case p.dry && slices.ContainsFunc(places, enforced):
			n.note(p.line, "limit", "it is in dry run, and a limit on the same key is not: a descriptor is in shadow mode as a whole")
			continue
		case !n.tree.limit(p.way, p.rule):
			n.note(p.line, "limit", "another scope limits the same requests: import them one by one")
			continue
		}
		own.inFlight = own.inFlight || p.concurrency > 0
		for _, l := range p.limits {
			own.names = append(own.names, l.name)
		}
	}
	return own
}

// limit is what a limit_req allows. nginx lets one request more than the burst pass from
// idle: the one that the rate itself allows.
func (n *nginxReader) limit(d *directive, z *nginxZone, s nginxScope) (oneLimit, bool) {
	l := oneLimit{requests: z.requests, algorithm: "leaky_bucket", replaces: slices.Clone(s.outer)}.per(z.period)
	burst, wait := int64(0), true
	given := map[string]bool{}
	for _, word := range d.words[1:] {
		option, value, _ := strings.Cut(word, "=")
		if given[option] {
			n.note(d.line, d.text(), "'%s' stands in it twice", short(option))
			return l, false
		}
		given[option] = true
		switch option {
		case "zone":
			l.name = n.tree.name(value, s.text)
		case "burst":
			var ok bool
			if burst, ok = count(value); !ok || burst > maxNginxBurst {
				n.note(d.line, d.text(), "the burst is not a number up to %d", maxNginxBurst)
				return l, false
			}
		case "nodelay":
			wait = false
		case "delay":
			wait = false
			n.note(d.line, d.text(), "requests beyond '%s' wait there; here all that fit into the burst pass at once", short(word))
		default:
			n.note(d.line, d.text(), "'%s' is not read", short(word))
		}
	}
	switch {
	case burst == 0:
	case wait:
		l.algorithm, l.maxQueue = "leaky_queue", burst
		l.maxDelay = length(time.Duration((burst*int64(z.period/time.Microsecond)+z.requests-1)/z.requests) * time.Microsecond)
		n.elsewhere(d.line, d.text(), "leaky_queue has requests wait in headgate proxy and in the middleware; gateways ask and do not wait: give those token_bucket with burst %d", burst+1)
	default:
		l.algorithm, l.burst = "token_bucket", burst+1
	}
	return l, true
}

// maxNginxBurst bounds a burst, so that no arithmetic overflows.
const maxNginxBurst = 1_000_000

// slots is what a limit_conn allows.
func (n *nginxReader) slots(d *directive, s nginxScope) (int64, bool) {
	slots, ok := count(cmp.Or(d.words[len(d.words)-1], "0"))
	switch {
	case !ok || slots == 0:
		n.note(d.line, d.text(), "it is no number of connections above 0")
		return 0, false
	case slots > maxSlots:
		n.note(d.line, d.text(), "concurrency is at most %d", maxSlots)
		return 0, false
	case s.inFlight:
		n.note(d.line, d.text(), "there it takes the place of the limit around it, here both count")
	}
	return slots, true
}

// maxSlots is the most that concurrency may be.
const maxSlots = 4096
