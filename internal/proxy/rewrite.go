package proxy

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"

	"github.com/headgate/headgate/internal/ascii"
)

// rewrite makes the request for the backend. Package httputil has taken out the
// fields of one hop, X-Forwarded-For, -Host and -Proto, and Forwarded.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	target(out.URL, in.URL, p.options.To)
	if p.options.RewriteHost {
		out.Host = ""
	}
	p.passTrailer(out, in)
	h := out.Header
	// A connection of HTTP/1 that is to be used again needs the body also where the backend refuses it
	// unread: net/http would ask the client for a body that nobody wants, and wait for it. Over https
	// it may be HTTP/2, which needs no body then, and whose connection others use at the same time.
	out.Close = out.URL.Scheme == "http" && len(h["Expect"]) > 0
	dropLookalikes(h)
	if p.options.PeerTrusted != nil && p.options.PeerTrusted(in) {
		p.appendHop(h, in)
		return
	}
	dropHearsay(h)
	peer, _ := peerOf(in)
	set(h, "X-Forwarded-For", peer)
	set(h, "X-Forwarded-Host", in.Host)
	set(h, "X-Forwarded-Proto", scheme(in))
}

// dropHearsay removes the fields by which proxies tell what they saw of the client, its
// certificate and its name among them. They are as good as who wrote them.
func dropHearsay(h http.Header) {
	for name := range h {
		if name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			delete(h, name)
		}
	}
}

// dropLookalikes removes fields that many backends cannot tell from those by which
// proxies tell what they saw: CGI and its heirs (WSGI, Rack, PHP) make one name of
// X_Forwarded_For and X-Forwarded-For. No proxy writes them so.
func dropLookalikes(h http.Header) {
	for name := range h {
		if strings.IndexByte(name, '_') < 0 {
			continue
		}
		read := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if read == "x-real-ip" || strings.HasPrefix(read, "x-forwarded-") {
			delete(h, name)
		}
	}
}

// target makes out lead to the backend. The query is sent as it came: package
// httputil would write one anew that it reads otherwise than some servers do.
func target(out, in, to *url.URL) {
	out.RawQuery = in.RawQuery
	out.Scheme, out.Host, out.User = to.Scheme, to.Host, nil
	path := url.URL{Path: in.Path, RawPath: escapeStray(in.RawPath)}
	out.RawPath = path.RawPath
	if to.Path == "" || to.Path == "/" || in.Path == "*" {
		return
	}
	joined := to.JoinPath()
	out.Path = strings.TrimSuffix(joined.Path, "/") + in.Path
	if path.RawPath != "" || joined.RawPath != "" {
		out.RawPath = strings.TrimSuffix(joined.EscapedPath(), "/") + path.EscapedPath()
	}
}

// escapeStray escapes the bytes of a path as it came that may stand in none, such as "|" and those
// that are not ASCII. Package url would escape such a path anew as a whole, and so make of %2F a slash.
func escapeStray(path string) string {
	if ascii.Only(path, inPaths) {
		return path
	}
	var escaped strings.Builder
	for i := range len(path) {
		if one := path[i : i+1]; ascii.Only(one, inPaths) {
			escaped.WriteString(one)
		} else {
			escaped.WriteString(url.PathEscape(one))
		}
	}
	return escaped.String()
}

// inPaths are what may stand in paths beside letters and digits (RFC 3986, section 3.3), and
// brackets, which browsers leave alone and package url too.
const inPaths = "/%-._~!$&'()*+,;=:@[]"

// appendHop adds what is known of this hop to what a trusted peer wrote of those
// before.
func (p *Proxy) appendHop(h http.Header, in *http.Request) {
	peer, addr := peerOf(in)
	if prior := in.Header["X-Forwarded-For"]; len(prior) > 0 {
		if peer != "" {
			peer = ", " + peer
		}
		peer = strings.Join(prior, ", ") + peer
	}
	set(h, "X-Forwarded-For", peer)
	keep(h, in, "X-Forwarded-Host", in.Host)
	keep(h, in, "X-Forwarded-Proto", scheme(in))
	if prior := in.Header["Forwarded"]; len(prior) > 0 {
		set(h, "Forwarded", strings.Join(prior, ", ")+", for="+node(addr))
	}
}

// keep passes on the values of a field, or says ours where there are none.
func keep(h http.Header, in *http.Request, name, ours string) {
	if prior := in.Header[name]; len(prior) > 0 {
		h[name] = prior
		return
	}
	set(h, name, ours)
}

func set(h http.Header, name, value string) {
	if value != "" {
		h[name] = []string{value}
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// peerOf returns the address of the peer, as text for X-Forwarded-For and parsed;
// "" for one that has no IP address.
func peerOf(r *http.Request) (string, netip.Addr) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "", netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "", netip.Addr{}
	}
	host, _, _ = strings.Cut(host, "%")
	return host, addr
}

// node writes an address as RFC 7239 has it, section 6.
func node(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "unknown"
	case addr.Is6() && !addr.Is4In6():
		return `"[` + addr.WithZone("").String() + `]"`
	}
	return addr.Unmap().String()
}
