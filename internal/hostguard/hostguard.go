// Package hostguard refuses requests whose Host is not a name of this server.
package hostguard

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/problems"
)

// Handler answers only requests for a host by which operators may reach an address
// without TLS. A web page can have its own name lead to that address; the browser of an
// operator then sends its requests there and shows the page the answers. Such a page has
// a name under which anybody can register others, and that name is in Host. So these are
// refused, but for those of the setting. What nobody can register is let in: IP
// addresses, localhost, names without a dot, and names of a private network, such as
// headgate.monitoring of a Kubernetes Service. refused hears of each that is not.
func Handler(addr, allowed string, next http.Handler, refused func(*http.Request)) http.Handler {
	var known []string
	for name := range strings.SplitSeq(allowed, ",") {
		known = append(known, strings.TrimSpace(name))
	}
	if _, address, err := config.ListenAddress(addr); err == nil {
		if host, _, err := net.SplitHostPort(address); err == nil {
			known = append(known, host)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r.Host); !private(host) && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, host) }) {
			refused(r)
			problems.Answer(w, http.StatusMisdirectedRequest, "not the name of this server; hint: --allowed-hosts NAME, or ask by its IP address")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is the host of a Host field, without its port and a last dot.
func hostOf(field string) string {
	host := field
	if name, _, err := net.SplitHostPort(field); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}

// private reports whether nobody can register the name of a host.
func private(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if strings.ContainsAny(host, ":[]") {
		return false // no name of a host
	}
	// The top level alone is looked up, because the list also has suffixes of companies.
	host = strings.ToLower(host)
	if !strings.Contains(host, ".") {
		return true
	}
	_, public := publicsuffix.PublicSuffix(host[strings.LastIndexByte(host, '.')+1:])
	return !public
}
