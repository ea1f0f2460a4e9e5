package forwardauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/headgate/headgate/internal/ascii"
)

// Bounds of what describes a client's request.
const (
	// MaxURI bounds its path and query, in bytes. Servers commonly take 8 KiB.
	MaxURI = 16 << 10
	// MaxMethod bounds its method, in bytes; the longest registered one has 17.
	MaxMethod = 32
	// MaxHost bounds its host, in bytes: the longest DNS name and a port.
	MaxHost = 253 + 1 + 5
)

// ErrMalformed is wrapped by the error for a sub-request that does not describe a
// request.
var ErrMalformed = errors.New("malformed sub-request")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// Original describes a client's request, as a gateway tells of it.
type Original struct {
	Method, Host string
	// URI is path and query in origin-form, or "*".
	URI string
	// Peer is the address, with a port, of whoever is told to have sent Header.
	Peer string
	// Header belongs to the Request made of it. Its names are canonical.
	Header http.Header
}

// hopByHop are the fields that speak of one connection only (RFC 9110, section
// 7.6.1), and so say nothing of the client's request. Those that Connection names
// stay: a client could have what its gateway has set dropped by naming it.
var hopByHop = [...]string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length",
}

// Request returns the client's request, without a body. It is there to be looked
// at, never to be sent. The error wraps ErrMalformed and holds nothing that the
// client sent.
func (o *Original) Request(ctx context.Context) (*http.Request, error) {
	if len(o.Method) > MaxMethod || !ascii.IsToken(o.Method) {
		return nil, malformed("the method of the client's request is none")
	}
	if len(o.Host) > MaxHost || !isHost(o.Host) {
		return nil, malformed("the host of the client's request is none")
	}
	target, err := parseURI(o.URI)
	if err != nil {
		return nil, err
	}
	for _, name := range hopByHop {
		delete(o.Header, name)
	}
	r := &http.Request{
		Method: o.Method, URL: target, RequestURI: o.URI, Host: o.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: o.Header, Body: http.NoBody, RemoteAddr: o.Peer,
	}
	return r.WithContext(ctx), nil
}

// parseURI reads a request target of which the path decides what is limited. What
// servers read in different ways is refused.
func parseURI(uri string) (*url.URL, error) {
	if len(uri) > MaxURI {
		return nil, malformed("the URI of the client's request is longer than %d bytes", MaxURI)
	}
	if uri == "*" {
		return &url.URL{Path: "*"}, nil
	}
	if !strings.HasPrefix(uri, "/") {
		return nil, malformed("the URI of the client's request does not begin with a slash")
	}
	for i := range len(uri) {
		if c := uri[i]; c <= ' ' || c == 0x7f || c == '#' {
			return nil, malformed("the URI of the client's request holds a blank, a control character or a fragment")
		}
	}
	parsed, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, malformed("the URI of the client's request cannot be read")
	}
	return parsed, nil
}

// isHost reports whether s can be the value of Host; an empty one can.
func isHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`/\?#@,"<>`, c) >= 0 {
			return false
		}
	}
	return true
}

const forwardedFor = "X-Forwarded-For"

// checkForwardedFor holds that the gateway tells from whom it has the request: by
// the last entry of X-Forwarded-For. Without it all clients would be one, the
// gateway.
func checkForwardedFor(lines []string) error {
	if len(lines) == 0 {
		return malformed("no header field X-Forwarded-For; hint: the gateway must set it, or all of its clients are one")
	}
	last := lines[len(lines)-1]
	if i := strings.LastIndexByte(last, ','); i >= 0 {
		last = last[i+1:]
	}
	last = strings.Trim(last, " \t")
	if _, err := netip.ParseAddr(strings.Trim(last, "[]")); err == nil {
		return nil
	}
	if _, err := netip.ParseAddrPort(last); err == nil {
		return nil
	}
	return malformed("the last entry of X-Forwarded-For is no address; hint: the gateway must append that of its client")
}
