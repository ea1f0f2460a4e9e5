package app

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/headgate/headgate/rules"
)

// quickstart is the domain of examples/rules/quickstart.yaml, and quickstartBody
// a check that its rules deny from the twenty-first in a minute on.
const (
	quickstart     = "api_platform"
	quickstartBody = `{"domain":"api_platform","descriptors":[{"entries":[{"key":"api_key","value":"abc123"},{"key":"endpoint","value":"POST /api/v1/orders"}]}]}`
	callerBody     = `{"key":"user:42","limit":3,"window_ms":60000,"hits":1}`
)

// hinted is how callers are served: whether they may name limits, and whether by TLS.
type hinted struct{ callerLimits, tls bool }

// printHints prints commands to try: one by the quick start's rules, if they are
// in force, and one that brings its own limit, if that is served.
func printHints(w io.Writer, listener net.Listener, set *rules.Set, h hinted) {
	if listener == nil || listener.Addr().Network() != "tcp" {
		return
	}
	url := "http://" + reachable(listener) + "/v1/check"
	if h.tls {
		url = "https" + strings.TrimPrefix(url, "http")
	}
	fmt.Fprintln(w, "\nTry in another terminal, again and again, until the answer is 429:")
	if set != nil && set.Domain(quickstart) != nil {
		fmt.Fprintf(w, "\n  curl -i -d '%s' %s\n", quickstartBody, url)
	}
	if h.callerLimits {
		fmt.Fprintf(w, "\n  curl -i -d '%s' %s\n", callerBody, url)
	}
	fmt.Fprintln(w)
}

// printDashboardHint says where the dashboard is and what it asks for; nothing without
// one. tokens is the file of those who may log in.
func printDashboardHint(w io.Writer, listener net.Listener, tls bool, tokens string) {
	if listener == nil || listener.Addr().Network() != "tcp" {
		return
	}
	scheme := "http"
	if tls {
		scheme = "https"
	}
	fmt.Fprintf(w, "Watch it at %s://%s/ (log in with a token that is listed, by its hash, in %s).\n\n", scheme, reachable(listener), tokens)
}
