package forwardauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/testissuer"
)

// bearers tells clients apart by the tokens of an issuer, which sign makes of claims.
func bearers(t *testing.T) (e *identity.Extractor, sign func(claims map[string]any) string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, set, 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := identity.NewKeySet(identity.KeySetOptions{File: file, Now: func() time.Time { return exampleNow }})
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	verifier, err := identity.NewTokenVerifier(identity.TokenOptions{Keys: keys, Algorithms: []identity.Algorithm{identity.ES256}, Issuer: "i", Audiences: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	subject := identity.FirstOf(identity.Source{Kind: identity.KindClaim, Name: "sub"})
	e, err = identity.NewExtractor(identity.Options{
		Tokens: verifier, TokenPlaces: identity.TokenPlaces{Bearer: true}, Descriptors: []identity.Descriptor{{Entries: []identity.Preference{subject}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, func(claims map[string]any) string { return testissuer.Sign(t, key, "k", claims) }
}

// TestCostOfAClaim: a request costs what the token of its client says, and one of which the token
// does not say it costs one, whatever the request before it did.
func TestCostOfAClaim(t *testing.T) {
	const costly = `domain: edge
descriptors:
  - key: user
    rate_limit: {name: tokens, unit: hour, requests_per_unit: 100, algorithm: fixed_window}
    cost: {from: claim, name: weight, max: 50}
`
	extractor, sign := bearers(t)
	h := setup{rules: costly, extractor: extractor}.make(t)
	for _, tt := range []struct {
		weight any
		left   string
	}{{10, "90"}, {nil, "89"}, {"20", "69"}, {nil, "68"}} {
		claims := map[string]any{"iss": "i", "aud": "a", "sub": "ann", "exp": exampleNow.Add(time.Hour).Unix()}
		if tt.weight != nil {
			claims["weight"] = tt.weight
		}
		r := recorded(t, "traefik")
		r.Header.Set("Authorization", "Bearer "+sign(claims))
		r.Header.Set("Weight", "50")
		w := ask(h, r)
		if left := field(w.Header(), "X-RateLimit-Remaining"); w.Code != http.StatusOK || left != tt.left {
			t.Errorf("weight %v: status %d, %s remain, want %s", tt.weight, w.Code, left, tt.left)
		}
	}
}
