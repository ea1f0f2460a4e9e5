//go:build !race

// The race detector empties pools at random, so allocations are counted without
// it.

package identity

import (
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
)

// The paths that every request takes make as little garbage as can be: an entry's
// text, where it is not a part of the request already.
func TestAllocations(t *testing.T) {
	clients, hasher, templates := newClientIP(t, ourProxies), newHasher(t), newTemplates(t, "/users/{id}", "/users/me")
	walk := from("10.0.0.1:99", xff, "1.1.1.1, 203.0.113.9", "10.2.3.4, [2001:db8:aaaa::7]:80")
	o := ourProxies
	o.Source = Forwarded
	forwarded := newClientIP(t, o)
	rfc := from("10.0.0.1:99", "Forwarded", `for=1.1.1.1, for="[2001:db8::1]:99";proto=https, for=10.2.3.4`)
	platformed, err := NewExtractor(platform(t))
	if err != nil {
		t.Fatal(err)
	}
	byKey, byAddress := get("/users/7", "X-Api-Key", "good"), get("/users/7")
	byToken := get("/users/7", "Authorization", "Bearer "+sign(t, signers().ec, `{"alg":"ES256","kid":"e"}`, claims()))
	var id Identity
	for _, test := range []struct {
		name string
		most float64
		do   func()
	}{
		{"address in X-Forwarded-For", 0, func() { _, _ = clients.Addr(walk) }},
		{"address in Forwarded", 0, func() { _, _ = forwarded.Addr(rfc) }},
		{"template", 0, func() { templates.Match("/users/7") }},
		{"hash", 1, func() { hasher.APIKey("good") }},
		// The name of the key or the text of the address, and "GET /users/{id}".
		{"extract by API key", 2, func() { _ = platformed.Extract(byKey, noon, &id) }},
		{"extract by address", 2, func() { _ = platformed.Extract(byAddress, noon, &id) }},
		{"extract by a token seen before", 2, func() { _ = platformed.Extract(byToken, noon, &id) }},
	} {
		if got := alloctest.PerRun(200, test.do); got > test.most {
			t.Errorf("%s: %v allocations, want %v at most", test.name, got, test.most)
		}
	}
}
