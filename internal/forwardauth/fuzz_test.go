package forwardauth_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/forwardauth"
)

// FuzzSubRequest holds that whatever stands in a sub-request is answered with one
// of the statuses that are promised, and that what is decided has been described
// once and clearly.
func FuzzSubRequest(f *testing.F) {
	for _, name := range profileNames {
		f.Add("/auth/"+name, "POST", "/login?next=%2Fhome", "shop.example", "198.51.100.1, 203.0.113.9")
	}
	f.Add("/auth/envoy//login/../x?y", "GET", "*", "", "[2001:db8::1]:80")
	f.Add("/auth/nginx@%65dge", "GET,GET", "//host/x#y", "a b", "unix:")
	checker := &asked{}
	h := setup{checker: checker}.make(f)
	f.Fuzz(func(t *testing.T, target, method, uri, host, address string) {
		r := &http.Request{Method: method, RequestURI: target, Host: host, RemoteAddr: gateway, Header: http.Header{
			"X-Original-Method": {method}, "X-Forwarded-Method": {method},
			"X-Original-Uri": {uri}, "X-Forwarded-Uri": {uri},
			"X-Original-Host": {host}, "X-Forwarded-Host": {host},
			"X-Forwarded-For": {address},
		}}
		checker.requests = nil
		w := ask(h, r)
		if !slices.Contains([]int{200, 400, 403, 404}, w.Code) {
			t.Errorf("status %d", w.Code)
		}
		if got := checker.last(); (got != "") != (w.Code == 200) && !strings.Contains(w.Body.String(), "descriptor") {
			t.Errorf("status %d, asked %q", w.Code, got)
		}
	})
}

// FuzzOriginal holds that a request that is made of a description has a path that
// begins with a slash, and is the one described.
func FuzzOriginal(f *testing.F) {
	f.Add("GET", "/a/%2e%2e/b?c=d", "host:80")
	f.Add("OPTIONS", "*", "")
	f.Add("GET", "//host/a#b", "[::1]")
	f.Fuzz(func(t *testing.T, method, uri, host string) {
		o := forwardauth.Original{Method: method, URI: uri, Host: host, Peer: gateway, Header: http.Header{}}
		r, err := o.Request(t.Context())
		if err != nil {
			return
		}
		if r.URL.Host != "" || r.URL.Scheme != "" || r.URL.Fragment != "" || r.URL.Path != "*" && !strings.HasPrefix(r.URL.Path, "/") {
			t.Errorf("%q is read as %#v", uri, r.URL)
		}
		if r.Method != method || r.Host != host || len(uri) > forwardauth.MaxURI {
			t.Errorf("%q %q %q became %q %q", method, uri, host, r.Method, r.Host)
		}
	})
}
