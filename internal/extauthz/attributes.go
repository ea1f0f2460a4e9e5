package extauthz

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/headgate/headgate/internal/forwardauth"
)

// originalOf returns the client's request that attributes describe. The error wraps
// forwardauth.ErrMalformed.
func originalOf(ctx context.Context, attributes *authpb.AttributeContext) (*http.Request, error) {
	asked := attributes.GetRequest().GetHttp()
	o := forwardauth.Original{
		Method: asked.GetMethod(),
		URI:    asked.GetPath(),
		Host:   asked.GetHost(),
		Peer:   addressOf(attributes.GetSource().GetAddress()),
		Header: headerOf(asked),
	}
	if o.Method == http.MethodConnect && o.URI == "" { // it names a host to connect to, and no path
		o.URI = "*"
	}
	return o.Request(ctx)
}

// addressOf returns the address of the client as package net writes it; "" for one
// without an IP address.
func addressOf(a *corepb.Address) string {
	s := a.GetSocketAddress()
	if s == nil {
		return ""
	}
	return net.JoinHostPort(s.GetAddress(), strconv.FormatUint(uint64(s.GetPortValue()), 10))
}

// headerOf returns the header of the client's request. Where Envoy was not told to
// send raw headers, it has joined those of one name with commas.
func headerOf(asked *authpb.AttributeContext_HttpRequest) http.Header {
	h := make(http.Header, len(asked.GetHeaders())+len(asked.GetHeaderMap().GetHeaders()))
	for name, value := range asked.GetHeaders() {
		add(h, name, value)
	}
	for _, field := range asked.GetHeaderMap().GetHeaders() {
		value := field.GetValue()
		if raw := field.GetRawValue(); len(raw) > 0 {
			value = string(raw)
		}
		add(h, field.GetKey(), value)
	}
	return h
}

// add adds a field but for those that HTTP/2 begins with a colon, which are told
// apart from the header.
func add(h http.Header, name, value string) {
	if !strings.HasPrefix(name, ":") {
		h.Add(name, value)
	}
}
