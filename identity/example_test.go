package identity_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
)

// The API key, else the address; and for keys that nobody verified the address as
// well.
func Example() {
	clients, err := identity.NewClientIP(identity.ClientIPOptions{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Source:  identity.ForwardedFor,
	})
	if err != nil {
		panic(err)
	}
	templates, err := identity.NewTemplates("/users/{id}", "/users/{id}/posts")
	if err != nil {
		panic(err)
	}
	hasher, err := identity.NewHasher(identity.NewSecret("32 random bytes, equal on all nodes"))
	if err != nil {
		panic(err)
	}
	extractor, err := identity.NewExtractor(identity.Options{
		ClientIP: clients, Templates: templates, Hasher: hasher,
		APIKeys: &identity.APIKeyOptions{Headers: []string{"X-API-Key"}},
		Descriptors: []identity.Descriptor{
			{Entries: []identity.Preference{
				identity.FirstOf(identity.Source{Kind: identity.KindAPIKey}, identity.Source{Kind: identity.KindAddress}),
				identity.FirstOf(identity.Source{Kind: identity.KindEndpoint}),
			}},
			{Entries: []identity.Preference{identity.FirstOf(identity.Source{Kind: identity.KindAddress})}, WhenUnverified: true},
		},
	})
	if err != nil {
		panic(err)
	}

	r := httptest.NewRequest("GET", "/users/7/posts", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.9")
	var id identity.Identity
	show := func() {
		if err := extractor.Extract(r, time.Now(), &id); err != nil {
			panic(err)
		}
		for _, entries := range id.Descriptors {
			fmt.Println(descriptor.Format(entries))
		}
	}
	show()
	r.Header.Set("X-API-Key", "sk_live_1")
	show()
	// Output:
	// remote_address:203.0.113.9,endpoint:GET /users/{id}/posts
	// api_key:jEZV-InJHle10XJefarMSg,endpoint:GET /users/{id}/posts
	// remote_address:203.0.113.9
}

func ExampleClientIP() {
	clients, err := identity.NewClientIP(identity.ClientIPOptions{Source: identity.ForwardedFor, Hops: 1})
	if err != nil {
		panic(err)
	}
	r := &http.Request{RemoteAddr: "192.0.2.1:99", Header: http.Header{"X-Forwarded-For": {"invented", "2001:db8::7"}}}
	addr, err := clients.Addr(r)
	if err != nil {
		panic(err)
	}
	fmt.Println(addr, string(identity.AppendNetwork(nil, addr, identity.Prefixes{})))
	// Output: 2001:db8::7 2001:db8::/64
}

func ExampleTemplates_Match() {
	templates, err := identity.NewTemplates("/users/{id}", "/users/me", "/static/{file...}")
	if err != nil {
		panic(err)
	}
	for _, path := range []string{"/users/7", "/users/me", "//users/./8/", "/static/css/a.css", "/wp-login.php"} {
		template, _ := templates.Match(path)
		fmt.Println(template)
	}
	// Output:
	// /users/{id}
	// /users/me
	// /users/{id}
	// /static/{file...}
	// unmatched
}

func ExampleStripQuery() {
	fmt.Println(identity.StripQuery("page=2&api_key=sk_live_1&sort=name", "api_key"))
	// Output: page=2&sort=name
}

// Keys are read once before serving, and in the background from then on.
func ExampleKeySet() {
	publisher := httptest.NewServer(http.NotFoundHandler())
	defer publisher.Close()
	keys, err := identity.NewKeySet(identity.KeySetOptions{URL: publisher.URL, AllowLoopback: true})
	if err != nil {
		panic(err)
	}
	fmt.Println(keys.Refresh(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- keys.Run(ctx) }()
	cancel()
	fmt.Println(errors.Is(<-ended, context.Canceled))
	// Output:
	// identity: read the key set: status 404
	// true
}
