package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/Kong/go-pdk"
)

// ofConnection are fields of Headgate's answer that are not for the client.
var ofConnection = names{"Connection", "Keep-Alive", "Trailer", "Upgrade", "Content-Length", "Transfer-Encoding", "Date", statusField}

// Access is called by Kong for each request, after the plugins that find out who asks: it
// asks Headgate, and lets the request pass or answers it. The fields for clients are set
// here, because a plugin with a phase of its own for responses would make Kong hold each
// response in memory until it is whole.
func (c *Config) Access(kong *pdk.PDK) {
	c.once.Do(func() {
		if c.fault = c.check(); c.fault == nil {
			c.asker = newAsker(c)
		}
	})
	if c.fault != nil {
		_ = kong.Log.Err("headgate: the configuration: " + c.fault.Error())
		refuse(kong, http.StatusInternalServerError)
		return
	}
	r, err := c.describe(kong)
	switch {
	case errors.Is(err, errTooManyFields):
		refuse(kong, http.StatusRequestHeaderFieldsTooLarge)
		return
	case err != nil:
		refuse(kong, http.StatusBadRequest)
		return
	}
	got, err := c.asker.ask(context.Background(), r)
	switch {
	case err != nil:
		c.without(kong, r, err)
	case got.status == http.StatusOK:
		c.pass(kong, r, got.header)
	default:
		deny(kong, r, got)
	}
}

// without is what becomes of a request that Headgate did not decide.
func (c *Config) without(kong *pdk.PDK, r *client, err error) {
	if c.asker.mayTell(time.Now()) {
		_ = kong.Log.Err("headgate did not answer, so requests are decided by failure_mode (" + c.FailureMode + "): " + err.Error())
	}
	if c.FailureMode == failOpen {
		c.pass(kong, r, nil)
		return
	}
	kong.Response.Exit(http.StatusServiceUnavailable, nil, map[string][]string{"Retry-After": {"1"}, "Cache-Control": {"no-store"}})
}

// pass lets a request pass with what Headgate has to tell, which may be nothing. The PDK
// returns errors when Kong has gone, and nobody is left to be told.
func (c *Config) pass(kong *pdk.PDK, r *client, told http.Header) {
	for _, name := range r.forged {
		_ = kong.ServiceRequest.ClearHeader(name)
	}
	if fields := selected(told, c.UpstreamHeaders); len(fields) > 0 {
		_ = kong.ServiceRequest.SetHeaders(fields)
	}
	if fields := selected(told, c.ClientHeaders); len(fields) > 0 {
		_ = kong.Response.SetHeaders(fields)
	}
}

func selected(told http.Header, wanted names) map[string][]string {
	fields := map[string][]string{}
	for _, name := range wanted {
		if values := told.Values(name); len(values) > 0 {
			fields[name] = values
		}
	}
	return fields
}

// deny answers a request as Headgate says.
func deny(kong *pdk.PDK, r *client, got *answer) {
	fields := map[string][]string{}
	for name, values := range got.header {
		if !ofConnection.has(name) {
			fields[name] = values
		}
	}
	if r.method == http.MethodHead {
		got.body = nil
	}
	kong.Response.Exit(got.status, got.body, fields)
}

// refuse answers a request of which Headgate was not asked.
func refuse(kong *pdk.PDK, status int) {
	kong.Response.Exit(status, nil, map[string][]string{"Cache-Control": {"no-store"}})
}
