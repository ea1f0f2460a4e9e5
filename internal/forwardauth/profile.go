package forwardauth

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Prefix begins the path of every sub-request; the name of a profile follows.
const Prefix = "/auth/"

// profile says how one gateway asks and wants to be answered.
type profile struct {
	name string
	// method, uri and host name the header fields that hold those of the client's
	// request. Where they are empty the sub-request has the method and the host of
	// the client's, and its path is that of the profile with the client's path and
	// query appended.
	method, uri, host string
	// forbids turns every answer but 200 into 403, which is all that the gateway
	// understands; X-RateLimit-Status then holds the true status.
	forbids bool
	// tells sends X-RateLimit-Status, by which the gateway knows an answer of ours
	// from an error on the way.
	tells bool
	// removes, when not "", is the field by which the gateway is told what to drop of
	// the client's request.
	removes string
	// bodiless leaves the body out, which the gateway would drop.
	bodiless bool
}

// profiles are all there are, in the order of their names.
var profiles = [...]profile{
	{name: "apisix", method: "X-Forwarded-Method", uri: "X-Forwarded-Uri", host: "X-Forwarded-Host"},
	{name: "caddy", method: "X-Forwarded-Method", uri: "X-Forwarded-Uri", host: "X-Forwarded-Host"},
	{name: "envoy", removes: "X-Envoy-Auth-Headers-To-Remove"},
	{name: "haproxy", method: "X-Original-Method", uri: "X-Original-Uri", host: "X-Original-Host", tells: true},
	{name: "kong", method: "X-Original-Method", uri: "X-Original-Uri", host: "X-Original-Host", tells: true},
	{name: "nginx", method: "X-Original-Method", uri: "X-Original-Uri", host: "X-Original-Host", forbids: true, tells: true, bodiless: true},
	{name: "traefik", method: "X-Forwarded-Method", uri: "X-Forwarded-Uri", host: "X-Forwarded-Host"},
}

// profileNames is how errors list them.
func profileNames() string {
	var names []string
	for i := range profiles {
		names = append(names, profiles[i].name)
	}
	return strings.Join(names, ", ")
}

// statusField holds the status that is meant where the gateway cannot be told by
// the status itself.
const statusField = "X-RateLimit-Status"

// target is what the path of a sub-request asks for.
type target struct {
	profile *profile
	// domain is named after the profile (/auth/nginx@edge); "" if none is.
	domain string
	// rest is the path and query of the client's request, where it stands there.
	rest string
}

// parseTarget reads the request target of a sub-request: /auth/PROFILE or
// /auth/PROFILE@DOMAIN, and for Envoy /auth/envoy or /auth/envoy@DOMAIN followed by
// the client's. It returns no profile for anything else.
//
// The domain is no query parameter since Caddy, told a path without a query,
// appends the client's.
func parseTarget(uri string) target {
	name, ok := strings.CutPrefix(uri, Prefix)
	if !ok {
		return target{}
	}
	rest := ""
	if i := strings.IndexAny(name, "/?"); i >= 0 {
		name, rest = name[:i], name[i:]
	}
	name, domain, named := strings.Cut(name, "@")
	domain, err := url.PathUnescape(domain)
	if err != nil || named && domain == "" {
		return target{}
	}
	for i := range profiles {
		p := &profiles[i]
		switch {
		case p.name != name:
		case p.uri == "":
			if !strings.HasPrefix(rest, "/") {
				rest = "/" + rest
			}
			return target{p, domain, rest}
		case !strings.HasPrefix(rest, "/"):
			return target{p, domain, ""}
		}
	}
	return target{}
}

// original returns the client's request that the sub-request r describes. r's
// header becomes part of it.
func (t *target) original(ctx context.Context, r *http.Request) (*http.Request, error) {
	p := t.profile
	o := Original{Method: r.Method, URI: t.rest, Host: r.Host, Peer: r.RemoteAddr, Header: r.Header}
	if p.uri != "" {
		var err error
		if o.Method, err = p.one(r.Header, p.method, true); err != nil {
			return nil, err
		}
		if o.URI, err = p.one(r.Header, p.uri, true); err != nil {
			return nil, err
		}
		if o.Host, err = p.one(r.Header, p.host, false); err != nil {
			return nil, err
		}
	}
	if err := checkForwardedFor(r.Header[forwardedFor]); err != nil {
		return nil, err
	}
	return o.Request(ctx)
}

// one takes the field called name out of h, of which there must be one at most.
func (p *profile) one(h http.Header, name string, required bool) (string, error) {
	values := h[name]
	switch {
	case len(values) > 1:
		return "", malformed("%d header fields %s; hint: the gateway must set it, not add to what its client sent", len(values), name)
	case len(values) == 1 && values[0] != "":
		delete(h, name)
		return values[0], nil
	case required:
		return "", malformed("no header field %s; hint: see the example for %s", name, p.name)
	}
	delete(h, name)
	return "", nil
}
