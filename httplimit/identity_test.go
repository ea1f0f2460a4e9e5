package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// newExtractor tells the client behind a proxy of 10.0.0.0/8, and the API key.
func newExtractor(t testing.TB, conflicts identity.Treatment) *identity.Extractor {
	t.Helper()
	clients, err := identity.NewClientIP(identity.ClientIPOptions{
		Source: identity.ForwardedFor, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	hasher, err := identity.NewHasher(identity.NewSecret("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := identity.NewExtractor(identity.Options{
		ClientIP: clients, Hasher: hasher,
		APIKeys:   &identity.APIKeyOptions{Headers: []string{"X-Api-Key", "X-Other-Key"}},
		Conflicts: conflicts,
		Descriptors: []identity.Descriptor{
			{Entries: []identity.Preference{identity.FirstOf(identity.Source{Kind: identity.KindAPIKey}, identity.Source{Kind: identity.KindAddress})}},
			{Entries: []identity.Preference{identity.FirstOf(identity.Source{Kind: identity.KindAddress})}, WhenUnverified: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestIdentity(t *testing.T) {
	o := httplimit.Options{Identify: httplimit.Identity(newExtractor(t, identity.Refuse)), Challenge: "Bearer"}
	from := func(peer string, header ...string) *http.Request {
		r := newRequest("GET", "/", header...)
		r.RemoteAddr = peer
		return r
	}
	asked, status := identified(t, o, from("10.0.0.1:1", "X-Forwarded-For", "1.1.1.1, 203.0.113.9"))
	if status != 200 || fmt.Sprint(asked) != "[remote_address:203.0.113.9]" {
		t.Errorf("behind a proxy: status %d, asked %q", status, asked)
	}
	asked, status = identified(t, o, from("192.0.2.1:1", "X-Forwarded-For", "1.1.1.1", "X-Api-Key", "k-1"))
	if status != 200 || len(asked) != 2 || asked[1] != "remote_address:192.0.2.1" {
		t.Errorf("a key that nobody verified: status %d, asked %q", status, asked)
	}
	if asked, status = identified(t, o, from("192.0.2.1:1", "X-Api-Key", "k-1", "X-Other-Key", "k-2")); status != 400 || len(asked) != 0 {
		t.Errorf("two keys: status %d, asked %q", status, asked)
	}
	var told error
	o.OnError = func(_ *http.Request, err error) { told = err }
	if asked, status = identified(t, o, from("@")); status != 500 || len(asked) != 0 || !errors.Is(told, identity.ErrNoAddress) {
		t.Errorf("no address: status %d, asked %q, told %v", status, asked, told)
	}
	fallback := httplimit.First(httplimit.RemoteAddress, httplimit.Entries(func(*http.Request) ([]descriptor.Entry, error) {
		return []descriptor.Entry{{Key: "peer", Value: "local"}}, nil
	}))
	if asked, status = identified(t, httplimit.Options{Identify: fallback}, from("@")); status != 200 || len(asked) != 1 {
		t.Errorf("no address, and another way to identify: status %d, asked %q", status, asked)
	}
	o.Identify = httplimit.First(o.Identify, httplimit.RemoteAddress)
	if _, status = identified(t, o, from("192.0.2.1:1", "X-Api-Key", "k-1", "X-Other-Key", "k-2")); status != 400 {
		t.Errorf("refused, and another way to identify: status %d; a refusal is the end", status)
	}
}

// TestRefusedCredentials: whose fault it is decides the status.
func TestRefusedCredentials(t *testing.T) {
	for _, c := range []struct {
		reason    identity.Reason
		challenge string
		status    int
	}{
		{identity.TokenExpired, "Bearer", 401},
		{identity.TokenExpired, "", 400},
		{identity.APIKeyUnknown, "Bearer", 401},
		{identity.Conflicting, "Bearer", 400},
		{identity.TokenNoKeys, "Bearer", 503},
		{identity.TokenNoKeys, "", 503},
	} {
		refuse := func(*http.Request, *httplimit.Subject) error {
			return fmt.Errorf("who: %w", &identity.RefusedError{Reason: c.reason})
		}
		m := newMiddleware(t, newLimiter(t, ""), httplimit.Options{Domain: "api", Identify: refuse, Challenge: c.challenge})
		r := ask(m.Wrap(status(200)), newRequest("GET", "/"))
		if r.StatusCode != c.status || (r.Header.Get("Www-Authenticate") != "") != (c.status == 401) ||
			(r.Header.Get("Retry-After") != "") != (c.status == 503) || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s, challenge %q: status %d, header %v; want %d", c.reason, c.challenge, r.StatusCode, r.Header, c.status)
		}
	}
}

// An Extractor of package identity tells who asks: the client behind proxies here,
// and for which kind of path.
func ExampleIdentity() {
	clients, err := identity.NewClientIP(identity.ClientIPOptions{
		Source:  identity.ForwardedFor,
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		log.Fatal(err)
	}
	templates, err := identity.NewTemplates("/orders/{id}")
	if err != nil {
		log.Fatal(err)
	}
	extractor, err := identity.NewExtractor(identity.Options{
		ClientIP:  clients,
		Templates: templates,
		Descriptors: []identity.Descriptor{{Entries: []identity.Preference{
			identity.FirstOf(identity.Source{Kind: identity.KindAddress}),
			identity.FirstOf(identity.Source{Kind: identity.KindEndpoint}),
		}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	limits, err := httplimit.New(newExampleLimiter(), httplimit.Options{
		Limits:   []rules.NamedLimit{{Limit: limit.Must(limit.PerMinute(1)), Name: "each"}},
		Identify: httplimit.Identity(extractor),
	})
	if err != nil {
		log.Fatal(err)
	}
	api := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	for _, forwarded := range []string{"203.0.113.9", "1.1.1.1, 203.0.113.9", "203.0.113.10"} {
		r := httptest.NewRequest("GET", "/orders/7", nil)
		r.RemoteAddr = "10.0.0.1:40000"
		r.Header.Set("X-Forwarded-For", forwarded)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 429
	// 200
}
