package httpshed_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/httpshed"
)

// FuzzHeader: whatever a client writes, it never gets a better priority than
// without the header, and two headers never a better one than either alone, not
// even from a peer that is trusted.
func FuzzHeader(f *testing.F) {
	f.Add("GET", "/v1/charges", "p0", "p3")
	f.Add("POST", "/v1/charges", " Critical ", "test")
	f.Add("\x00", "//..", "p", "\xff")
	classifier, err := overload.NewClassifier(overload.ClassifierOptions{
		Paths: []overload.PathPriority{{Method: "POST", Pattern: "/v1/charges", Priority: overload.P0}, {Pattern: "/v1/reports/", Priority: overload.P3}},
	})
	if err != nil {
		f.Fatal(err)
	}
	front := func(trusted bool) *httpshed.Middleware {
		return newMiddleware(f, httpshed.Options{
			Gate: overload.NewGate(nil, nil), Classifier: classifier, Header: "X-Priority", Trusted: func(*http.Request) bool { return trusted },
		})
	}
	clients, ours := front(false), front(true)
	f.Fuzz(func(t *testing.T, method, path, first, second string) {
		ask := func(m *httpshed.Middleware, values ...string) overload.Priority {
			return m.Priority(&http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{"X-Priority": values}})
		}
		if plain, asked := ask(clients), ask(clients, first, second); asked < plain {
			t.Errorf("%s %q with %q and %q: %v, without %v", method, path, first, second, asked, plain)
		}
		_, err1 := overload.ParsePriority(first)
		_, err2 := overload.ParsePriority(second)
		if both := ask(ours, first, second); err1 == nil && err2 == nil && both < max(ask(ours, first), ask(ours, second)) {
			t.Errorf("%s %q with %q and %q: %v", method, path, first, second, both)
		}
	})
}
