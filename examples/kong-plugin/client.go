package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Kong/go-pdk"
)

// maxFields is how many header fields Kong tells of at most. Of a request with as many
// nobody knows whether there are more, which Headgate would not see.
const maxFields = 1000

// errTooManyFields is of a client's request.
var errTooManyFields = errors.New("the request has too many header fields")

// client is the request of a client, as Kong tells of it.
type client struct {
	method string
	// header is that of the question to Headgate.
	header http.Header
	// forged are the names, as the client wrote them, under which only Headgate may speak
	// to the service behind.
	forged []string
}

// Fields that describe the client's request to Headgate.
const (
	methodField  = "X-Original-Method"
	uriField     = "X-Original-Uri"
	hostField    = "X-Original-Host"
	addressField = "X-Forwarded-For"
	tokenField   = "X-Headgate-Token"
)

// keptBack are fields of the client that are not for Headgate: they speak of a connection
// or a body, or Headgate believes them and they are set here.
var keptBack = names{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Content-Length", "Expect", "Host", "Accept-Encoding",
	methodField, uriField, hostField, addressField, tokenField,
}

// describe returns the request of the client. Its errors are of what the client sent, and
// hold nothing of it.
func (c *Config) describe(kong *pdk.PDK) (*client, error) {
	fields, err := kong.Request.GetHeaders(maxFields)
	if err != nil {
		return nil, fmt.Errorf("the header of the request cannot be read: %w", err)
	}
	r := &client{header: http.Header{}}
	if err := c.copyFields(r, fields); err != nil {
		return nil, err
	}
	told := []struct {
		name string
		of   func() (string, error)
	}{
		{methodField, kong.Request.GetMethod},
		{uriField, kong.Request.GetPathWithQuery},
		{hostField, kong.Request.GetHost},
		{addressField, kong.Client.GetForwardedIp},
	}
	for _, t := range told {
		value, err := t.of()
		if err != nil {
			return nil, fmt.Errorf("%s of the request cannot be read: %w", t.name, err)
		}
		if !isValue(value) {
			return nil, fmt.Errorf("%s of the request holds a control character", t.name)
		}
		r.header.Set(t.name, value)
	}
	r.method = r.header.Get(methodField)
	return r, c.nameCaller(kong, r)
}

// copyFields takes over what Headgate may see of the client's header.
func (c *Config) copyFields(r *client, fields map[string][]string) error {
	count := 0
	for name, values := range fields {
		if count += len(values); count >= maxFields {
			return errTooManyFields
		}
		// Applications of CGI, WSGI, Rack and PHP read both as one.
		if c.UpstreamHeaders.has(strings.ReplaceAll(name, "_", "-")) {
			r.forged = append(r.forged, name)
		}
		if keptBack.has(name) || c.isOurs(name) || len(c.RequestHeaders) > 0 && !c.RequestHeaders.has(name) {
			continue
		}
		if !isName(name) || !all(values, isValue) {
			return errors.New("the header of the request holds what cannot be told to Headgate")
		}
		key := http.CanonicalHeaderKey(name)
		r.header[key] = append(r.header[key], values...)
	}
	if r.header.Get("User-Agent") == "" {
		r.header["User-Agent"] = []string{""} // none, and not that of Go
	}
	return nil
}

// isOurs reports whether the plugin alone may set a field, whether or not it does.
func (c *Config) isOurs(name string) bool {
	return slices.ContainsFunc([]string{c.ConsumerHeader, c.CredentialHeader, c.CheckIDHeader}, func(ours string) bool {
		return ours != "" && strings.EqualFold(ours, name)
	})
}

// nameCaller tells whom plugins of Kong that ran before have found.
func (c *Config) nameCaller(kong *pdk.PDK, r *client) error {
	if c.ConsumerHeader != "" {
		consumer, err := kong.Client.GetConsumer()
		if err != nil {
			return fmt.Errorf("the consumer cannot be read: %w", err)
		}
		name := map[string]string{byUsername: consumer.Username, byCustomID: consumer.CustomId, byID: consumer.Id}[c.ConsumerBy]
		if err := r.name(c.ConsumerHeader, name); err != nil {
			return err
		}
	}
	if c.CredentialHeader != "" {
		credential, err := kong.Client.GetCredential()
		if err != nil {
			return fmt.Errorf("the credential cannot be read: %w", err)
		}
		return r.name(c.CredentialHeader, credential.Id)
	}
	return nil
}

func (r *client) name(field, value string) error {
	switch {
	case value == "":
		return nil
	case !isValue(value):
		return fmt.Errorf("what Kong tells for %s holds a control character", field)
	}
	r.header.Set(field, value)
	return nil
}

func all(values []string, holds func(string) bool) bool {
	return !slices.ContainsFunc(values, func(s string) bool { return !holds(s) })
}
