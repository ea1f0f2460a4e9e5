package proxy

import (
	"net/http"
	"net/textproto"
	"strings"
)

var upgradeConnection = []string{"Upgrade"}

// dropHopByHop takes out of h the fields that Connection names, and leaves no
// names there but that of Upgrade. It happens before anybody looks at the
// request: who limits must see what the backend will see, and a client must not
// strike out by Connection what is added on the way.
//
// An upgrade to another HTTP is taken out too. To ignore one is allowed, and
// requests in there would pass nobody who limits.
func dropHopByHop(h http.Header) {
	if names := h["Connection"]; len(names) > 0 {
		if len(names) > 1 || !harmless(names[0]) {
			dropNamed(h, names)
		}
	}
	if protocols := h["Upgrade"]; len(protocols) > 0 && carriesHTTP(protocols) {
		delete(h, "Upgrade")
		delete(h, "Http2-Settings")
	}
}

// dropNewer takes out what a request of HTTP/1.0 cannot ask for, and must not be heard for (RFC 9110,
// sections 7.8 and 10.1.1).
func dropNewer(h http.Header) {
	delete(h, "Upgrade")
	delete(h, "Expect")
}

// harmless reports whether the value of Connection is one name that stands for
// no field beyond those that always go.
func harmless(name string) bool {
	return strings.EqualFold(name, "keep-alive") || strings.EqualFold(name, "close") || strings.EqualFold(name, "upgrade")
}

func dropNamed(h http.Header, lines []string) {
	upgrade := false
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.TrimString(name)
			switch {
			case name == "" || strings.EqualFold(name, "te"):
			case strings.EqualFold(name, "upgrade"):
				upgrade = true
			default:
				h.Del(name)
			}
		}
	}
	if upgrade {
		h["Connection"] = upgradeConnection
	} else {
		delete(h, "Connection")
	}
}

// carriesHTTP reports whether a value of Upgrade names a protocol in which
// further requests of HTTP are sent.
func carriesHTTP(lines []string) bool {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.ToLower(textproto.TrimString(name))
			if strings.HasPrefix(name, "h2") || strings.HasPrefix(name, "h3") || strings.HasPrefix(name, "http") || strings.HasPrefix(name, "tls") {
				return true
			}
		}
	}
	return false
}

// isUpgrade reports whether r, without fields of one hop, asks for another
// protocol.
func isUpgrade(r *http.Request) bool {
	return r.ProtoMajor == 1 && len(r.Header["Upgrade"]) > 0 && namesUpgrade(r.Header["Connection"])
}

// granted reports whether res switches to the protocol that its request asked for. Package httputil
// refuses what does not, but only after the answer has counted as one.
func granted(res *http.Response) bool {
	asked := res.Request.Header.Get("Upgrade")
	return asked != "" && strings.EqualFold(asked, res.Header.Get("Upgrade")) && namesUpgrade(res.Header["Connection"])
}

// namesUpgrade reports whether lines of Connection, which are lists, name the field Upgrade.
func namesUpgrade(lines []string) bool {
	for _, line := range lines {
		for one := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(one), "upgrade") {
				return true
			}
		}
	}
	return false
}
