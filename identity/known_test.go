package identity_test

import (
	"errors"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
)

// TestKnownUnknownUnsure: what becomes of a key that is known, of one that is not, and of
// one of which nobody can say, which is never refused.
func TestKnownUnknownUnsure(t *testing.T) {
	hasher, err := identity.NewHasher(identity.NewSecret("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := identity.NewClientIP(identity.ClientIPOptions{LocalPeer: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	is := func(key string) func(string) bool {
		return func(hashed string) bool { return hashed == hasher.APIKey(key) }
	}
	key := identity.FirstOf(identity.Source{Kind: identity.KindAPIKey}, identity.Source{Kind: identity.KindAddress})
	address := identity.Descriptor{Entries: []identity.Preference{identity.FirstOf(identity.Source{Kind: identity.KindAddress})}, WhenUnverified: true}
	for _, test := range []struct {
		treatment               identity.Treatment
		refused, forbidden      bool
		descriptors, unverified int // of an unknown key; unverified 1 is yes
	}{
		{identity.Anonymous, false, false, 1, 0},
		{identity.CountUnverified, false, false, 2, 1},
		{identity.Refuse, true, false, 0, 0},
		{identity.Forbid, true, true, 0, 0},
	} {
		o := identity.Options{
			ClientIP: clients, Hasher: hasher,
			APIKeys:     &identity.APIKeyOptions{Headers: []string{"X-Api-Key"}, Known: is("good"), Unsure: is("new"), Unknown: test.treatment},
			Descriptors: []identity.Descriptor{{Entries: []identity.Preference{key}}, address},
		}
		e, err := identity.NewExtractor(o)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(key string) (id identity.Identity, err error) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-Api-Key", key)
			err = e.Extract(r, time.Unix(0, 0), &id)
			return id, err
		}
		if id, err := ask("good"); err != nil || id.Unverified || len(id.Descriptors) != 1 || id.Descriptors[0][0].Value != hasher.APIKey("good") {
			t.Errorf("treatment %d: a known key: %+v, %v", test.treatment, id, err)
		}
		if id, err := ask("new"); err != nil || !id.Unverified || len(id.Descriptors) != 2 || id.Descriptors[0][0].Value != hasher.APIKey("new") {
			t.Errorf("treatment %d: a key of which nobody can say: %+v, %v", test.treatment, id, err)
		}
		id, err := ask("bad")
		refused := (*identity.RefusedError)(nil)
		if errors.As(err, &refused) != test.refused || refused != nil && refused.Forbidden != test.forbidden ||
			!test.refused && (len(id.Descriptors) != test.descriptors || id.Unverified != (test.unverified == 1)) {
			t.Errorf("treatment %d: an unknown key: %+v, %v", test.treatment, id, err)
		}
		// A key of which nobody can say may have been invented.
		o.Descriptors = o.Descriptors[:1]
		if _, err := identity.NewExtractor(o); err == nil {
			t.Errorf("treatment %d: nothing counts on the address", test.treatment)
		}
		o.APIKeys = &identity.APIKeyOptions{Headers: []string{"X-Api-Key"}, Unsure: is("new")}
		if _, err := identity.NewExtractor(o); err == nil {
			t.Error("nobody knows, and somebody is unsure")
		}
	}
}
